"""What a host was at a time: text files with digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import zstandard
from django.conf import settings
from django.db import models

from inventory.models.hosts import Host
from inventory.models.resources import Resource
from inventory.models.scans import ScanState


class Snapshot(models.Model):
    """One collecting of a host's environment.

    queued ──> running ──> finished | failed
       ^          │ worker died
       └──────────┘
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        ScanState.QUEUED: frozenset({ScanState.RUNNING}),
        ScanState.RUNNING: frozenset({ScanState.QUEUED, ScanState.FINISHED, ScanState.FAILED}),
        ScanState.FINISHED: frozenset(),
        ScanState.FAILED: frozenset(),
    }
    STATES: ClassVar = [
        choice for choice in ScanState.choices if choice[0] not in (ScanState.IMPORTED, ScanState.CANCELLED)
    ]

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="snapshots")
    state = models.CharField(max_length=16, choices=STATES, default=ScanState.QUEUED)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    problem = models.TextField(blank=True)
    # As something to fetch: the resource that its files are on the host, once they are written there.
    resource = models.ForeignKey(Resource, null=True, blank=True, on_delete=models.SET_NULL, related_name="snapshots")
    offered_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    offered_at = models.DateTimeField(null=True, blank=True)
    written_at = models.DateTimeField(null=True, blank=True)
    offer_problem = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-requested_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["host"],
                condition=models.Q(state__in=["queued", "running"]),
                name="one_snapshot_at_a_time_per_host",
            ),
        ]

    def __str__(self) -> str:
        return f"snapshot {self.pk} of {self.host}"


class SnapshotFile(models.Model):
    """One file of a snapshot. `problem` says why it holds less than it should."""

    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="files")
    name = models.CharField(max_length=64)
    content = models.BinaryField()  # zstd
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64)
    problem = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["snapshot", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["snapshot", "name"], name="snapshot_file_once_per_snapshot"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def raw(self) -> bytes:
        """The file's bytes."""
        return zstandard.ZstdDecompressor().decompress(bytes(self.content), max_output_size=self.size_bytes or 1)
