"""Audit events and the head of their chain. Written by `calculet.audit.services` only; the database refuses changes."""

from __future__ import annotations

from typing import ClassVar

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
    subject_kind = models.CharField(max_length=64, blank=True)
    subject_id = models.CharField(max_length=64, blank=True)
    subject_label = models.CharField(max_length=255, blank=True)
    detail = models.TextField(default="{}")  # canonical JSON as text: what is hashed is what is stored
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering: ClassVar = ["-sequence"]
        indexes: ClassVar = [
            models.Index(fields=["actor", "-sequence"], name="event_by_actor"),
            models.Index(fields=["act", "-sequence"], name="event_by_act"),
            models.Index(fields=["host", "-sequence"], name="event_by_host"),
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
