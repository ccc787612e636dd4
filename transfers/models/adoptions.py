"""Bytes that are on this machine already and are to be taken over into a build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from inventory.models import RemoteNameField
from transfers.models.packs import Build


class AdoptionState(models.TextChoices):
    QUEUED = "queued", "queued"
    COMPARING = "comparing", "comparing"
    COMPARED = "compared", "compared"
    COPYING = "copying", "copying"
    FINISHED = "finished", "finished"
    LEFT = "left", "left alone"
    FAILED = "failed", "failed"


# While one of these holds, the build is not fetched: what may be here already would be brought a second time.
ADOPTION_ACTIVE = (AdoptionState.QUEUED, AdoptionState.COMPARING, AdoptionState.COMPARED, AdoptionState.COPYING)


class AdoptionWay(models.TextChoices):
    ASK = "ask", "compare, then ask"
    COPY = "copy", "copy what matches"
    TAKE = "take", "take the file itself"


class Adoption(models.Model):
    """One taking over of local bytes: compared by digest, shown, then copied or taken by consent.

    queued ──> comparing ──> compared ──> copying ──> finished | failed
      any of the first four ──> left alone (a person wants none of it) | failed

    `matched` is a bit for each block of the build; progress is kept in it, so a killed act goes on.
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        AdoptionState.QUEUED: frozenset({AdoptionState.COMPARING, AdoptionState.LEFT, AdoptionState.FAILED}),
        AdoptionState.COMPARING: frozenset(
            {
                AdoptionState.COMPARED,
                AdoptionState.COPYING,  # agreed to beforehand
                AdoptionState.FINISHED,  # nothing matched
                AdoptionState.LEFT,
                AdoptionState.FAILED,
            }
        ),
        AdoptionState.COMPARED: frozenset({AdoptionState.COPYING, AdoptionState.LEFT}),
        AdoptionState.COPYING: frozenset({AdoptionState.FINISHED, AdoptionState.LEFT, AdoptionState.FAILED}),
        AdoptionState.FINISHED: frozenset(),
        AdoptionState.LEFT: frozenset(),
        AdoptionState.FAILED: frozenset(),
    }

    build = models.ForeignKey(Build, on_delete=models.CASCADE, related_name="adoptions")
    former = models.ForeignKey(Build, null=True, on_delete=models.PROTECT, related_name="+")  # an earlier build's bytes
    path = RemoteNameField(default=b"", blank=True)  # or a file or folder of this machine, as its exact bytes
    way = models.CharField(max_length=8, choices=AdoptionWay.choices, default=AdoptionWay.ASK)
    state = models.CharField(max_length=16, choices=AdoptionState.choices, default=AdoptionState.QUEUED)
    offered_bytes = models.PositiveBigIntegerField(default=0)  # that may be the build's, by place and size
    read_bytes = models.PositiveBigIntegerField(default=0)  # read here and compared so far
    matched_bytes = models.PositiveBigIntegerField(default=0)  # proven to be the source's by block or chunk digests
    copied_bytes = models.PositiveBigIntegerField(default=0)  # put into the build now
    had_bytes = models.PositiveBigIntegerField(default=0)  # matched, and had come already
    matched = models.BinaryField(default=b"")
    next_chunk = models.PositiveIntegerField(default=0)  # where an interrupted comparison goes on
    identity = models.JSONField(default=list)  # [[device, inode, size, mtime_ns], …] of the files when compared
    remarks = models.JSONField(default=list)  # sentences of the look
    not_taken = models.TextField(blank=True)  # why the file cannot be taken; empty when it can
    problem = models.TextField(blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-requested_at", "-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["build"],
                condition=Q(state__in=["queued", "comparing", "compared", "copying"]),
                name="one_adoption_at_a_time_per_build",
            ),
        ]

    def __str__(self) -> str:
        return f"adoption {self.pk} of {self.build}"
