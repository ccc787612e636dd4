"""The link doctor's examinations: asked for by a person, done on a connection of their own, kept with their advice."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from pathlib import Path

from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.leases.services import Held, LeaseTaken, lease_acquire, lease_hold, lease_release
from calculet.lifecycle import SYSTEM, Actor, advance
from calculet.people.roles import Act, require
from inventory.connect import installation_marker, open_remote
from inventory.models import Host
from inventory.remote.base import RemoteError
from inventory.remote.staging import ensure_staging
from transfers.doctor.advice import advise
from transfers.doctor.examine import Places, examine
from transfers.doctor.facts import Facts
from transfers.engine.clock import SystemClock
from transfers.engine.verify import Stopped
from transfers.models import ExaminationState, LinkExamination
from transfers.selectors.examinations import examined_file, link_history
from transfers.services.landings import landing_default
from transfers.services.turns import Heart

CONNECTION_SECONDS = 10.0  # how long one connection brings bytes to be measured
log = logging.getLogger(__name__)


def examination_lease_name(examination_id: int) -> str:
    """The lease of one examination."""
    return f"examination:{examination_id}"


def examination_request(*, host: Host, actor: Actor) -> LinkExamination:
    """Ask for an examination of a host's link. Raises NotAllowed, ValidationError."""
    require(actor.user, Act.LINK_STEER)
    try:
        with transaction.atomic():
            made = LinkExamination.objects.create(host=host, requested_by=actor.user)
            audit.record(act="link.examine", actor=actor, subject=made, host=host)
    except IntegrityError as error:
        raise ValidationError(_("This link is being examined already. Nothing was begun a second time.")) from error
    return made


def examination_run(examination_id: int) -> None:
    """Do an examination that is asked for or was cut off. Safe to run twice."""
    held = lease_acquire(name=examination_lease_name(examination_id))
    if held is None:
        return
    try:
        rows = LinkExamination.objects.select_related("host")
        waiting = (ExaminationState.QUEUED, ExaminationState.RUNNING)
        row = rows.filter(pk=examination_id, state__in=waiting).first()
        if row is not None:
            _run(row, held)
    except (LeaseTaken, Stopped):
        return
    finally:
        lease_release(held)


def _run(row: LinkExamination, held: Held) -> None:
    if row.state == ExaminationState.QUEUED:
        with transaction.atomic():
            lease_hold(held)
            advance(row, ExaminationState.RUNNING, act="link.examine_begin", actor=SYSTEM)
    try:
        with Heart(held) as heart:
            facts = _examine(row.host, heart)
    except RemoteError as error:
        _fail(row, held, str(error))
        return
    except (LeaseTaken, Stopped, DatabaseError):
        raise
    except Exception:
        log.exception("The examination of the link of %s ended by a fault of the program.", row.host)
        _fail(row, held, _("The examination ended by a fault of this program; the log of the worker has it."))
        return
    history = link_history(row.host)
    with transaction.atomic():
        lease_hold(held)
        advance(
            row,
            ExaminationState.FINISHED,
            act="link.examined",
            actor=SYSTEM,
            detail={"round_trip_seconds": facts.round_trip_seconds},
            facts=facts.as_json(),
            history=asdict(history),
            advice=[one.as_json() for one in advise(facts, history)],
            finished_at=timezone.now(),
        )


def _examine(host: Host, heart: Heart) -> Facts:
    remote = open_remote(host)
    try:
        ensure_staging(remote, host.staging_path, installation_marker())
        landing = Path(landing_default().path)
        places = Places(
            staging=host.staging_path,
            file=examined_file(host),
            landing=landing if landing.is_dir() else None,
        )
        return examine(
            remote,
            SystemClock(),
            places,
            processor_seconds=time.process_time,
            wall_seconds=lambda: timezone.now().timestamp(),
            seconds=CONNECTION_SECONDS,
            stop=heart,
        )
    finally:
        remote.close()


def _fail(row: LinkExamination, held: Held, sentence: str) -> None:
    with transaction.atomic():
        lease_hold(held)
        detail = {"why": sentence}
        now = timezone.now()
        advance(
            row,
            ExaminationState.FAILED,
            act="link.examine_fail",
            actor=SYSTEM,
            detail=detail,
            problem=sentence,
            finished_at=now,
        )
