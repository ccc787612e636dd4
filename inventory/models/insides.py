"""What lies inside archives: the acts that look, and what is remembered of each archive file."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from inventory.models.fields import RemoteNameField
from inventory.models.host_jobs import HostJob
from inventory.models.hosts import Host
from inventory.models.resources import Resource
from inventory.models.scans import Scan


class InsideArchive(models.Model):
    """What was found inside a file that had this identity (of an OCI layout: its index). Such a file that has it still,
    or has the same digest, need not be read again."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="insides")
    name = RemoteNameField()  # the path at which it was looked into
    is_layout = models.BooleanField(default=False)  # a folder
    device = models.BigIntegerField()
    inode = models.BigIntegerField()
    size_bytes = models.PositiveBigIntegerField()
    mtime_ns = models.BigIntegerField()
    ctime_ns = models.BigIntegerField()
    sha256 = models.BinaryField(null=True, blank=True)
    is_here = models.BooleanField(default=False)  # read from the copy at home, not on the host
    kind = models.CharField(max_length=8, blank=True)  # tar, image; empty when it is none
    images = models.PositiveIntegerField(default=0)
    files = models.PositiveBigIntegerField(default=0)
    content_bytes = models.PositiveBigIntegerField(default=0)
    fault = models.CharField(max_length=32, blank=True)  # a word: why not all of it is known
    looked_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["host", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["host", "inode", "device", "size_bytes", "mtime_ns", "ctime_ns"],
                name="one_look_inside_per_identity",
            ),
        ]

    def __str__(self) -> str:
        return str(self.name)


class InsidePart(models.Model):
    """One file of a set of parts that, joined in this order, is the archive; as it was on its host. Only while all of
    them are so does what lies inside stand for them."""

    archive = models.ForeignKey(InsideArchive, on_delete=models.CASCADE, related_name="parts")
    position = models.PositiveIntegerField()
    name = RemoteNameField()  # its path
    device = models.BigIntegerField()
    inode = models.BigIntegerField()
    size_bytes = models.PositiveBigIntegerField()
    mtime_ns = models.BigIntegerField()
    ctime_ns = models.BigIntegerField()

    class Meta:
        ordering: ClassVar = ["archive", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["archive", "position"], name="inside_part_once_per_archive"),
        ]

    def __str__(self) -> str:
        return str(self.name)


class InsidePiece(models.Model):
    """Some of an archive's files: records as `inventory.overlap.inside` writes them, compressed by zstd."""

    archive = models.ForeignKey(InsideArchive, on_delete=models.CASCADE, related_name="pieces")
    position = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        ordering: ClassVar = ["archive", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["archive", "position"], name="inside_piece_once_per_archive"),
        ]

    def __str__(self) -> str:
        return f"{self.archive_id}:{self.position}"


class InsideRun(HostJob):
    """One look inside every archive of a resource's latest scan that was not looked into yet."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="inside_runs")
    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="inside_runs")
    scan = models.ForeignKey(Scan, null=True, on_delete=models.SET_NULL, related_name="inside_runs")
    wanted = models.BinaryField(default=b"", blank=True)  # the names that were sent, NUL after each
    archives_known = models.PositiveIntegerField(default=0)  # not read again
    archives_wanted = models.PositiveIntegerField(default=0)
    archives_done = models.PositiveIntegerField(default=0)
    archives_faulty = models.PositiveIntegerField(default=0)  # not all of them is known

    class Meta(HostJob.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["resource"],
                condition=models.Q(state__in=["queued", "running"]),
                name="inside_once_at_a_time_per_resource",
            ),
        ]

    def __str__(self) -> str:
        return f"look inside {self.pk} of {self.resource}"
