"""Checks: every comparison of a digest expected with a digest found, kept for ever."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from transfers.models.packs import Build


class Check(models.Model):
    """One comparison, or for members one row for all that matched and one row for each that did not.

    The members themselves, with their digests, stand in the build's member list and in members.sha256.
    """

    build = models.ForeignKey(Build, on_delete=models.PROTECT, related_name="checks")
    level = models.CharField(max_length=16)  # transfers.engine.types.CheckLevel
    subject = models.BinaryField(default=b"")  # chunk number as text, member name as bytes
    offset = models.PositiveBigIntegerField(default=0)
    length = models.PositiveBigIntegerField(default=0)
    count = models.PositiveBigIntegerField(default=1)
    expected = models.CharField(max_length=64, blank=True)
    found = models.CharField(max_length=64, blank=True)
    outcome = models.CharField(max_length=32)  # transfers.engine.types.Outcome
    message = models.TextField(blank=True)
    seconds = models.FloatField(default=0)
    machine = models.CharField(max_length=255)
    software = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["build", "pk"]
        indexes: ClassVar = [models.Index(fields=["build", "level"], name="check_of_build_by_level")]

    def __str__(self) -> str:
        return f"{self.level} check of {self.build}: {self.outcome}"


class Report(models.Model):
    """A report folder that was made for a build, with the digest of its report.json."""

    build = models.ForeignKey(Build, on_delete=models.PROTECT, related_name="reports")
    folder = models.CharField(max_length=1024)  # below the landing's path
    digest = models.CharField(max_length=64)
    made_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-made_at"]

    def __str__(self) -> str:
        return f"report of {self.build}"
