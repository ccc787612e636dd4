"""Scans of a host and the entries that they found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from uuid import uuid4

from django.conf import settings
from django.db import models

from inventory.models.fields import RemoteNameField
from inventory.models.hosts import Host
from inventory.models.resources import Resource


class ScanState(models.TextChoices):
    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    FINISHED = "finished", "finished"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"
    IMPORTED = "imported", "imported"  # no scan of ours: a list that somebody had


class ListedBy(models.TextChoices):
    """How a scan was made, which says what its entries can know."""

    FIND = "find", "find"
    STAT = "stat", "find and stat"
    SFTP = "sftp", "SFTP"  # neither device, inode, link count, stored bytes nor change of inode; whole seconds


class Scan(models.Model):
    """One listing of a resource at a time.

    queued ──> running ──> finished | failed | cancelled
       ^          │ worker died
       └──────────┘
    imported: its entries came from a list; it never counts as the latest scan.
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        ScanState.QUEUED: frozenset({ScanState.RUNNING, ScanState.CANCELLED}),
        ScanState.RUNNING: frozenset({ScanState.QUEUED, ScanState.FINISHED, ScanState.FAILED, ScanState.CANCELLED}),
        ScanState.FINISHED: frozenset(),
        ScanState.FAILED: frozenset(),
        ScanState.CANCELLED: frozenset(),
        ScanState.IMPORTED: frozenset(),
    }

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="scans")
    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="scans")
    root = RemoteNameField()  # the resource's path when the scan was asked for
    state = models.CharField(max_length=16, choices=ScanState.choices, default=ScanState.QUEUED)
    key = models.UUIDField(default=uuid4, editable=False)  # names the listing's columns; a row's number may come again
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    entries_seen = models.PositiveBigIntegerField(default=0)  # progress while running
    files = models.PositiveBigIntegerField(default=0)
    digested = models.PositiveBigIntegerField(default=0)  # of the files, those whose digest is known
    folders = models.PositiveBigIntegerField(default=0)
    links = models.PositiveBigIntegerField(default=0)
    others = models.PositiveBigIntegerField(default=0)  # sockets, pipes, devices
    sockets = models.PositiveBigIntegerField(default=0)
    pipes = models.PositiveBigIntegerField(default=0)
    devices = models.PositiveBigIntegerField(default=0)
    hard_linked = models.PositiveBigIntegerField(null=True, blank=True)  # files that have several names; null: not told
    sparse = models.PositiveBigIntegerField(null=True, blank=True)  # files stored in less than their length
    unreadable = models.PositiveBigIntegerField(default=0)
    apparent_bytes = models.PositiveBigIntegerField(default=0)
    stored_bytes = models.PositiveBigIntegerField(default=0)
    problem = models.TextField(blank=True)
    tries = models.PositiveSmallIntegerField(default=0)  # that ended because the host was away
    not_before = models.DateTimeField(null=True, blank=True)  # when the next one may begin
    listed_by = models.CharField(max_length=8, choices=ListedBy.choices, blank=True)  # empty: not by us, or not yet
    # Against the scan that finished before it, of the same place; null when there was none.
    former = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="later")
    added = models.PositiveBigIntegerField(null=True, blank=True)
    removed = models.PositiveBigIntegerField(null=True, blank=True)
    changed = models.PositiveBigIntegerField(null=True, blank=True)
    added_bytes = models.PositiveBigIntegerField(default=0)
    removed_bytes = models.PositiveBigIntegerField(default=0)
    changed_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["-requested_at"]
        indexes: ClassVar = [models.Index(fields=["resource", "-finished_at"], name="scan_latest_of_resource")]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["resource"],
                condition=models.Q(state__in=["queued", "running"]),
                name="one_scan_at_a_time_per_resource",
            ),
        ]

    def __str__(self) -> str:
        return f"scan {self.pk} of {self.resource}"

    @property
    def knows_identity(self) -> bool:
        """False where device, inode, links, stored bytes and changes of the inode were not told."""
        return self.listed_by != ListedBy.SFTP and self.state != ScanState.IMPORTED

    @property
    def drifted(self) -> int | None:
        """How many paths are not as the former scan found them; None when there was no former one."""
        return None if self.added is None else self.added + (self.removed or 0) + (self.changed or 0)


class Entry(models.Model):
    """One path found by a scan. `name` is relative to the scan's root (empty for the root itself).

    `position` is the entry's place in the order of the names' bytes, part by part, so that a folder's content
    follows it directly; pages go by it, because an index over names of 4,096 bytes does not fit every database.
    """

    class Kind(models.TextChoices):
        FILE = "file", "file"
        FOLDER = "folder", "folder"
        LINK = "link", "link"
        SOCKET = "socket", "socket"
        PIPE = "pipe", "pipe"
        DEVICE = "device", "device"
        UNREADABLE = "unreadable", "unreadable folder"

    scan = models.ForeignKey(Scan, on_delete=models.CASCADE, related_name="entries")
    position = models.PositiveBigIntegerField()
    name = RemoteNameField()
    parent = models.BigIntegerField(null=True, blank=True)  # the position of the folder that it lies in
    kind = models.CharField(max_length=16, choices=Kind.choices)
    size_bytes = models.PositiveBigIntegerField(default=0)
    stored_bytes = models.PositiveBigIntegerField(default=0)
    mtime_ns = models.BigIntegerField(default=0)
    ctime_ns = models.BigIntegerField(default=0)
    mode = models.PositiveIntegerField(default=0)
    device = models.BigIntegerField(default=0)
    inode = models.BigIntegerField(default=0)  # as a signed number: some file systems use all 64 bits
    link_count = models.PositiveIntegerField(default=1)
    link_target = RemoteNameField(default=b"", blank=True)
    sha256 = models.BinaryField(null=True, blank=True)
    # Of a folder, for pages and pictures; null in rows that no scan measured.
    entries_below = models.PositiveBigIntegerField(null=True, blank=True)
    bytes_below = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["scan", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["scan", "position"], name="entry_position_once_per_scan"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["scan", "parent", "position"], name="entry_of_a_folder"),
            models.Index(
                fields=["scan", "kind", "position"],
                condition=models.Q(sha256__isnull=True),  # no value in it: SQLite would not match a query's against it
                name="entry_without_a_digest",
            ),
        ]

    def __str__(self) -> str:
        return str(self.name)


class ScanChange(models.Model):
    """One path that a scan found otherwise than the scan before. Of many, the first are kept; the scan counts all."""

    class Kind(models.TextChoices):
        ADDED = "added", "added"
        REMOVED = "removed", "removed"
        CHANGED = "changed", "changed"

    scan = models.ForeignKey(Scan, on_delete=models.CASCADE, related_name="changes")
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=8, choices=Kind.choices)
    name = RemoteNameField()
    entry_kind = models.CharField(max_length=16, choices=Entry.Kind.choices)
    reason = models.CharField(max_length=16, blank=True)  # of a changed one: content, size, time, kind
    size_before = models.PositiveBigIntegerField(null=True, blank=True)
    size_after = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["scan", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["scan", "position"], name="scan_change_position_once_per_scan"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
