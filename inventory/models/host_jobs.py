"""What rows of detached jobs on a host have in common: their states, and where the job lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models

from inventory.models.fields import RemoteNameField
from inventory.models.scans import ScanState


class HostJob(models.Model):
    """One job that runs detached on a host, for the latest scan of a resource.

    queued ──> running ──> finished | failed | cancelled
       ^          │ the job on the host was lost
       └──────────┘
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        ScanState.QUEUED: frozenset({ScanState.RUNNING, ScanState.FINISHED, ScanState.FAILED, ScanState.CANCELLED}),
        ScanState.RUNNING: frozenset({ScanState.QUEUED, ScanState.FINISHED, ScanState.FAILED, ScanState.CANCELLED}),
        ScanState.FINISHED: frozenset(),
        ScanState.FAILED: frozenset(),
        ScanState.CANCELLED: frozenset(),
    }
    STATES: ClassVar = [choice for choice in ScanState.choices if choice[0] != ScanState.IMPORTED]

    state = models.CharField(max_length=16, choices=STATES, default=ScanState.QUEUED)
    # Null: asked for by a policy, not by a person.
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    # Where it runs on the host: emptied when nothing of ours is left there.
    folder = RemoteNameField(default=b"", blank=True)
    tries = models.PositiveSmallIntegerField(default=0)  # jobs that were lost without a finding
    problem = models.TextField(blank=True)

    class Meta:
        abstract = True
        ordering: ClassVar = ["-requested_at"]
