"""Reading what is already here: a folder of this machine, or proofs that somebody else's rows give. Safe to run twice.

A folder is gone through from its beginning after each stop, but a file whose identity is as it was read before is not
read again.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from calculet.leases.services import (
    Held,
    LeaseTaken,
    lease_acquire,
    lease_beat,
    lease_hold,
    lease_is_free,
    lease_release,
)
from calculet.lifecycle import SYSTEM, StateConflict, advance
from inventory.localfiles import LocalFile, walk
from inventory.models import HadFile, HadKind, HadSource, HadState
from inventory.remote.names import RemoteName
from inventory.services.errors import ValueWrong
from inventory.services.had import folder_allowed, had_lease
from inventory.services.sorting import held_time, signed

_BATCH_FILES = 500
_KEEP_SECONDS = 2.0
_UNDER_WAY = (HadState.QUEUED, HadState.RUNNING)

logger = logging.getLogger(__name__)


class _Stopped(Exception):
    """The worker is being shut down, or the reading was given up."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One file that is known to be here without reading it: where, and by which digest."""

    name: bytes
    size_bytes: int
    sha256: bytes


def had_sweep() -> list[int]:
    """Declarations that nobody reads although it was asked for."""
    waiting = HadSource.objects.filter(state__in=_UNDER_WAY).values_list("pk", flat=True)
    return [pk for pk in waiting if lease_is_free(name=had_lease(pk))]


def had_run(source_id: int, *, proofs: Callable[[HadSource], Iterable[Proof]]) -> None:
    """Read a declaration to its end. May run twice; one of them works. `proofs` gives those of a landing."""
    source = HadSource.objects.filter(pk=source_id, state__in=_UNDER_WAY).first()
    held = lease_acquire(name=had_lease(source_id)) if source is not None else None
    if source is None or held is None:
        return
    try:
        source.refresh_from_db()
        if source.state in _UNDER_WAY:
            _run(_Reading(source, held), proofs)
    except LeaseTaken as taken:
        logger.info("%s", taken)
    except (_Stopped, StateConflict):
        logger.info("%s was stopped; it goes on when it is asked for", source)
    finally:
        lease_release(held)


@dataclass(slots=True)
class _Reading:
    """One reading under way. Rows are written in batches; progress with each."""

    source: HadSource
    held: Held
    kept_at: float = field(default_factory=time.monotonic)
    beaten_at: float = field(default_factory=time.monotonic)
    rows: list[HadFile] = field(default_factory=list)
    again: list[int] = field(default_factory=list)  # keys of rows that hold still
    files: int = 0
    size_bytes: int = 0
    left: int = 0

    def beat(self) -> None:
        """Keep the lease. Raises _Stopped, LeaseTaken."""
        if time.monotonic() - self.beaten_at >= _KEEP_SECONDS / 2:
            self.beaten_at = time.monotonic()
            if lease_beat(self.held):
                raise _Stopped

    def failed(self, name: bytes) -> None:
        """Count what could not be read."""
        self.left += 1

    def keep(self, *, is_last: bool = False) -> None:
        """Write what was found since the last time, when it is time for that."""
        due = len(self.rows) + len(self.again) >= _BATCH_FILES or time.monotonic() - self.kept_at >= _KEEP_SECONDS
        if not is_last and not due:
            return
        self.kept_at = time.monotonic()
        with transaction.atomic():
            self.hold()
            HadFile.objects.bulk_create(self.rows)
            HadFile.objects.filter(pk__in=self.again).update(turn=self.source.turn)
            counts = {"files_done": self.files, "bytes_done": self.size_bytes, "files_left": self.left}
            HadSource.objects.filter(pk=self.source.pk).update(**counts)
        self.rows, self.again = [], []
        self.beat()

    def hold(self) -> None:
        """First statement of a write: the lease is ours and the reading is wanted."""
        lease_hold(self.held)
        if not HadSource.objects.filter(pk=self.source.pk, state=HadState.RUNNING).exists():
            raise _Stopped


def _run(reading: _Reading, proofs: Callable[[HadSource], Iterable[Proof]]) -> None:
    source = reading.source
    with transaction.atomic():
        lease_hold(reading.held)
        if source.state == HadState.RUNNING:
            advance(source, HadState.QUEUED, act="had.worker_lost", actor=SYSTEM)
        advance(source, HadState.RUNNING, act="had.started", actor=SYSTEM, problem="")
    try:
        if source.kind == HadKind.FOLDER:
            _read_folder(reading, folder_allowed(os.fsdecode(source.place.raw)))
        else:
            _take_proofs(reading, proofs(source))
    except (OSError, ValueWrong) as error:
        with transaction.atomic():
            reading.hold()
            ended = {"problem": str(error), "changed_at": timezone.now()}
            advance(source, HadState.FAILED, act="had.failed", actor=SYSTEM, detail={"problem": str(error)}, **ended)
        return
    reading.keep(is_last=True)
    with transaction.atomic():
        reading.hold()
        source.files.exclude(turn=source.turn).delete()
        counts = {"files": reading.files, "bytes": reading.size_bytes, "left": reading.left}
        advance(source, HadState.FINISHED, act="had.read", actor=SYSTEM, detail=counts, changed_at=timezone.now())


def _read_folder(reading: _Reading, folder: Path) -> None:
    """Count first, so that progress means something; then read what is not known by its identity."""
    files = size_bytes = 0
    for file, _read in walk(folder, bool, reading.beat):
        files, size_bytes = files + 1, size_bytes + file.size_bytes
        reading.beat()
    HadSource.objects.filter(pk=reading.source.pk).update(files_wanted=files, bytes_wanted=size_bytes)
    has_known = reading.source.files.exists()
    for file, read in walk(folder, reading.failed, reading.beat):
        known = _known(reading.source, file) if has_known else None
        if known is not None:
            reading.again.append(known)
        else:
            digest = read()
            if digest is None:
                reading.failed(file.name)
                continue
            reading.rows.append(_row(reading.source, file, digest))
        reading.files += 1
        reading.size_bytes += file.size_bytes
        reading.beat()
        reading.keep()


def _known(source: HadSource, file: LocalFile) -> int | None:
    """The row of a file that is as it was when it was read."""
    same = HadFile.objects.filter(
        source=source,
        inode=signed(file.inode),
        device=signed(file.device),
        size_bytes=file.size_bytes,
        mtime_ns=held_time(file.mtime_ns),
        ctime_ns=held_time(file.ctime_ns),
    )
    for key, name in same.values_list("pk", "name"):
        if name.raw == file.name:
            return int(key)
    return None


def _row(source: HadSource, file: LocalFile, digest: bytes) -> HadFile:
    return HadFile(
        source=source,
        turn=source.turn,
        name=RemoteName(file.name),
        size_bytes=file.size_bytes,
        sha256=digest,
        device=signed(file.device),
        inode=signed(file.inode),
        mtime_ns=held_time(file.mtime_ns),
        ctime_ns=held_time(file.ctime_ns),
        taken_at=timezone.now(),
    )


def _take_proofs(reading: _Reading, proofs: Iterable[Proof]) -> None:
    now = timezone.now()
    turn = reading.source.turn
    # What a stopped worker had taken of this turn is taken again.
    with transaction.atomic():
        reading.hold()
        reading.source.files.filter(turn=turn).delete()
    for one in proofs:
        row = HadFile(
            source=reading.source,
            turn=turn,
            name=RemoteName(one.name),
            size_bytes=one.size_bytes,
            sha256=one.sha256,
            taken_at=now,
        )
        reading.rows.append(row)
        reading.files += 1
        reading.size_bytes += one.size_bytes
        reading.beat()
        reading.keep()
