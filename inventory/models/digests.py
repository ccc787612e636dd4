"""Digests taken at the source: the acts that take them, and what is remembered of each file."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from inventory.models.host_jobs import HostJob
from inventory.models.hosts import Host
from inventory.models.resources import Resource
from inventory.models.scans import Scan


class KnownDigest(models.Model):
    """The digest of a file that had this identity. A file that has it still need not be read again."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="known_digests")
    device = models.BigIntegerField()
    inode = models.BigIntegerField()
    size_bytes = models.PositiveBigIntegerField()
    mtime_ns = models.BigIntegerField()
    ctime_ns = models.BigIntegerField()
    sha256 = models.BinaryField()
    taken_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["host", "inode", "device", "size_bytes", "mtime_ns", "ctime_ns"],
                name="one_digest_per_identity",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.host_id}:{self.device}:{self.inode}"


class DigestRun(HostJob):
    """One taking of the digests that a resource's latest scan lacks."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="digest_runs")
    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="digest_runs")
    scan = models.ForeignKey(Scan, null=True, on_delete=models.SET_NULL, related_name="digest_runs")
    over_bytes = models.PositiveBigIntegerField(default=0)  # smaller files are left without
    word = models.CharField(max_length=32, blank=True)
    offsets = models.JSONField(default=list, blank=True)  # how far each worker's findings were read
    files_known = models.PositiveBigIntegerField(default=0)  # not read again
    files_wanted = models.PositiveBigIntegerField(default=0)
    bytes_wanted = models.PositiveBigIntegerField(default=0)
    files_done = models.PositiveBigIntegerField(default=0)
    bytes_done = models.PositiveBigIntegerField(default=0)
    files_left = models.PositiveBigIntegerField(default=0)  # changed since the scan, or not readable

    class Meta(HostJob.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["resource"],
                condition=models.Q(state__in=["queued", "running"]),
                name="digests_once_at_a_time_per_resource",
            ),
        ]

    def __str__(self) -> str:
        return f"digests {self.pk} of {self.resource}"
