"""Audit events and the head of their chain, written by `calculet.audit.services` only: the database refuses changes.

Beside them, what is known about the chain: how far it was walked, and where its head was anchored; and saved views.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from calculet.audit.chain import GENESIS


class Event(models.Model):
    """One act. No foreign keys: the line stays when the person or the subject goes."""

    sequence = models.PositiveBigIntegerField(primary_key=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    user_id = models.BigIntegerField(null=True)
    origin = models.CharField(max_length=255, blank=True)
    act = models.CharField(max_length=64)
    host = models.CharField(max_length=255, blank=True)
    pack = models.CharField(max_length=100, blank=True)
    subject_kind = models.CharField(max_length=64, blank=True)
    subject_id = models.CharField(max_length=64, blank=True)
    subject_label = models.CharField(max_length=255, blank=True)
    detail = models.TextField(default="{}")  # canonical JSON as text: what is hashed is what is stored
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering: ClassVar = ["-sequence"]
        indexes: ClassVar = [
            models.Index(fields=["at"], name="event_by_time"),
            models.Index(fields=["actor", "-sequence"], name="event_by_actor"),
            models.Index(fields=["act", "-sequence"], name="event_by_act"),
            models.Index(fields=["host", "-sequence"], name="event_by_host"),
            models.Index(fields=["pack", "-sequence"], name="event_by_pack"),
            models.Index(fields=["subject_kind", "subject_id", "-sequence"], name="event_by_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.sequence} {self.act} by {self.actor}"


class Head(models.Model):
    """The chain's last link: one row, locked while an event is added, so that the chain never forks."""

    sequence = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=GENESIS)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=models.Q(pk=1), name="audit_has_one_head")]

    def __str__(self) -> str:
        return f"event {self.sequence}, {self.hash}"


class Walk(models.Model):
    """How far the chain was found whole, and what was found wrong: one row, so that pages need not walk it."""

    sequence = models.PositiveBigIntegerField(default=0)  # whole up to this event …
    hash = models.CharField(max_length=64, default=GENESIS)  # … which has this hash
    at = models.DateTimeField(null=True)  # when that was found; null: never walked
    whole_at = models.DateTimeField(null=True)  # when the chain was last walked from its first event on
    broken_at = models.PositiveBigIntegerField(null=True)  # the first event that does not hold
    reason = models.TextField(blank=True)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=models.Q(pk=1), name="audit_has_one_walk")]

    def __str__(self) -> str:
        return f"walked up to event {self.sequence}"


class Anchor(models.Model):
    """The head of the chain at some time, told to the world outside the database. Its file is what proves; the row
    says what was delivered, and fixes the line before it is written, so that it is written once."""

    day = models.DateField(null=True, unique=True)  # the day (UTC) whose anchor it is; null: made by hand
    at = models.DateTimeField()
    sequence = models.PositiveBigIntegerField()
    hash = models.CharField(max_length=64)
    public_key = models.CharField(max_length=64, blank=True)  # Ed25519, hexadecimal; empty: not signed
    signature = models.CharField(max_length=128, blank=True)
    unsigned_because = models.TextField(blank=True)  # a key is configured and could not be used
    written_at = models.DateTimeField(null=True)
    posted_at = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True)  # of the latest attempt to deliver it
    not_before = models.DateTimeField(null=True)  # when the next attempt may begin

    class Meta:
        ordering: ClassVar = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"anchor of event {self.sequence}"


class SavedView(models.Model):
    """A filter of the log under a name of a person's own."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="audit_views")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=2000)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["person", "name"], name="audit_view_name_once_per_person"),
        ]

    def __str__(self) -> str:
        return self.name
