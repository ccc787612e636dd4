"""What is already here: folders, landings and checksum lists that were declared, and what they cover."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models

from inventory.models.fields import RemoteNameField
from inventory.models.resources import Resource
from inventory.models.scans import Scan


class HadKind(models.TextChoices):
    FOLDER = "folder", "folder"  # below a folder that the installation names
    LANDING = "landing", "landing"  # what was opened there, by its own proofs
    LIST = "list", "checksum list"


class HadState(models.TextChoices):
    PREVIEWED = "previewed", "previewed"
    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    FINISHED = "finished", "finished"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"
    WITHDRAWN = "withdrawn", "withdrawn"


class HadSource(models.Model):
    """One declaration that files are already here. Only what is *finished* covers anything.

    previewed ──> finished | withdrawn                            a list is shown first
    queued ──> running ──> finished | failed | cancelled          a folder is read, a landing's proofs are taken
       ^          │            │
       └──────────┴────────────┘ read again
    finished | failed | cancelled ──> withdrawn
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        HadState.PREVIEWED: frozenset({HadState.FINISHED, HadState.WITHDRAWN}),
        HadState.QUEUED: frozenset({HadState.RUNNING, HadState.FAILED, HadState.CANCELLED}),
        HadState.RUNNING: frozenset({HadState.QUEUED, HadState.FINISHED, HadState.FAILED, HadState.CANCELLED}),
        HadState.FINISHED: frozenset({HadState.QUEUED, HadState.WITHDRAWN}),
        HadState.FAILED: frozenset({HadState.QUEUED, HadState.WITHDRAWN}),
        HadState.CANCELLED: frozenset({HadState.QUEUED, HadState.WITHDRAWN}),
        HadState.WITHDRAWN: frozenset(),
    }

    kind = models.CharField(max_length=16, choices=HadKind.choices)
    name = models.CharField(max_length=120)  # as people call it
    place = RemoteNameField(
        default=b"", blank=True
    )  # of a folder: its path; of a landing: its name; of a list: its file
    digest = models.CharField(max_length=64, blank=True)  # of a list, in hex
    state = models.CharField(max_length=16, choices=HadState.choices, default=HadState.QUEUED)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(null=True, blank=True)  # when what it covers became another
    turn = models.PositiveIntegerField(default=0)  # counts readings; files of former ones are removed at the end
    files_wanted = models.PositiveBigIntegerField(default=0)
    bytes_wanted = models.PositiveBigIntegerField(default=0)
    files_done = models.PositiveBigIntegerField(default=0)
    bytes_done = models.PositiveBigIntegerField(default=0)
    files_left = models.PositiveBigIntegerField(default=0)  # not readable, changed while read, or without SHA-256
    problem = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-requested_at"]

    def __str__(self) -> str:
        return self.name


class HadFile(models.Model):
    """One file that is already here: the evidence. A folder's is known by identity, so that it is not read again."""

    source = models.ForeignKey(HadSource, on_delete=models.CASCADE, related_name="files")
    turn = models.PositiveIntegerField(default=0)
    name = RemoteNameField()  # relative to the place
    size_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    sha256 = models.BinaryField()
    device = models.BigIntegerField(default=0)
    inode = models.BigIntegerField(default=0)
    mtime_ns = models.BigIntegerField(default=0)
    ctime_ns = models.BigIntegerField(default=0)
    taken_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["sha256", "source"], name="had_file_of_digest"),
            models.Index(fields=["source", "inode"], name="had_file_of_inode"),
        ]

    def __str__(self) -> str:
        return str(self.name)


class HadCover(models.Model):
    """How much of a resource's listing lies here already, by digest; counted anew when either changed."""

    resource = models.OneToOneField(Resource, on_delete=models.CASCADE, related_name="had")
    scan = models.ForeignKey(Scan, null=True, on_delete=models.SET_NULL, related_name="+")
    files = models.PositiveBigIntegerField(default=0)
    size_bytes = models.PositiveBigIntegerField(default=0)
    counted_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.size_bytes} of {self.resource}"
