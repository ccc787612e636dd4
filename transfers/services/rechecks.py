"""Reading a landed build back once more, long after it was verified: damage is found, and repaired from the source."""

from __future__ import annotations

from dataclasses import replace

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.leases.services import lease_hold
from calculet.lifecycle import SYSTEM, Actor
from calculet.people.roles import Act, require
from transfers.engine.cellmap import LedgerBusy
from transfers.engine.clock import SystemClock
from transfers.engine.landing import landing_error, make_folder
from transfers.engine.types import CheckLevel, Finding, Outcome
from transfers.engine.verify import read_back
from transfers.ledger import check_of
from transfers.models import Build, BuildState
from transfers.selectors.specs import build_folder, build_spec
from transfers.services.turns import BuildTurn, build_turn
from transfers.services.verification import DISK_PAUSE_SECONDS, build_send_back, expected_of

LANDED = (BuildState.VERIFIED, BuildState.OPENED)


def recheck_request(*, build: Build, actor: Actor) -> None:
    """Ask for a landed build to be read back once more. Raises NotAllowed, ValidationError."""
    require(actor.user, Act.FETCH)
    with transaction.atomic():
        asked = Build.objects.filter(pk=build.pk, state__in=LANDED, recheck_asked_at=None)
        if not asked.update(recheck_asked_at=timezone.now(), not_before=None):
            raise ValidationError(
                _("Only a verified build can be read back once more, and not while that is done already.")
            )
        audit.record(act="build.recheck", actor=actor, subject=build, host=build.pack.plan.host)


def rechecks_due() -> list[int]:
    """Builds that were asked to be read back."""
    rows = Build.objects.filter(state__in=LANDED, recheck_asked_at__isnull=False)
    return list(rows.order_by("recheck_asked_at").values_list("pk", flat=True))


def recheck_run(build_id: int) -> None:
    """Read a build back if that was asked for. Safe to run twice."""
    with build_turn(build_id, *LANDED) as turn:
        if turn is None or turn.build.recheck_asked_at is None:
            return
        try:
            _recheck(turn)
        except (LedgerBusy, OSError) as error:
            told = landing_error(error, build_folder(turn.build), 0) if isinstance(error, OSError) else error
            turn.wait(str(told), seconds=DISK_PAUSE_SECONDS)


def _recheck(turn: BuildTurn) -> None:
    build, spec = turn.build, build_spec(turn.build)
    begun = SystemClock().monotonic()
    found = read_back(spec, expected_of(build), SystemClock(), landed=True, stop=turn.heart)
    turn.keep()
    if not found.is_good:
        make_folder(spec.folder)  # if all of it was taken away, all of it comes again
        findings = tuple(
            replace(one, level=CheckLevel.RECHECK) if one.level is CheckLevel.BUILD else one for one in found.findings
        )
        build_send_back(turn, spec, replace(found, findings=findings))
        return
    seconds = SystemClock().monotonic() - begun
    whole = Finding(CheckLevel.RECHECK, b"", 0, spec.size_bytes, found.sha256, found.sha256, Outcome.MATCHED, seconds)
    with transaction.atomic():
        lease_hold(turn.held)
        check_of(build, whole).save()
        Build.objects.filter(pk=build.pk).update(recheck_asked_at=None, problem="")
        audit.record(act="build.rechecked", actor=SYSTEM, subject=build, detail={"bytes": spec.size_bytes})
