"""What services of detached jobs on a host share: asking, giving up, and turns that are safe to take twice.

A job goes on while nobody looks. Each turn holds the run's lease, begins what is queued or reads what was found since,
and lets go; a job that was lost is begun anew, some times. What a kind of run does in a turn stands in its own module.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

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
    lease_request_stop,
)
from calculet.lifecycle import SYSTEM, Actor, StateConflict, advance
from calculet.people.roles import Act, require
from inventory.connect import open_remote
from inventory.models import DigestRun, InsideRun, Resource, Scan, ScanState
from inventory.remote.base import Remote, RemoteError, TransientError
from inventory.remote.names import RemoteName
from inventory.selectors import UNDER_WAY, has_no_shell, latest_scan
from inventory.services.errors import ScanAbsent, ShellAbsent

TURN_SECONDS = 20.0
TRIES = 5  # jobs that were lost without a finding
LOOK_SECONDS = 1.0  # between two looks at a job
GIVEN_UP = (ScanState.FAILED, ScanState.CANCELLED)
_MESSAGE_SECONDS = 10.0

logger = logging.getLogger(__name__)

Run = TypeVar("Run", DigestRun, InsideRun)
Item = TypeVar("Item")


class RunStopped(Exception):
    """The worker is being shut down, or the run was given up; the job on the host goes on and is found again."""


@dataclass(frozen=True, slots=True)
class JobKind(Generic[Run]):
    """A kind of run. `noun` names its leases and events.

    `begin` starts the job and returns False when there was nothing to do; `follow` reads findings until a moment of the
    monotonic clock; `clear` removes what is ours on the host.
    """

    model: type[Run]
    noun: str
    begin: Callable[[Run, Held, Remote], bool]
    follow: Callable[[Run, Held, Remote, float], None]
    clear: Callable[[Run, Held, Remote], None]

    def lease(self, run_id: int) -> str:
        """The name of the lease under which a run's turns are taken."""
        return f"{self.noun}:{run_id}"


def run_ask(kind: JobKind[Run], *, resource: Resource, actor: Actor) -> Run:
    """Ask for a run on the latest scan; one that is under way is returned.

    Raises NotAllowed, ScanAbsent, ShellAbsent.
    """
    require(actor.user, Act.SCAN)
    scan = latest_scan(resource)
    if scan is None:
        raise ScanAbsent(resource.name)
    if has_no_shell(resource.host):
        raise ShellAbsent(resource.host.name)
    try:
        with transaction.atomic():
            run = kind.model.objects.create(host=resource.host, resource=resource, scan=scan, requested_by=actor.user)
            record(act=f"{kind.noun}.asked", actor=actor, subject=run, host=resource.host, detail={"scan": scan.pk})
    except IntegrityError:
        under_way = kind.model.objects.filter(resource=resource, state__in=UNDER_WAY).first()
        return under_way if under_way is not None else run_ask(kind, resource=resource, actor=actor)
    return run


def run_cancel(kind: JobKind[Run], *, run: Run, actor: Actor) -> None:
    """Give a run up; what was found stays, and the host is tidied by the next turn.

    Raises NotAllowed, StateConflict.
    """
    require(actor.user, Act.SCAN)
    with transaction.atomic():
        lease_request_stop(name=kind.lease(run.pk))
        advance(run, ScanState.CANCELLED, act=f"{kind.noun}.cancelled", actor=actor, finished_at=timezone.now())


def runs_due(kind: JobKind[Run]) -> list[int]:
    """The runs that are due for a turn."""
    now, rows = timezone.now(), kind.model.objects.all()
    waiting = rows.filter(state=ScanState.QUEUED, requested_at__lt=now - timedelta(seconds=_MESSAGE_SECONDS))
    running = rows.filter(state=ScanState.RUNNING)
    untidy = rows.filter(state__in=GIVEN_UP, finished_at__gt=now - timedelta(hours=1)).exclude(folder=b"")
    wanted = [pk for some in (waiting, running, untidy) for pk in some.values_list("pk", flat=True)]
    return sorted(pk for pk in wanted if lease_is_free(name=kind.lease(pk)))


def turn_take(kind: JobKind[Run], run_id: int, *, seconds: float) -> None:
    """One turn: begin what is queued, or read what the job on the host has found since. May run twice."""
    run = kind.model.objects.select_related("host", "resource", "scan").filter(pk=run_id).first()
    held = lease_acquire(name=kind.lease(run_id)) if run is not None else None
    if run is None or held is None:
        return
    try:
        run.refresh_from_db()
        if run.state in UNDER_WAY or run.folder.raw:
            _turn(kind, run, held, seconds)
    except LeaseTaken as taken:
        logger.info("%s", taken)
    except (RunStopped, StateConflict):
        logger.info("%s rests until its next turn", run)
    finally:
        lease_release(held)


def _turn(kind: JobKind[Run], run: Run, held: Held, seconds: float) -> None:
    try:
        with closing(open_remote(run.host)) as remote:
            if run.state in GIVEN_UP:
                kind.clear(run, held, remote)
            elif run.state != ScanState.QUEUED or kind.begin(run, held, remote):
                kind.follow(run, held, remote, time.monotonic() + seconds)
    except TransientError as error:
        # The job goes on without us; the next turn finds it. The sentence is shown until then.
        kind.model.objects.filter(pk=run.pk).update(problem=str(error))
    except RemoteError as error:
        run_fail(kind, run, held, str(error))


def job_lost(kind: JobKind[Run], run: Run, held: Held, log: bytes, *, sentence: str) -> None:
    """The job is gone without having ended well: it is begun anew, some times. `sentence` takes `said`, its last words.

    Raises LeaseTaken, RunStopped, StateConflict.
    """
    said = log.decode("utf-8", "replace").strip()[-300:]
    if run.tries + 1 >= TRIES:
        run_keep(run, held, folder=RemoteName(b""))
        run_fail(kind, run, held, sentence % {"said": said})
        return
    with transaction.atomic():
        run_hold(run, held)
        advance(
            run,
            ScanState.QUEUED,
            act=f"{kind.noun}.job_lost",
            actor=SYSTEM,
            detail={"said": said},
            folder=RemoteName(b""),
            tries=run.tries + 1,
        )


def run_fail(kind: JobKind[Run], run: Run, held: Held, problem: str) -> None:
    """End a run with a sentence. Raises LeaseTaken, StateConflict."""
    with transaction.atomic():
        lease_hold(held)
        advance(
            run,
            ScanState.FAILED,
            act=f"{kind.noun}.failed",
            actor=SYSTEM,
            detail={"problem": problem},
            problem=problem,
            finished_at=timezone.now(),
        )


def run_keep(run: Run, held: Held, **fields: object) -> None:
    """Store fields of a run, whatever its state. Raises LeaseTaken."""
    with transaction.atomic():
        lease_hold(held)
        type(run).objects.filter(pk=run.pk).update(**fields)
    for name, value in fields.items():
        setattr(run, name, value)


def run_hold(run: Run, held: Held) -> None:
    """First statement of a write: the lease is ours and the run is wanted. Raises LeaseTaken, RunStopped."""
    lease_hold(held)
    if not type(run).objects.filter(pk=run.pk, state__in=UNDER_WAY).exists():
        raise RunStopped


def lease_kept(items: Iterable[Item], held: Held) -> Iterator[Item]:
    """The same items, while the lease is kept however long they take."""
    beaten = time.monotonic()
    for item in items:
        if time.monotonic() - beaten >= LOOK_SECONDS:
            lease_beat(held)
            beaten = time.monotonic()
        yield item


def scan_of(run: Run) -> Scan:
    """The scan that a run is for. Raises StateConflict when it was removed."""
    scan = run.scan
    if scan is None:
        raise StateConflict(str(run), run.state, "done", "")
    return scan
