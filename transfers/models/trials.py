"""Trials: controlled comparisons of numbers of lanes, made while a link does its work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from inventory.models import Host


class TrialState(models.TextChoices):
    RUNNING = "running", "running"
    FINISHED = "finished", "finished"
    STOPPED = "stopped", "stopped"


class TrialEnd(models.TextChoices):
    """Why a trial ended."""

    DONE = "done", "all blocks are done"
    PERSON = "person", "a person stopped it"
    DRY = "dry", "there was nothing left to fetch"
    LATE = "late", "it did not come to its end in time"


class Trial(models.Model):
    """One trial of a host's lanes. Its blocks are drawn when it starts and counted one after another by the link.

    running ──all blocks done──> finished
        └────a person, nothing left to fetch, or too late──> stopped
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        TrialState.RUNNING: frozenset({TrialState.FINISHED, TrialState.STOPPED}),
        TrialState.FINISHED: frozenset(),
        TrialState.STOPPED: frozenset(),
    }

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="trials")
    state = models.CharField(max_length=16, choices=TrialState.choices, default=TrialState.RUNNING)
    levels = models.JSONField(default=list)  # numbers of lanes, rising
    level_seconds = models.FloatField()  # counted for each level in all
    block_seconds = models.FloatField()
    ramp_seconds = models.FloatField()
    seed = models.PositiveBigIntegerField()  # of the order of blocks
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_because = models.CharField(max_length=16, choices=TrialEnd.choices, blank=True)

    class Meta:
        ordering: ClassVar = ["-started_at", "-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["host"], condition=Q(state="running"), name="one_running_trial_per_host"),
        ]

    def __str__(self) -> str:
        return f"trial {self.pk} of {self.host}"


class TrialBlock(models.Model):
    """One block of a trial: its level, and once it is done what was counted in it, ramp excluded."""

    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="blocks")
    position = models.PositiveSmallIntegerField()
    lanes = models.PositiveSmallIntegerField()
    done_at = models.DateTimeField(null=True, blank=True)
    seconds = models.FloatField(default=0)
    new_bytes = models.PositiveBigIntegerField(default=0)
    wire_bytes = models.PositiveBigIntegerField(default=0)
    refusals = models.PositiveIntegerField(default=0)
    redials = models.PositiveIntegerField(default=0)
    stalled_seconds = models.FloatField(default=0)  # summed over lanes
    limited_seconds = models.FloatField(default=0)  # in which a bandwidth limit held the rate

    class Meta:
        ordering: ClassVar = ["trial", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["trial", "position"], name="trial_block_once_per_position"),
        ]

    def __str__(self) -> str:
        return f"block {self.position} of {self.trial}"
