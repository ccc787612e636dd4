"""Digests at the source: asking for them, giving up, and one turn of taking them, safe to run twice."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Sum
from django.utils import timezone
from django.utils.translation import gettext as _

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
from inventory import digests
from inventory.connect import installation_marker, open_remote
from inventory.digests import DigestJob, Wanted
from inventory.models import DigestRun, Resource, Scan, ScanState
from inventory.remote.base import PathMissing, Remote, RemoteError, ShellUnusable, ToolMissing, TransientError
from inventory.remote.names import RemoteName
from inventory.remote.probe import probe
from inventory.remote.staging import ensure_staging
from inventory.selectors import has_no_shell, known_report, latest_scan
from inventory.services.errors import ScanAbsent, ShellAbsent
from inventory.services.known_digests import digests_fill, digests_keep, files_bare, files_counted

TURN_SECONDS = 20.0
TRIES = 5  # jobs that were lost without a finding
_LOOK_SECONDS = 1.0
_MESSAGE_SECONDS = 10.0
_UNDER_WAY = (ScanState.QUEUED, ScanState.RUNNING)
_GIVEN_UP = (ScanState.FAILED, ScanState.CANCELLED)

logger = logging.getLogger(__name__)


class _Stopped(Exception):
    """The worker is being shut down, or the run was given up; the job on the host goes on and is found again."""


def digests_request(*, resource: Resource, actor: Actor) -> DigestRun:
    """Ask for the digests that the latest scan lacks; the caller sends `tasks.run_digests`.

    One that is under way already is returned. Raises NotAllowed, ScanAbsent, ShellAbsent.
    """
    require(actor.user, Act.SCAN)
    scan = latest_scan(resource)
    if scan is None:
        raise ScanAbsent(resource.name)
    if has_no_shell(resource.host):
        raise ShellAbsent(resource.host.name)
    try:
        with transaction.atomic():
            run = DigestRun.objects.create(host=resource.host, resource=resource, scan=scan, requested_by=actor.user)
            record(act="digests.asked", actor=actor, subject=run, host=resource.host, detail={"scan": scan.pk})
    except IntegrityError:
        under_way = DigestRun.objects.filter(resource=resource, state__in=_UNDER_WAY).first()
        return under_way if under_way is not None else digests_request(resource=resource, actor=actor)
    return run


def digests_cancel(*, run: DigestRun, actor: Actor) -> None:
    """Give a run up; what was taken so far is remembered, and the host is tidied by the next turn.

    Raises NotAllowed, StateConflict.
    """
    require(actor.user, Act.SCAN)
    with transaction.atomic():
        lease_request_stop(name=digests_lease(run.pk))
        advance(run, ScanState.CANCELLED, act="digests.cancelled", actor=actor, finished_at=timezone.now())


def digests_lease(run_id: int) -> str:
    """The name of the lease under which a run's turns are taken."""
    return f"digests:{run_id}"


def digests_sweep() -> list[int]:
    """The runs that are due for a turn."""
    long_ago = timezone.now() - timedelta(seconds=_MESSAGE_SECONDS)
    waiting = DigestRun.objects.filter(state=ScanState.QUEUED, requested_at__lt=long_ago)
    running = DigestRun.objects.filter(state=ScanState.RUNNING)
    untidy = DigestRun.objects.filter(state__in=_GIVEN_UP, finished_at__gt=timezone.now() - timedelta(hours=1))
    wanted = [*waiting.values_list("pk", flat=True), *running.values_list("pk", flat=True)]
    wanted += untidy.exclude(folder=b"").values_list("pk", flat=True)
    return sorted(pk for pk in wanted if lease_is_free(name=digests_lease(pk)))


def digests_run(run_id: int, *, turn_seconds: float = TURN_SECONDS) -> None:
    """One turn: begin what is queued, or read what the job on the host has found since. May run twice."""
    run = DigestRun.objects.select_related("host", "resource", "scan").filter(pk=run_id).first()
    held = lease_acquire(name=digests_lease(run_id)) if run is not None else None
    if run is None or held is None:
        return
    try:
        run.refresh_from_db()
        if run.state in _UNDER_WAY or run.folder.raw:
            _turn(run, held, turn_seconds)
    except LeaseTaken as taken:
        logger.info("%s", taken)
    except (_Stopped, StateConflict):
        logger.info("digests %s rest until their next turn", run_id)
    finally:
        lease_release(held)


def _turn(run: DigestRun, held: Held, turn_seconds: float) -> None:
    try:
        with closing(open_remote(run.host)) as remote:
            if run.state in _GIVEN_UP:
                _clear(run, held, remote)
                return
            if run.state == ScanState.QUEUED and not _begin(run, held, remote):
                return
            _follow(run, held, remote, time.monotonic() + turn_seconds)
    except TransientError as error:
        # The job goes on without us; the next turn finds it. The sentence is shown until then.
        DigestRun.objects.filter(pk=run.pk).update(problem=str(error))
    except RemoteError as error:
        _fail(run, held, str(error))


def _begin(run: DigestRun, held: Held, remote: Remote) -> bool:
    """Fill in what is remembered and start the job for the rest; False when there was no rest."""
    scan = _scan_of(run)
    known = digests_fill(scan, hold=lambda: _hold(run, held))
    bare = list_sums(scan, over_bytes=run.over_bytes)
    if not bare[0]:
        _finish(run, held, scan, known=known)
        return False
    report = known_report(run.host) or probe(remote, run.host.staging_path)
    if not report.has_shell:
        raise ShellUnusable(report.shell_refusal)
    if not report.has_sha256:
        raise ToolMissing("sha256sum", "take digests")
    ensure_staging(remote, run.host.staging_path, installation_marker())
    if not run.folder.raw:
        workers = max(1, min(report.cores or 1, digests.WORKERS_AT_MOST))
        folder = run.host.staging_path.join(b"digests-%d-%d" % (run.pk, run.tries))
        _keep(run, held, folder=folder, word=secrets.token_hex(16), offsets=[0] * workers)
    job = _job(run, scan)
    counts = digests.begin(
        remote, job, _alive(files_bare(scan, over_bytes=run.over_bytes), held), has_zero=report.has_sha256_z
    )
    with transaction.atomic():
        _hold(run, held)
        advance(
            run,
            ScanState.RUNNING,
            act="digests.started",
            actor=SYSTEM,
            detail={"files": counts, "known": known},
            files_known=run.files_known + known,
            files_wanted=run.files_done + counts,
            bytes_wanted=run.bytes_done + bare[1],
            problem="",
        )
    return True


def _follow(run: DigestRun, held: Held, remote: Remote, until: float) -> None:
    """Read findings until the job ends or the turn is over."""
    scan = _scan_of(run)
    job = _job(run, scan)
    while True:
        try:
            state = digests.state_of(remote, job)
        except PathMissing:
            state = None
        _read(run, held, remote, job)
        if state is None or state.phase in ("lost", "failed"):
            _again(run, held, remote, state.log if state is not None else b"")
            return
        if state.phase == "done":
            digests_fill(scan, hold=lambda: _hold(run, held))
            _finish(run, held, scan)
            _clear(run, held, remote)
            return
        if time.monotonic() >= until:
            return
        time.sleep(_LOOK_SECONDS)


def _read(run: DigestRun, held: Held, remote: Remote, job: DigestJob) -> None:
    """Keep what every worker has found since the last look."""
    for worker in range(job.workers):
        while True:
            found = digests.look(remote, job, worker, run.offsets[worker])
            if found.offset == run.offsets[worker]:
                break
            if lease_beat(held):
                raise _Stopped
            offsets = [*run.offsets]
            offsets[worker] = found.offset
            done = len(found.taken) + len(found.moved)
            size = sum(one.stat.size_bytes for one in found.taken)
            with transaction.atomic():
                _hold(run, held)
                digests_keep(run.host, found.taken)
                fields = {
                    "offsets": offsets,
                    "files_done": run.files_done + done,
                    "bytes_done": run.bytes_done + size,
                    "tries": 0,
                    "problem": "",
                }
                DigestRun.objects.filter(pk=run.pk).update(**fields)
            for name, value in fields.items():
                setattr(run, name, value)
    if lease_beat(held):
        raise _Stopped


def _again(run: DigestRun, held: Held, remote: Remote, log: bytes) -> None:
    """The job is gone without having ended well: what it found is kept, the rest is begun anew, some times."""
    digests.clear(remote, _job(run, _scan_of(run)))
    said = log.decode("utf-8", "replace").strip()[-300:]
    if run.tries + 1 >= TRIES:
        _keep(run, held, folder=RemoteName(b""))
        sentence = _("The digests ended before their time again and again. What was taken is kept. %(said)s")
        _fail(run, held, sentence % {"said": said})
        return
    with transaction.atomic():
        _hold(run, held)
        advance(
            run,
            ScanState.QUEUED,
            act="digests.job_lost",
            actor=SYSTEM,
            detail={"said": said},
            folder=RemoteName(b""),
            tries=run.tries + 1,
        )


def _finish(run: DigestRun, held: Held, scan: Scan, *, known: int = 0) -> None:
    having, left = files_counted(scan, over_bytes=run.over_bytes)
    with transaction.atomic():
        _hold(run, held)
        advance(
            run,
            ScanState.FINISHED,
            act="digests.finished",
            actor=SYSTEM,
            detail={"files": having, "left": left, "read": run.files_done, "known": run.files_known + known},
            files_known=run.files_known + known,
            files_left=left,
            finished_at=timezone.now(),
            problem="",
        )


def _fail(run: DigestRun, held: Held, problem: str) -> None:
    with transaction.atomic():
        lease_hold(held)
        advance(
            run,
            ScanState.FAILED,
            act="digests.failed",
            actor=SYSTEM,
            detail={"problem": problem},
            problem=problem,
            finished_at=timezone.now(),
        )


def _clear(run: DigestRun, held: Held, remote: Remote) -> None:
    """Keep what a given-up job had found, and remove its folder on the host."""
    if not run.folder.raw:
        return
    if run.state in _GIVEN_UP and run.offsets:
        job = _job(run, _scan_of(run))
        for worker in range(job.workers):
            with transaction.atomic():
                lease_hold(held)
                digests_keep(run.host, digests.look(remote, job, worker, run.offsets[worker]).taken)
    digests.clear(remote, _job(run, _scan_of(run)))
    _keep(run, held, folder=RemoteName(b""))


def _keep(run: DigestRun, held: Held, **fields: object) -> None:
    with transaction.atomic():
        lease_hold(held)
        DigestRun.objects.filter(pk=run.pk).update(**fields)
    for name, value in fields.items():
        setattr(run, name, value)


def _hold(run: DigestRun, held: Held) -> None:
    """First statement of a write: the lease is ours and the run is wanted."""
    lease_hold(held)
    if not DigestRun.objects.filter(pk=run.pk, state__in=_UNDER_WAY).exists():
        raise _Stopped


def _alive(wanted: Iterator[Wanted], held: Held) -> Iterator[Wanted]:
    """Keep the lease while a long list is made."""
    beaten = time.monotonic()
    for one in wanted:
        if time.monotonic() - beaten >= _LOOK_SECONDS:
            lease_beat(held)
            beaten = time.monotonic()
        yield one


def _scan_of(run: DigestRun) -> Scan:
    scan = run.scan
    if scan is None:
        raise StateConflict(str(run), run.state, "done", "")
    return scan


def _job(run: DigestRun, scan: Scan) -> DigestJob:
    is_one_file = not scan.entries.filter(kind="folder", position=0).exists()
    top = RemoteName(scan.root.raw.rpartition(b"/")[0] or b"/") if is_one_file else scan.root
    return DigestJob(run.folder, top, run.word, len(run.offsets))


def list_sums(scan: Scan, *, over_bytes: int) -> tuple[int, int]:
    """Files of so many bytes at least without a digest, and their bytes."""
    rows = scan.entries.filter(kind="file", sha256__isnull=True, size_bytes__gte=over_bytes)
    return rows.count(), rows.aggregate(total=Sum("size_bytes"))["total"] or 0
