"""Samples of what lists come to when they are packed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models

from inventory.models import Host
from transfers.models.plans import EntryList


class SampleState(models.TextChoices):
    QUEUED = "queued", "queued"
    FINISHED = "finished", "finished"
    FAILED = "failed", "failed"


class PackingSample(models.Model):
    """What beginnings of some files of a list came to with zstd on their host: asked for, or taken when it was packed.

    queued ──> finished | failed ──> queued
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        SampleState.QUEUED: frozenset({SampleState.FINISHED, SampleState.FAILED}),
        SampleState.FINISHED: frozenset(),
        SampleState.FAILED: frozenset({SampleState.QUEUED, SampleState.FINISHED}),
    }

    entry_list = models.OneToOneField(EntryList, on_delete=models.CASCADE, related_name="sample")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="packing_samples")
    state = models.CharField(max_length=16, choices=SampleState.choices, default=SampleState.QUEUED)
    raw_bytes = models.PositiveBigIntegerField(default=0)
    packed_bytes = models.PositiveBigIntegerField(default=0)
    zstd_seconds = models.FloatField(default=0)  # of one core of the host; 0: not measured
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    problem = models.TextField(blank=True)
    at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"sample of {self.entry_list}"
