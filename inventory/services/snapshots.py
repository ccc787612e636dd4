"""Environment snapshots: asked for by a person, collected over SSH, kept with digests."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import zstandard
from django.db import IntegrityError, transaction
from django.utils import timezone

from calculet.audit.services import record
from calculet.leases.services import (
    Held,
    LeaseTaken,
    lease_acquire,
    lease_beat,
    lease_hold,
    lease_is_free,
    lease_release,
)
from calculet.lifecycle import SYSTEM, Actor, StateConflict, advance
from calculet.people.roles import Act, require
from inventory.connect import open_remote
from inventory.models import Entry, Host, Resource, ScanState, Snapshot, SnapshotFile
from inventory.remote.base import RemoteError
from inventory.remote.names import RemoteName
from inventory.selectors import has_no_shell, latest_scan
from inventory.services.errors import ShellAbsent
from inventory.snapshot import REPOSITORIES_AT_MOST, SnapshotPart, collect

_UNDER_WAY = (ScanState.QUEUED, ScanState.RUNNING)
_MESSAGE_SECONDS = 10.0

logger = logging.getLogger(__name__)


class _Stopped(Exception):
    """The worker is being shut down; the snapshot begins again elsewhere."""


def snapshot_request(*, host: Host, actor: Actor) -> Snapshot:
    """Ask for a snapshot; the caller sends `tasks.take_snapshot`. One that is under way is returned.

    Raises NotAllowed, ShellAbsent.
    """
    require(actor.user, Act.SCAN)
    if has_no_shell(host):
        raise ShellAbsent(host.name)
    try:
        with transaction.atomic():
            row = Snapshot.objects.create(host=host, requested_by=actor.user)
            record(act="snapshot.asked", actor=actor, subject=row, host=host)
    except IntegrityError:
        under_way = Snapshot.objects.filter(host=host, state__in=_UNDER_WAY).first()
        return under_way if under_way is not None else snapshot_request(host=host, actor=actor)
    return row


def snapshot_lease(snapshot_id: int) -> str:
    """The name of the lease under which a snapshot is taken."""
    return f"snapshot:{snapshot_id}"


def snapshots_sweep() -> list[int]:
    """The snapshots that nobody works on although they were asked for."""
    long_ago = timezone.now() - timedelta(seconds=_MESSAGE_SECONDS)
    waiting = Snapshot.objects.filter(state__in=_UNDER_WAY, requested_at__lt=long_ago).values_list("pk", flat=True)
    return [pk for pk in waiting if lease_is_free(name=snapshot_lease(pk))]


def snapshot_run(snapshot_id: int) -> None:
    """Collect a snapshot from its beginning. May run twice; one of them works."""
    row = Snapshot.objects.select_related("host").filter(pk=snapshot_id).first()
    held = lease_acquire(name=snapshot_lease(snapshot_id)) if row is not None else None
    if row is None or held is None:
        return
    try:
        row.refresh_from_db(fields=["state"])
        if row.state in _UNDER_WAY:
            _run(row, held)
    except (LeaseTaken, StateConflict) as faster:
        logger.info("%s", faster)
    except _Stopped:
        logger.info("%s was stopped with its worker; it begins again by the sweep", row)
    finally:
        lease_release(held)


def _run(row: Snapshot, held: Held) -> None:
    with transaction.atomic():
        lease_hold(held)
        if row.state == ScanState.RUNNING:
            advance(row, ScanState.QUEUED, act="snapshot.worker_lost", actor=SYSTEM)
        advance(row, ScanState.RUNNING, act="snapshot.started", actor=SYSTEM)
    parts: list[SnapshotPart] = []
    try:
        with closing(open_remote(row.host)) as remote:
            for part in collect(remote, repositories_of(row.host)):
                if lease_beat(held):
                    raise _Stopped
                if part.name:
                    parts.append(part)
    except RemoteError as error:
        with transaction.atomic():
            lease_hold(held)
            ended = {"problem": str(error), "finished_at": timezone.now()}
            advance(row, ScanState.FAILED, act="snapshot.failed", actor=SYSTEM, detail={"problem": str(error)}, **ended)
        return
    files = [_file(row, part) for part in parts]
    with transaction.atomic():
        lease_hold(held)
        SnapshotFile.objects.bulk_create(files)
        advance(
            row,
            ScanState.FINISHED,
            act="snapshot.finished",
            actor=SYSTEM,
            detail={"files": {file.name: file.sha256 for file in files}},
            finished_at=timezone.now(),
        )


def repositories_of(host: Host) -> Iterator[RemoteName]:
    """Folders with a `.git` in them, as the latest scans of a host's resources know them; each once."""
    seen: set[bytes] = set()
    for resource in Resource.objects.filter(host=host).order_by("pk"):
        scan = latest_scan(resource)
        if scan is None:
            continue
        rows = scan.entries.filter(kind=Entry.Kind.FOLDER, name__holds=b".git").values_list("name", flat=True)
        for name in rows.iterator(chunk_size=2000):
            if name.base != b".git":
                continue
            above = name.raw.rpartition(b"/")[0]
            folder = scan.root.join(above) if above else scan.root
            if folder.raw not in seen:
                seen.add(folder.raw)
                yield folder
            if len(seen) > REPOSITORIES_AT_MOST:
                return


def _file(row: Snapshot, part: SnapshotPart) -> SnapshotFile:
    return SnapshotFile(
        snapshot=row,
        name=part.name,
        content=zstandard.ZstdCompressor(level=3).compress(part.content),
        size_bytes=len(part.content),
        sha256=hashlib.sha256(part.content).hexdigest(),
        problem=part.problem,
    )
