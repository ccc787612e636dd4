"""Looking inside archives on their host: asking for it, giving up, and one turn of it, safe to run twice."""

from __future__ import annotations

import logging
import time

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.leases.services import (
    Held,
    lease_beat,
)
from calculet.lifecycle import SYSTEM, Actor, advance
from inventory.connect import installation_marker
from inventory.insides import archives_of, wanted_of
from inventory.models import InsideRun, Resource, Scan, ScanState
from inventory.overlap import hostlook
from inventory.overlap.archives import FindingsDamaged, read_records
from inventory.overlap.hostlook import InsideJob
from inventory.remote.base import Remote, ToolMissing
from inventory.remote.names import RemoteName
from inventory.remote.staging import ensure_staging
from inventory.services.host_jobs import (
    LOOK_SECONDS,
    TURN_SECONDS,
    JobKind,
    RunStopped,
    job_lost,
    lease_kept,
    run_ask,
    run_cancel,
    run_hold,
    run_keep,
    runs_due,
    scan_of,
    turn_take,
)
from inventory.services.insides import Looked, inside_keep

_LAYOUT_MARK = b"/"  # after the name of a folder in the list that a run keeps

logger = logging.getLogger(__name__)


def inside_request(*, resource: Resource, actor: Actor) -> InsideRun:
    """Ask for a look inside the archives of the latest scan; the caller sends `tasks.look_inside`.

    One that is under way already is returned. Raises NotAllowed, ScanAbsent, ShellAbsent.
    """
    return run_ask(KIND, resource=resource, actor=actor)


def inside_cancel(*, run: InsideRun, actor: Actor) -> None:
    """Give a look up; what was found so far is kept, and the host is tidied by the next turn.

    Raises NotAllowed, StateConflict.
    """
    run_cancel(KIND, run=run, actor=actor)


def inside_sweep() -> list[int]:
    """The runs that are due for a turn."""
    return runs_due(KIND)


def inside_run(run_id: int, *, turn_seconds: float = TURN_SECONDS) -> None:
    """One turn: begin what is queued, or read what the job on the host has found since. May run twice."""
    turn_take(KIND, run_id, seconds=turn_seconds)


def _begin(run: InsideRun, held: Held, remote: Remote) -> bool:
    """Start the job for the archives of which nothing is known; False when there is none."""
    scan = scan_of(run)
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
    run_keep(run, held, folder=folder, wanted=names, archives_done=0)
    hostlook.begin(remote, _job(run, scan), wanted, way)
    with transaction.atomic():
        run_hold(run, held)
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
    job = _job(run, scan_of(run))
    while True:
        state, done = hostlook.state_of(remote, job)
        _read(run, held, remote, job, done)
        if state is None or state.phase in ("lost", "failed"):
            hostlook.clear(remote, job)
            sentence = _("The look inside ended before its time again and again. What was found is kept. %(said)s")
            job_lost(KIND, run, held, state.log if state is not None else b"", sentence=sentence)
            return
        if state.phase == "done":
            _finish(run, held, known=run.archives_known)
            _clear(run, held, remote)
            return
        if time.monotonic() >= until:
            return
        time.sleep(LOOK_SECONDS)


def _read(run: InsideRun, held: Held, remote: Remote, job: InsideJob, done: int) -> None:
    """Keep what was found in every archive that is done and was not read yet."""
    names = bytes(run.wanted).split(b"\0")[:-1]
    while run.archives_done < min(done, len(names)):
        number = run.archives_done
        is_layout = names[number].endswith(_LAYOUT_MARK)
        name = names[number].removesuffix(_LAYOUT_MARK) if is_layout else names[number]
        full = job.root if name == b"." else job.root.join(name)
        findings = lease_kept(hostlook.findings(remote, job, number), held)
        try:
            looked = inside_keep(
                run.host, full, read_records(findings), is_layout=is_layout, hold=lambda: run_hold(run, held)
            )
        except FindingsDamaged as damaged:  # of this one: whatever it holds must not keep the others from being read
            logger.warning("%s of %s: %s", full, run, damaged)
            looked = Looked(None, "damaged")
        faulty = run.archives_faulty + bool(looked.fault)
        run_keep(run, held, archives_done=number + 1, archives_faulty=faulty, tries=0, problem="")
    if lease_beat(held):
        raise RunStopped


def _finish(run: InsideRun, held: Held, *, known: int) -> None:
    with transaction.atomic():
        run_hold(run, held)
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


def _clear(run: InsideRun, held: Held, remote: Remote) -> None:
    if run.folder.raw:
        hostlook.clear(remote, _job(run, scan_of(run)))
        run_keep(run, held, folder=RemoteName(b""))


def _job(run: InsideRun, scan: Scan) -> InsideJob:
    top = scan.root if scan.folders else RemoteName(scan.root.raw.rpartition(b"/")[0] or b"/")
    return InsideJob(run.folder, top)


KIND = JobKind(InsideRun, "inside", begin=_begin, follow=_follow, clear=_clear)
