"""Packs, their builds, and the chunks of a build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from inventory.models import RemoteNameField
from transfers.models.landings import Landing
from transfers.models.plans import EntryList, Item, Mode, Plan


class Pack(models.Model):
    """A stable name for something to be brought home. Order, pause and hold are operators' acts, outside any digest."""

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="packs")
    name = models.SlugField(max_length=100)
    aim = models.TextField(blank=True)
    position = models.PositiveIntegerField(default=0)  # execution order, lowest first
    is_paused = models.BooleanField(default=False)
    on_hold = models.BooleanField(default=False)  # waits for a person's word or a condition stated in the reason
    hold_reason = models.TextField(blank=True)
    # What ends the hold by itself; none of them: a person's word alone does.
    hold_until_at = models.DateTimeField(null=True, blank=True)
    hold_until_rest = models.BooleanField(default=False)  # everything else that nobody holds is opened
    hold_until_rate = models.PositiveBigIntegerField(null=True, blank=True)  # bytes a second that the link brings

    class Meta:
        ordering: ClassVar = ["plan", "position", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["plan", "name"], name="pack_name_once_per_plan"),
        ]

    def __str__(self) -> str:
        return self.name


class BuildState(models.TextChoices):
    PLANNED = "planned", "planned"
    PACKING = "packing", "packing"
    NEEDS_DECISION = "needs_decision", "needs a decision"
    PACKED = "packed", "packed"
    FETCHING = "fetching", "fetching"
    RECEIVED = "received", "received"
    VERIFIED = "verified", "verified"
    OPENED = "opened", "opened"
    PERMITTED = "permitted", "permitted"
    CLEARED = "cleared", "cleared"
    FAILED = "failed", "failed"
    REPLACED = "replaced", "replaced"


class Compression(models.TextChoices):
    UNDECIDED = "undecided", "undecided"
    NONE = "none", "none"
    ZSTD = "zstd", "zstd"


class Build(models.Model):
    """One making of a pack.

        planned ─> packing ─> packed ─> fetching ─> received ─> verified ─> opened ─> permitted ─> cleared
                     │  ^        │         │            │           │
                     v  │ accept │         │            └───────────┴──> fetching (damage found: repair)
              needs_decision     │         │
                     │ rebuild   │         │
                     v           v         v
                  replaced    replaced  replaced      any working state ──> failed ──> planned, fetching or received
                                                                              (a person tries again from what is here)

    For *existing*, *parts* and *files*, packing means taking chunk and member digests at the source; nothing is
    written there but our own staging files.
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        BuildState.PLANNED: frozenset({BuildState.PACKING, BuildState.FAILED, BuildState.REPLACED}),
        BuildState.PACKING: frozenset(
            {BuildState.PLANNED, BuildState.PACKED, BuildState.NEEDS_DECISION, BuildState.FAILED, BuildState.REPLACED}
        ),
        BuildState.NEEDS_DECISION: frozenset({BuildState.PACKED, BuildState.REPLACED}),
        BuildState.PACKED: frozenset({BuildState.FETCHING, BuildState.FAILED, BuildState.REPLACED}),
        BuildState.FETCHING: frozenset(
            {BuildState.PACKED, BuildState.RECEIVED, BuildState.NEEDS_DECISION, BuildState.FAILED, BuildState.REPLACED}
        ),
        BuildState.RECEIVED: frozenset(
            {BuildState.VERIFIED, BuildState.FETCHING, BuildState.FAILED, BuildState.REPLACED}
        ),
        BuildState.VERIFIED: frozenset(
            {BuildState.OPENED, BuildState.FETCHING, BuildState.FAILED, BuildState.REPLACED}
        ),
        BuildState.OPENED: frozenset({BuildState.PERMITTED, BuildState.FETCHING, BuildState.REPLACED}),
        BuildState.PERMITTED: frozenset({BuildState.CLEARED, BuildState.OPENED}),
        BuildState.CLEARED: frozenset(),
        BuildState.FAILED: frozenset(
            {BuildState.PLANNED, BuildState.FETCHING, BuildState.RECEIVED, BuildState.REPLACED}
        ),
        BuildState.REPLACED: frozenset(),
    }

    pack = models.ForeignKey(Pack, on_delete=models.PROTECT, related_name="builds")
    number = models.PositiveIntegerField()
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="builds")
    state = models.CharField(max_length=16, choices=BuildState.choices, default=BuildState.PLANNED)
    mode = models.CharField(max_length=16, choices=Mode.choices)
    entry_list = models.ForeignKey(EntryList, on_delete=models.PROTECT, related_name="builds")
    # The members with their digests taken at the source; null until packed, and for *existing* and *parts*.
    member_list = models.ForeignKey(EntryList, null=True, on_delete=models.PROTECT, related_name="+")
    chunk_bytes = models.PositiveBigIntegerField()
    compression = models.CharField(max_length=16, choices=Compression.choices, default=Compression.UNDECIDED)
    compression_note = models.TextField(blank=True)  # the sample's figures in a sentence
    archive_name = models.CharField(max_length=255, blank=True)  # local file name; empty in files mode
    source_path = RemoteNameField(default=b"", blank=True)  # the one remote file of archive and existing mode
    source_identity = models.JSONField(default=list)  # [{"name", "device", "inode", "size", "mtime_ns", "ctime_ns"}]
    job_folder = RemoteNameField(default=b"", blank=True)
    size_bytes = models.PositiveBigIntegerField(null=True)  # of the byte string that is fetched
    sha256 = models.CharField(max_length=64, blank=True)  # of the whole, at the source
    landing = models.ForeignKey(Landing, on_delete=models.PROTECT, related_name="builds")
    folder = models.CharField(max_length=1024, blank=True)  # below the landing's path
    received_bytes = models.PositiveBigIntegerField(default=0)  # here by the ledger, proven or not
    member_count = models.PositiveBigIntegerField(null=True)  # found when it was opened
    # What other builds hold for it, as it was when it was opened: [{"pack", "build", "files", "bytes"}, …]
    satisfied_by = models.JSONField(default=list)
    deviations = models.JSONField(default=list)  # [{"name", "what", "detail"}, …], names escaped
    deviations_accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    problem = models.TextField(blank=True)
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(null=True, blank=True)  # when the next attempt may begin
    created_at = models.DateTimeField(auto_now_add=True)
    packing_began_at = models.DateTimeField(null=True, blank=True)
    packed_at = models.DateTimeField(null=True, blank=True)
    received_at = models.DateTimeField(null=True, blank=True)
    verified_at = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField(null=True, blank=True)
    recheck_asked_at = models.DateTimeField(null=True, blank=True)  # to be read back once more; null: nobody asked

    class Meta:
        ordering: ClassVar = ["pack", "-number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["pack", "number"], name="build_number_once_per_pack"),
        ]
        indexes: ClassVar = [models.Index(fields=["state"], name="build_state")]

    def __str__(self) -> str:
        return f"{self.pack} build {self.number}"


class Chunk(models.Model):
    """One chunk of a build: expected digest from the source, and when it was proven here."""

    build = models.ForeignKey(Build, on_delete=models.CASCADE, related_name="chunks")
    index = models.PositiveIntegerField()
    offset = models.PositiveBigIntegerField()
    length = models.PositiveBigIntegerField()
    sha256 = models.BinaryField(null=True)
    proven_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["build", "index"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["build", "index"], name="chunk_index_once_per_build"),
        ]

    def __str__(self) -> str:
        return f"chunk {self.index} of {self.build}"


class UnpackState(models.TextChoices):
    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    FINISHED = "finished", "finished"
    FAILED = "failed", "failed"


class Unpack(models.Model):
    """One act of making usable files from an opened build, in a fresh folder.

    queued ──> running ──> finished | failed ──> queued
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        UnpackState.QUEUED: frozenset({UnpackState.RUNNING}),
        UnpackState.RUNNING: frozenset({UnpackState.QUEUED, UnpackState.FINISHED, UnpackState.FAILED}),
        UnpackState.FINISHED: frozenset(),
        UnpackState.FAILED: frozenset({UnpackState.QUEUED}),
    }

    build = models.ForeignKey(Build, on_delete=models.PROTECT, related_name="unpacks")
    state = models.CharField(max_length=16, choices=UnpackState.choices, default=UnpackState.QUEUED)
    folder = models.CharField(max_length=1024, blank=True)  # below the landing's path
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    members = models.PositiveBigIntegerField(default=0)
    bytes_written = models.PositiveBigIntegerField(default=0)
    problem = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-requested_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["build"], condition=Q(state__in=["queued", "running"]), name="one_unpack_at_a_time_per_build"
            ),
        ]

    def __str__(self) -> str:
        return f"unpack {self.pk} of {self.build}"
