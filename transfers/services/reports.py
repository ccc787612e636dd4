"""Reports: made after a build was opened, and again when somebody asks."""

from __future__ import annotations

import hashlib
import secrets
import shutil
from pathlib import Path

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.leases.services import Held, lease_hold
from calculet.lifecycle import SYSTEM, Actor
from calculet.people.roles import Act, require
from transfers.engine.landing import landing_error
from transfers.evidence.reports import report_content, report_write
from transfers.models import Build, BuildState, Report
from transfers.services.turns import build_turn
from transfers.services.verification import DISK_PAUSE_SECONDS

_REPORTABLE = (BuildState.VERIFIED, BuildState.OPENED, BuildState.PERMITTED, BuildState.CLEARED)


def report_make(*, build: Build, actor: Actor) -> Report:
    """Write a report folder for a verified build. Raises NotAllowed, ValidationError, OSError."""
    require(actor.user, Act.REPORT_MAKE)
    return _make(build, actor)


def report_run(build_id: int) -> None:
    """Make the first report of an opened build. Safe to run twice."""
    with build_turn(build_id, BuildState.OPENED) as turn:
        if turn is None or turn.build.reports.exists():
            return
        try:
            _make(turn.build, SYSTEM, turn.held)
        except OSError as error:
            folder = Path(turn.build.landing.path)
            turn.wait(str(landing_error(error, folder, 0)), seconds=DISK_PAUSE_SECONDS)


def _make(build: Build, actor: Actor, held: Held | None = None) -> Report:
    if build.state not in _REPORTABLE:
        raise ValidationError(
            _("A report tells what was verified; this build is “%(state)s”. Wait until it is verified.")
            % {"state": _(build.get_state_display())}
        )
    head = audit.head_now()
    content = report_content(build, audit_sequence=head.sequence, audit_hash=head.hash)
    # Several may be made at once, and any may be killed: each is written apart, and takes its number with its row.
    apart = Path(build.landing.path) / build.folder / f".report-{secrets.token_hex(4)}"
    try:
        raw = report_write(build, apart, content)
        return _number(build, apart, hashlib.sha256(raw).hexdigest(), actor, held)
    except BaseException:
        shutil.rmtree(apart, ignore_errors=True)
        raise


def _number(build: Build, apart: Path, digest: str, actor: Actor, held: Held | None) -> Report:
    with transaction.atomic():
        if held is not None:
            lease_hold(held)
            Build.objects.filter(pk=build.pk).update(problem="", not_before=None)  # what it waited for has come
        Build.objects.select_for_update().get(pk=build.pk)
        below = f"{build.folder}/report-{build.reports.count() + 1}"
        folder = Path(build.landing.path) / below
        if folder.exists():
            # Of an attempt that was killed before its row was there; set aside, since only its maker could tell.
            folder.rename(folder.with_name(f".{folder.name}-{secrets.token_hex(4)}"))
        apart.rename(folder)
        report = Report.objects.create(build=build, folder=below, digest=digest, made_at=timezone.now())
        audit.record(act="report.make", actor=actor, subject=report, detail={"folder": below, "digest": digest})
    return report
