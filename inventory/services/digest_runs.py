"""Digests at the source: asking for them, giving up, and one turn of taking them, safe to run twice."""

from __future__ import annotations

import secrets
import time

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.leases.services import (
    Held,
    lease_beat,
    lease_hold,
)
from calculet.lifecycle import SYSTEM, Actor, advance
from inventory import digests
from inventory.connect import installation_marker
from inventory.digests import DigestJob
from inventory.models import DigestRun, Resource, Scan, ScanState
from inventory.remote.base import PathMissing, Remote, ShellUnusable, ToolMissing
from inventory.remote.names import RemoteName
from inventory.remote.probe import probe
from inventory.remote.staging import ensure_staging
from inventory.selectors import known_report
from inventory.services.host_jobs import (
    GIVEN_UP,
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
from inventory.services.known_digests import digests_fill, digests_keep, files_bare, files_counted


def digests_request(*, resource: Resource, actor: Actor) -> DigestRun:
    """Ask for the digests that the latest scan lacks; the caller sends `tasks.run_digests`.

    One that is under way already is returned. Raises NotAllowed, ScanAbsent, ShellAbsent.
    """
    return run_ask(KIND, resource=resource, actor=actor)


def digests_cancel(*, run: DigestRun, actor: Actor) -> None:
    """Give a run up; what was taken so far is remembered, and the host is tidied by the next turn.

    Raises NotAllowed, StateConflict.
    """
    run_cancel(KIND, run=run, actor=actor)


def digests_sweep() -> list[int]:
    """The runs that are due for a turn."""
    return runs_due(KIND)


def digests_run(run_id: int, *, turn_seconds: float = TURN_SECONDS) -> None:
    """One turn: begin what is queued, or read what the job on the host has found since. May run twice."""
    turn_take(KIND, run_id, seconds=turn_seconds)


def _begin(run: DigestRun, held: Held, remote: Remote) -> bool:
    """Fill in what is remembered and start the job for the rest; False when there was no rest."""
    scan = scan_of(run)
    known = digests_fill(scan, hold=lambda: run_hold(run, held))
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
        run_keep(run, held, folder=folder, word=secrets.token_hex(16), offsets=[0] * workers)
    job = _job(run, scan)
    counts = digests.begin(
        remote, job, lease_kept(files_bare(scan, over_bytes=run.over_bytes), held), has_zero=report.has_sha256_z
    )
    with transaction.atomic():
        run_hold(run, held)
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
    scan = scan_of(run)
    job = _job(run, scan)
    while True:
        try:
            state = digests.state_of(remote, job)
        except PathMissing:
            state = None
        _read(run, held, remote, job)
        if state is None or state.phase in ("lost", "failed"):
            digests.clear(remote, job)
            sentence = _("The digests ended before their time again and again. What was taken is kept. %(said)s")
            job_lost(KIND, run, held, state.log if state is not None else b"", sentence=sentence)
            return
        if state.phase == "done":
            digests_fill(scan, hold=lambda: run_hold(run, held))
            _finish(run, held, scan)
            _clear(run, held, remote)
            return
        if time.monotonic() >= until:
            return
        time.sleep(LOOK_SECONDS)


def _read(run: DigestRun, held: Held, remote: Remote, job: DigestJob) -> None:
    """Keep what every worker has found since the last look."""
    for worker in range(job.workers):
        while True:
            found = digests.look(remote, job, worker, run.offsets[worker])
            if found.offset == run.offsets[worker]:
                break
            if lease_beat(held):
                raise RunStopped
            offsets = [*run.offsets]
            offsets[worker] = found.offset
            done = len(found.taken) + len(found.moved)
            size = sum(one.stat.size_bytes for one in found.taken)
            with transaction.atomic():
                run_hold(run, held)
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
        raise RunStopped


def _finish(run: DigestRun, held: Held, scan: Scan, *, known: int = 0) -> None:
    having, left = files_counted(scan, over_bytes=run.over_bytes)
    with transaction.atomic():
        run_hold(run, held)
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


def _clear(run: DigestRun, held: Held, remote: Remote) -> None:
    """Keep what a given-up job had found, and remove its folder on the host."""
    if not run.folder.raw:
        return
    if run.state in GIVEN_UP and run.offsets:
        job = _job(run, scan_of(run))
        for worker in range(job.workers):
            with transaction.atomic():
                lease_hold(held)
                digests_keep(run.host, digests.look(remote, job, worker, run.offsets[worker]).taken)
    digests.clear(remote, _job(run, scan_of(run)))
    run_keep(run, held, folder=RemoteName(b""))


def _job(run: DigestRun, scan: Scan) -> DigestJob:
    is_one_file = not scan.entries.filter(kind="folder", position=0).exists()
    top = RemoteName(scan.root.raw.rpartition(b"/")[0] or b"/") if is_one_file else scan.root
    return DigestJob(run.folder, top, run.word, len(run.offsets))


def list_sums(scan: Scan, *, over_bytes: int) -> tuple[int, int]:
    """Files of so many bytes at least without a digest, and their bytes."""
    rows = scan.entries.filter(kind="file", sha256__isnull=True, size_bytes__gte=over_bytes)
    return rows.count(), rows.aggregate(total=Sum("size_bytes"))["total"] or 0


KIND = JobKind(DigestRun, "digests", begin=_begin, follow=_follow, clear=_clear)
