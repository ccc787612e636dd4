"""Trials of lanes: started and stopped by people, counted by the link, ended when nothing is left to compare with."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.lifecycle import SYSTEM, Actor, StateConflict, advance
from calculet.people.roles import Act, require
from inventory.models import Host
from transfers.engine.trial import DEFAULT_LEVEL_SECONDS, DEFAULT_LEVELS, schedule
from transfers.models import Trial, TrialBlock, TrialEnd, TrialState
from transfers.selectors.allowance import lanes_at_most
from transfers.selectors.trials import has_work, trials_over

LEVELS_AT_MOST = 6
SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 6 * 3600.0


def trial_start(
    *,
    host: Host,
    actor: Actor,
    levels: Sequence[int] = DEFAULT_LEVELS,
    level_seconds: float = DEFAULT_LEVEL_SECONDS,
    seed: int | None = None,
) -> Trial:
    """Compare numbers of lanes while the link goes on; each is counted for `level_seconds` in all.

    The bytes that come count as any others. Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.LINK_STEER)
    ordered = sorted(levels)
    _refuse_trial(host, ordered, level_seconds)
    chosen = secrets.randbelow(2**31) if seed is None else seed
    plan = schedule(ordered, level_seconds, chosen)
    with transaction.atomic():
        Host.objects.select_for_update().get(pk=host.pk)
        if Trial.objects.filter(host=host, state=TrialState.RUNNING).exists():
            raise ValidationError(_("A trial runs on this host already. Stop it, or wait for its end."))
        trial = Trial.objects.create(
            host=host,
            levels=ordered,
            level_seconds=level_seconds,
            block_seconds=plan.block_seconds,
            ramp_seconds=plan.ramp_seconds,
            seed=chosen,
            started_by=actor.user,
            started_at=timezone.now(),
        )
        TrialBlock.objects.bulk_create(
            TrialBlock(trial=trial, position=position, lanes=lanes) for position, lanes in enumerate(plan.order, 1)
        )
        detail = {"levels": ordered, "seconds_a_level": level_seconds, "seed": chosen, "blocks": len(plan.order)}
        audit.record(act="trial.start", actor=actor, subject=trial, host=host, detail=detail)
    return trial


def _refuse_trial(host: Host, levels: Sequence[int], level_seconds: float) -> None:
    most = lanes_at_most(host)
    if not 2 <= len(levels) <= LEVELS_AT_MOST or len(set(levels)) != len(levels):
        raise ValidationError(
            _("A trial compares two to %(most)s different numbers of lanes.") % {"most": LEVELS_AT_MOST}
        )
    if not all(1 <= level <= most for level in levels):
        raise ValidationError(_("On this host there may be 1 to %(most)s lanes.") % {"most": most})
    if not SHORTEST_SECONDS <= level_seconds <= LONGEST_SECONDS:
        raise ValidationError(_("A level is counted for two seconds to six hours in all."))
    if not has_work(host):
        raise ValidationError(
            _("There is nothing to fetch from this host now, so nothing could be compared. No trial was started.")
        )


def trial_stop(*, trial: Trial, actor: Actor) -> None:
    """End a trial before its time; the blocks that are done stay, and so does what they say.

    Raises NotAllowed, StateConflict.
    """
    require(actor.user, Act.LINK_STEER)
    _stop(trial, TrialEnd.PERSON, actor)


def trials_end_due() -> int:
    """End trials that cannot come to their end. Safe to run twice."""
    over = trials_over()
    for trial, why in over:
        try:
            _stop(trial, why, SYSTEM)
        except StateConflict:
            continue  # it came to its end in this moment
    return len(over)


def _stop(trial: Trial, why: TrialEnd, actor: Actor) -> None:
    done = trial.blocks.filter(done_at__isnull=False).count()
    advance(
        trial,
        TrialState.STOPPED,
        act="trial.stop",
        actor=actor,
        detail={"why": why.label, "blocks_done": done},
        ended_at=timezone.now(),
        ended_because=why,
    )
