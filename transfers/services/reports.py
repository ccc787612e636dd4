"""Reports: made after a build was opened, and again when somebody asks."""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit import services as audit
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
            _make(turn.build, SYSTEM)
        except OSError as error:
            folder = Path(turn.build.landing.path)
            turn.wait(str(landing_error(error, folder, 0)), seconds=DISK_PAUSE_SECONDS)


def _make(build: Build, actor: Actor) -> Report:
    if build.state not in _REPORTABLE:
        raise ValidationError(
            _("A report tells what was verified; this build is “%(state)s”. Wait until it is verified.")
            % {"state": _(build.get_state_display())}
        )
    number = build.reports.count() + 1
    below = f"{build.folder}/report-{number}"
    head = audit.head_now()
    content = report_content(build, audit_sequence=head.sequence, audit_hash=head.hash)
    raw = report_write(build, Path(build.landing.path) / below, content)
    digest = hashlib.sha256(raw).hexdigest()
    with transaction.atomic():
        report = Report.objects.create(build=build, folder=below, digest=digest, made_at=timezone.now())
        audit.record(act="report.make", actor=actor, subject=report, detail={"folder": below, "digest": digest})
    return report
