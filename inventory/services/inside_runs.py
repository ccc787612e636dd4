"""Looking inside archives on their host: asking for it, giving up, and one turn of it, safe to run twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

from django.db import IntegrityError, transaction
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
from inventory.connect import installation_marker, open_remote
from inventory.insides import archives_of, wanted_of
from inventory.models import InsideRun, Resource, Scan, ScanState
from inventory.overlap import hostlook
from inventory.overlap.archives import FindingsDamaged, read_records
from inventory.overlap.hostlook import InsideJob
from inventory.remote.base import Remote, RemoteError, ToolMissing, TransientError
from inventory.remote.names import RemoteName
from inventory.remote.staging import ensure_staging
from inventory.selectors import has_no_shell, latest_scan
from inventory.services.errors import ScanAbsent, ShellAbsent
from inventory.services.insides import Looked, inside_keep

TURN_SECONDS = 20.0
TRIES = 5  # jobs that were lost without a finding
_LOOK_SECONDS = 1.0
_MESSAGE_SECONDS = 10.0
_UNDER_WAY = (ScanState.QUEUED, ScanState.RUNNING)
_GIVEN_UP = (ScanState.FAILED, ScanState.CANCELLED)
_LAYOUT_MARK = b"/"  # after the name of a folder in the list that a run keeps

logger = logging.getLogger(__name__)


class _Stopped(Exception):
    """The worker is being shut down, or the run was given up; the job on the host goes on and is found again."""


def inside_request(*, resource: Resource, actor: Actor) -> InsideRun:
    """Ask for a look inside the archives of the latest scan; the caller sends `tasks.look_inside`.

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
            run = InsideRun.objects.create(host=resource.host, resource=resource, scan=scan, requested_by=actor.user)
            record(act="inside.asked", actor=actor, subject=run, host=resource.host, detail={"scan": scan.pk})
    except IntegrityError:
        under_way = InsideRun.objects.filter(resource=resource, state__in=_UNDER_WAY).first()
        return under_way if under_way is not None else inside_request(resource=resource, actor=actor)
    return run


def inside_cancel(*, run: InsideRun, actor: Actor) -> None:
    """Give a look up; what was found so far is kept, and the host is tidied by the next turn.

    Raises NotAllowed, StateConflict.
    """
    require(actor.user, Act.SCAN)
    with transaction.atomic():
        lease_request_stop(name=inside_lease(run.pk))
        advance(run, ScanState.CANCELLED, act="inside.cancelled", actor=actor, finished_at=timezone.now())


def inside_lease(run_id: int) -> str:
    """The name of the lease under which a run's turns are taken."""
    return f"inside:{run_id}"


def inside_sweep() -> list[int]:
    """The runs that are due for a turn."""
    long_ago = timezone.now() - timedelta(seconds=_MESSAGE_SECONDS)
    waiting = InsideRun.objects.filter(state=ScanState.QUEUED, requested_at__lt=long_ago)
    running = InsideRun.objects.filter(state=ScanState.RUNNING)
    untidy = InsideRun.objects.filter(state__in=_GIVEN_UP, finished_at__gt=timezone.now() - timedelta(hours=1))
    wanted = [*waiting.values_list("pk", flat=True), *running.values_list("pk", flat=True)]
    wanted += untidy.exclude(folder=b"").values_list("pk", flat=True)
    return sorted(pk for pk in wanted if lease_is_free(name=inside_lease(pk)))


def inside_run(run_id: int, *, turn_seconds: float = TURN_SECONDS) -> None:
    """One turn: begin what is queued, or read what the job on the host has found since. May run twice."""
    run = InsideRun.objects.select_related("host", "resource", "scan").filter(pk=run_id).first()
    held = lease_acquire(name=inside_lease(run_id)) if run is not None else None
    if run is None or held is None:
        return
    try:
        run.refresh_from_db()
        if run.state in _UNDER_WAY or run.folder.raw:
            _turn(run, held, turn_seconds)
    except LeaseTaken as taken:
        logger.info("%s", taken)
    except (_Stopped, StateConflict):
        logger.info("look inside %s rests until its next turn", run_id)
    finally:
        lease_release(held)


def _turn(run: InsideRun, held: Held, turn_seconds: float) -> None:
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
        InsideRun.objects.filter(pk=run.pk).update(problem=str(error))
    except RemoteError as error:
        _fail(run, held, str(error))


def _begin(run: InsideRun, held: Held, remote: Remote) -> bool:
    """Start the job for the archives of which nothing is known; False when there is none."""
    scan = _scan_of(run)
    archives = archives_of(scan)
    wanted = wanted_of(scan, archives)
    if not wanted:
        _finish(run, held, known=len(archives))
        return False
    way = hostlook.way_of(remote)
    if way == "none":
        raise ToolMissing(
            "python3, nor a tar with --to-command,",
            "look inside archives where they lie; what is fetched as an existing archive is looked into at home",
        )
    ensure_staging(remote, run.host.staging_path, installation_marker())
    names = b"".join(one.name + (_LAYOUT_MARK if one.is_layout else b"") + b"\0" for one in wanted)
    folder = run.host.staging_path.join(b"inside-%d-%d" % (run.pk, run.tries))
    _keep(run, held, folder=folder, wanted=names, archives_done=0)
    hostlook.begin(remote, _job(run, scan), wanted, way)
    with transaction.atomic():
        _hold(run, held)
        advance(
            run,
            ScanState.RUNNING,
            act="inside.started",
            actor=SYSTEM,
            detail={"archives": len(wanted), "known": len(archives) - len(wanted), "by": way},
            archives_known=len(archives) - len(wanted),
            archives_wanted=len(wanted),
            problem="",
        )
    return True


def _follow(run: InsideRun, held: Held, remote: Remote, until: float) -> None:
    """Read findings until the job ends or the turn is over."""
    job = _job(run, _scan_of(run))
    while True:
        state, done = hostlook.state_of(remote, job)
        _read(run, held, remote, job, done)
        if state is None or state.phase in ("lost", "failed"):
            _again(run, held, remote, state.log if state is not None else b"")
            return
        if state.phase == "done":
            _finish(run, held, known=run.archives_known)
            _clear(run, held, remote)
            return
        if time.monotonic() >= until:
            return
        time.sleep(_LOOK_SECONDS)


def _read(run: InsideRun, held: Held, remote: Remote, job: InsideJob, done: int) -> None:
    """Keep what was found in every archive that is done and was not read yet."""
    names = bytes(run.wanted).split(b"\0")[:-1]
    while run.archives_done < min(done, len(names)):
        number = run.archives_done
        is_layout = names[number].endswith(_LAYOUT_MARK)
        name = names[number].removesuffix(_LAYOUT_MARK) if is_layout else names[number]
        full = job.root if name == b"." else job.root.join(name)
        findings = _beating(hostlook.findings(remote, job, number), held)
        try:
            looked = inside_keep(
                run.host, full, read_records(findings), is_layout=is_layout, hold=lambda: _hold(run, held)
            )
        except FindingsDamaged as damaged:  # of this one: whatever it holds must not keep the others from being read
            logger.warning("%s of %s: %s", full, run, damaged)
            looked = Looked(None, "damaged")
        faulty = run.archives_faulty + bool(looked.fault)
        _keep(run, held, archives_done=number + 1, archives_faulty=faulty, tries=0, problem="")
    if lease_beat(held):
        raise _Stopped


def _beating(pieces: Iterator[bytes], held: Held) -> Iterator[bytes]:
    """Keep the lease while findings arrive."""
    beaten = time.monotonic()
    for piece in pieces:
        if time.monotonic() - beaten >= _LOOK_SECONDS:
            beaten = time.monotonic()
            lease_beat(held)
        yield piece


def _again(run: InsideRun, held: Held, remote: Remote, log: bytes) -> None:
    """The job is gone without having ended well: what it found is kept, the rest is begun anew, some times."""
    hostlook.clear(remote, _job(run, _scan_of(run)))
    said = log.decode("utf-8", "replace").strip()[-300:]
    if run.tries + 1 >= TRIES:
        _keep(run, held, folder=RemoteName(b""))
        sentence = _("The look inside ended before its time again and again. What was found is kept. %(said)s")
        _fail(run, held, sentence % {"said": said})
        return
    with transaction.atomic():
        _hold(run, held)
        advance(
            run,
            ScanState.QUEUED,
            act="inside.job_lost",
            actor=SYSTEM,
            detail={"said": said},
            folder=RemoteName(b""),
            tries=run.tries + 1,
        )


def _finish(run: InsideRun, held: Held, *, known: int) -> None:
    with transaction.atomic():
        _hold(run, held)
        advance(
            run,
            ScanState.FINISHED,
            act="inside.finished",
            actor=SYSTEM,
            detail={"known": known, "read": run.archives_done, "not_whole": run.archives_faulty},
            archives_known=known,
            finished_at=timezone.now(),
            problem="",
        )


def _fail(run: InsideRun, held: Held, problem: str) -> None:
    with transaction.atomic():
        lease_hold(held)
        advance(
            run,
            ScanState.FAILED,
            act="inside.failed",
            actor=SYSTEM,
            detail={"problem": problem},
            problem=problem,
            finished_at=timezone.now(),
        )


def _clear(run: InsideRun, held: Held, remote: Remote) -> None:
    if run.folder.raw:
        hostlook.clear(remote, _job(run, _scan_of(run)))
        _keep(run, held, folder=RemoteName(b""))


def _keep(run: InsideRun, held: Held, **fields: object) -> None:
    with transaction.atomic():
        lease_hold(held)
        InsideRun.objects.filter(pk=run.pk).update(**fields)
    for name, value in fields.items():
        setattr(run, name, value)


def _hold(run: InsideRun, held: Held) -> None:
    """First statement of a write: the lease is ours and the run is wanted."""
    lease_hold(held)
    if not InsideRun.objects.filter(pk=run.pk, state__in=_UNDER_WAY).exists():
        raise _Stopped


def _scan_of(run: InsideRun) -> Scan:
    scan = run.scan
    if scan is None:
        raise StateConflict(str(run), run.state, "done", "")
    return scan


def _job(run: InsideRun, scan: Scan) -> InsideJob:
    top = scan.root if scan.folders else RemoteName(scan.root.raw.rpartition(b"/")[0] or b"/")
    return InsideJob(run.folder, top)
