"""Scans: asking for one, cancelling it, and doing it so that a lost worker costs nothing but time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from itertools import islice
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, Max, OuterRef, Q
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
    lease_request_stop,
)
from calculet.lifecycle import SYSTEM, Actor, StateConflict, advance
from calculet.people.roles import Act, require
from inventory.columns import columns_forget, columns_make
from inventory.connect import open_remote
from inventory.models import Entry, Host, ListedBy, Resource, Scan, ScanState, SizeBasis
from inventory.remote.base import (
    CommandFailed,
    ConnectionLost,
    PathMissing,
    PathRefused,
    RemoteError,
    TransientError,
)
from inventory.remote.probe import ProbeReport
from inventory.selectors import known_report
from inventory.services.comparing import scan_compare
from inventory.services.errors import PathAbsent
from inventory.services.hosts import host_problem_keep
from inventory.services.known_digests import digests_fill
from inventory.services.listing import Listing
from inventory.services.sorting import EntrySorter
from inventory.services.storing import entries_store

STORE_ENTRIES = 2000  # rows a transaction: others wait a tenth of a second for the database, not longer
TRIES = 3
LATER_SECONDS = (5, 15, 45, 135, 300)  # how long a scan waits for a host that is away, try by try; then it fails
KEPT_SCANS = 2  # of each resource, with their entries
_TRY_AGAIN_SECONDS = 2.0
_TELL_SECONDS = 1.0
_MESSAGE_SECONDS = 10.0  # a message that was sent has had time to be taken
_REMOVE_ENTRIES = 10_000
_UNDER_WAY = (ScanState.QUEUED, ScanState.RUNNING)
_GIVEN_UP = (ScanState.FAILED, ScanState.CANCELLED)
_OF_THE_PATH = (PathMissing, PathRefused, CommandFailed)  # what is wrong with one resource, not with its host

logger = logging.getLogger(__name__)

Progress = Callable[[int], None]


class _NotWanted(Exception):
    """Somebody cancelled the scan while it ran."""


class _Stopped(Exception):
    """The worker is being shut down: the scan stays as it is, and begins again elsewhere."""


def scan_request(*, resource: Resource, actor: Actor) -> Scan:
    """Ask for a scan of a resource; the caller sends `tasks.run_scan`. One that is under way already is returned.

    Raises NotAllowed, PathAbsent.
    """
    require(actor.user, Act.SCAN)
    if not resource.path.raw:
        raise PathAbsent(resource.name)
    try:
        with transaction.atomic():
            scan = Scan.objects.create(
                host=resource.host, resource=resource, root=resource.path, requested_by=actor.user
            )
            record(act="scan.asked", actor=actor, subject=scan, detail={"root": scan.root})
    except IntegrityError:
        under_way = Scan.objects.filter(resource=resource, state__in=_UNDER_WAY).first()
        # The other one may have ended between the two statements; then asking again succeeds.
        return under_way if under_way is not None else scan_request(resource=resource, actor=actor)
    return scan


def scan_cancel(*, scan: Scan, actor: Actor) -> None:
    """Give a scan up that is queued or running; what it had found is removed. Raises NotAllowed, StateConflict."""
    require(actor.user, Act.SCAN)
    with transaction.atomic():
        lease_request_stop(name=scan_lease(scan.pk))
        advance(scan, ScanState.CANCELLED, act="scan.cancelled", actor=actor, finished_at=timezone.now())


def scan_lease(scan_id: int) -> str:
    """The name of the lease under which a scan runs."""
    return f"scan:{scan_id}"


def scans_sweep() -> list[int]:
    """The scans for which `scan_run` should be called by now: their message was lost, or their worker died."""
    now = timezone.now()
    waiting = Scan.objects.filter(state=ScanState.QUEUED, requested_at__lt=now - timedelta(seconds=_MESSAGE_SECONDS))
    waiting = waiting.filter(Q(not_before=None) | Q(not_before__lte=now))
    running = Scan.objects.filter(state=ScanState.RUNNING)
    leftovers = Scan.objects.filter(Exists(Entry.objects.filter(scan=OuterRef("pk"))), state__in=_GIVEN_UP)
    wanted = [*waiting.values_list("pk", flat=True), *running.values_list("pk", flat=True)]
    wanted += leftovers.values_list("pk", flat=True)
    return sorted(pk for pk in wanted if lease_is_free(name=scan_lease(pk)))


def scan_run(scan_id: int, *, progress: Progress | None = None) -> None:
    """Do a scan that is queued, or whose worker was lost, from its beginning. May run twice; one of them works.

    A failure ends the scan with a sentence in `problem`. `progress` is told the entries seen, about once a second.
    """
    scan = Scan.objects.select_related("host", "resource").filter(pk=scan_id).first()
    held = lease_acquire(name=scan_lease(scan_id)) if scan is not None else None
    if scan is None or held is None:
        return
    try:
        scan.refresh_from_db(fields=["state", "not_before", "tries"])
        if scan.state in _GIVEN_UP:
            _entries_remove(scan, held)
        elif scan.state in _UNDER_WAY and (scan.not_before is None or scan.not_before <= timezone.now()):
            _run(scan, held, progress or (lambda _seen: None))
            if scan.state == ScanState.FINISHED:
                _prune(scan, held)
                columns_make(scan)  # a page that needs them would make them, and keep somebody waiting
    except LeaseTaken as taken:
        logger.info("%s", taken)
    except _Stopped:
        logger.info("scan %s was stopped with its worker; it begins again by the sweep", scan_id)
    finally:
        lease_release(held)


def _run(scan: Scan, held: Held, progress: Progress) -> None:
    try:
        _begin(scan, held)
        _entries_remove(scan, held)
        with EntrySorter(keep_alive=lambda: lease_beat(held)) as sorter:
            _collect(scan, held, sorter, progress)
            _store(scan, held, sorter)
            digests_fill(scan, hold=lambda: _hold_wanted(scan, held))
            _finish(scan, held, sorter, scan_compare(scan, held))
    except (_NotWanted, StateConflict):
        _entries_remove(scan, held)
    except (LeaseTaken, _Stopped):
        raise
    except TransientError as error:
        if scan.tries < len(LATER_SECONDS):
            _wait(scan, held, str(error))
        else:
            _fail(scan, held, str(error), is_of_host=True)
    except RemoteError as error:
        _fail(scan, held, str(error), is_of_host=not isinstance(error, _OF_THE_PATH))
    except Exception:
        logger.exception("scan %s failed by a fault of the program", scan.pk)
        sentence = (
            "The scan ended by a fault of this program. Nothing on the host was changed, and earlier scans are kept. "
            "Scan again; if it fails again, the worker's log says where."
        )
        _fail(scan, held, sentence, is_of_host=False)


def _begin(scan: Scan, held: Held) -> None:
    with transaction.atomic():
        lease_hold(held)
        if scan.state == ScanState.RUNNING:
            advance(scan, ScanState.QUEUED, act="scan.worker_lost", actor=SYSTEM)
        advance(
            scan,
            ScanState.RUNNING,
            act="scan.started",
            actor=SYSTEM,
            started_at=timezone.now(),
            entries_seen=0,
            digested=0,
            problem="",
            not_before=None,
        )


def _collect(scan: Scan, held: Held, sorter: EntrySorter, progress: Progress) -> None:
    """Read the host's listing into the sorter. A connection that is lost on the way is no failure yet."""
    for attempt in range(TRIES):
        try:
            _collect_once(scan, held, sorter, progress)
            sorter.settle()
            return
        except ConnectionLost:
            if attempt + 1 >= TRIES:
                raise
            sorter.empty()
            _tell(scan, held, 0, progress)
            time.sleep(_TRY_AGAIN_SECONDS)


def _collect_once(scan: Scan, held: Held, sorter: EntrySorter, progress: Progress) -> None:
    host, known = scan.host, known_report(scan.host)
    listing = Listing(
        open_remote(host),
        root=scan.root,
        staging_path=host.staging_path,
        report=known,
        timeout_seconds=float(host.no_data_timeout_seconds),
    )
    seen, told = 0, time.monotonic()
    try:
        for piece in listing.pieces():
            sorter.add(piece)
            seen += len(piece)
            if time.monotonic() - told >= _TELL_SECONDS:
                _tell(scan, held, seen, progress)
                told = time.monotonic()
    finally:
        listing.close()
    if listing.report is not None and listing.report is not known:
        Host.objects.filter(pk=host.pk).update(probe=listing.report.as_json(), probed_at=timezone.now())
    scan.listed_by = _listed_by(listing.report)
    _tell(scan, held, seen, progress)


def _listed_by(report: ProbeReport | None) -> str:
    if report is None:
        return ""
    if not report.has_shell:
        return ListedBy.SFTP
    return ListedBy.FIND if report.has_find_printf else ListedBy.STAT


def _tell(scan: Scan, held: Held, seen: int, progress: Progress) -> None:
    """Keep the lease and the progress. Raises LeaseTaken, _NotWanted, _Stopped."""
    is_stopped = lease_beat(held)
    if not Scan.objects.filter(pk=scan.pk, state=ScanState.RUNNING).update(entries_seen=seen):
        raise _NotWanted
    if is_stopped:
        raise _Stopped
    progress(seen)


def _store(scan: Scan, held: Held, sorter: EntrySorter) -> None:
    """Write the sorted entries in batches; each only while the lease is ours, nobody asks for a stop, and the scan is
    wanted. Raises LeaseTaken, _NotWanted, _Stopped."""
    is_stopped, beaten = False, time.monotonic()
    for batch in _batches(sorter.values()):
        with transaction.atomic():
            _hold_wanted(scan, held)
            if is_stopped:
                raise _Stopped
            entries_store(scan, batch)
        if time.monotonic() - beaten >= _TELL_SECONDS:
            is_stopped, beaten = lease_beat(held), time.monotonic()


def _hold_wanted(scan: Scan, held: Held) -> None:
    """First statement of a write: the lease is ours and the scan is wanted. Raises LeaseTaken, _NotWanted."""
    lease_hold(held)
    if not Scan.objects.filter(pk=scan.pk, state=ScanState.RUNNING).exists():
        raise _NotWanted


def _batches(rows: Iterator[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    while batch := list(islice(rows, STORE_ENTRIES)):
        yield batch


def _finish(scan: Scan, held: Held, sorter: EntrySorter, drift: dict[str, Any]) -> None:
    totals: dict[str, Any] = asdict(sorter.totals())
    if not scan.knows_identity:
        totals |= {"hard_linked": None, "sparse": None, "stored_bytes": 0}
    lease_beat(held)
    with transaction.atomic():
        lease_hold(held)
        Resource.objects.filter(pk=scan.resource_id, path=scan.root).update(
            size_bytes=totals["apparent_bytes"], size_basis=SizeBasis.EXACT
        )
        if drift and (drift["added"] or drift["removed"] or drift["changed"]):
            # What is at home is no longer what lies there.
            verified = Resource.objects.filter(pk=scan.resource_id, verified_bytes__gt=0, stale_since__isnull=True)
            verified.update(stale_since=timezone.now())
        host_problem_keep(host_id=scan.host_id, problem="")
        advance(
            scan,
            ScanState.FINISHED,
            act="scan.finished",
            actor=SYSTEM,
            detail={**totals, **{name: count for name, count in drift.items() if name != "former"}},
            finished_at=timezone.now(),
            listed_by=scan.listed_by,
            **totals,
            **drift,
        )


def _prune(scan: Scan, held: Held) -> None:
    """Remove the entries of scans that are neither the latest of their resource nor the one before; counts stay."""
    finished = Scan.objects.filter(resource=scan.resource_id, state=ScanState.FINISHED)
    for old in finished.order_by("-finished_at", "-pk")[KEPT_SCANS:]:
        _entries_remove(old, held)


def _wait(scan: Scan, held: Held, problem: str) -> None:
    """The host is away: the scan begins again later. Nothing of a cut listing is kept, since it may have changed."""
    later = timezone.now() + timedelta(seconds=LATER_SECONDS[scan.tries])
    try:
        with transaction.atomic():
            lease_hold(held)
            advance(
                scan,
                ScanState.QUEUED,
                act="scan.waits",
                actor=SYSTEM,
                detail={"problem": problem, "tries": scan.tries + 1},
                problem=problem,
                tries=scan.tries + 1,
                not_before=later,
            )
    except StateConflict as conflict:  # cancelled at the same moment
        logger.info("%s", conflict)
    _entries_remove(scan, held)


def _fail(scan: Scan, held: Held, problem: str, *, is_of_host: bool) -> None:
    try:
        with transaction.atomic():
            lease_hold(held)
            if is_of_host:
                host_problem_keep(host_id=scan.host_id, problem=problem)
            advance(
                scan,
                ScanState.FAILED,
                act="scan.failed",
                actor=SYSTEM,
                detail={"problem": problem},
                finished_at=timezone.now(),
                problem=problem,
            )
    except StateConflict as conflict:  # cancelled at the same moment: then that is how it ended
        logger.info("%s", conflict)
    _entries_remove(scan, held)


def _entries_remove(scan: Scan, held: Held) -> None:
    """Remove what an attempt stored that was not finished. Raises LeaseTaken."""
    last = Entry.objects.filter(scan=scan).aggregate(last=Max("position"))["last"]
    if last is None:
        return
    columns_forget(scan)
    for begin in range(0, last + 1, _REMOVE_ENTRIES):
        with transaction.atomic():
            lease_hold(held)
            Entry.objects.filter(scan=scan, position__gte=begin, position__lt=begin + _REMOVE_ENTRIES).delete()
        lease_beat(held)
