"""What people state for forecasts, and forecasts that are kept to be compared with what happens."""

from __future__ import annotations

from collections.abc import Set
from datetime import date, timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.lifecycle import Actor
from calculet.people.roles import Act, require
from transfers.models import BuildState, GoodputMinute, KeptForecast, Plan
from transfers.selectors.board import board_of
from transfers.selectors.forecast import forecast_board
from transfers.selectors.work import builds_in_force

_FAR_SECONDS = 100 * 365 * 86_400.0  # a calendar has an end


def rate_state(*, plan: Plan, bytes_per_second: int | None, packed_percent: int | None, actor: Actor) -> None:
    """State what forecasts go by as long as nothing is measured; None takes a statement back.

    `bytes_per_second` is the link's goodput, `packed_percent` the size of archives after packing in per cent of before.
    Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.ORDER)
    if bytes_per_second is not None and not 0 < bytes_per_second < 2**62:
        raise ValidationError(_("A rate is a number of bytes a second above zero. Nothing was changed."))
    if packed_percent is not None and not 0 < packed_percent <= 200:
        raise ValidationError(_("The size after packing is between 1 and 200 per cent. Nothing was changed."))
    with transaction.atomic():
        now = Plan.objects.select_for_update().select_related("host").get(pk=plan.pk)
        before = {"bytes_per_second": now.stated_bytes_per_second, "packed_percent": now.stated_packed_percent}
        after = {"bytes_per_second": bytes_per_second, "packed_percent": packed_percent}
        if before == after:
            return
        now.stated_bytes_per_second, now.stated_packed_percent = bytes_per_second, packed_percent
        now.save(update_fields=["stated_bytes_per_second", "stated_packed_percent"])
        audit.record(
            act="plan.state_rate", actor=actor, subject=now, host=now.host, detail={"before": before, "after": after}
        )


def clear_by_state(*, plan: Plan, clear_by: date | None, actor: Actor) -> None:
    """Say on which day the host will be cleared, so that the plan tells what will not make it. Raises NotAllowed."""
    require(actor.user, Act.ORDER)
    with transaction.atomic():
        now = Plan.objects.select_for_update().select_related("host").get(pk=plan.pk)
        before = now.clear_by
        if before == clear_by:
            return
        now.clear_by = clear_by
        now.save(update_fields=["clear_by"])
        detail = {
            name: str(day) if day is not None else None for name, day in (("before", before), ("after", clear_by))
        }
        audit.record(act="plan.clear_by", actor=actor, subject=now, host=now.host, detail=detail)


def forecasts_keep() -> int:
    """Keep what is forecast for builds that have begun, to be compared with what happens: once for each build.

    Where nothing can be forecast yet, a later call does it. Safe to run twice, and at the same time.
    """
    begun = builds_in_force().filter(
        state__in=[BuildState.PACKING, BuildState.PACKED, BuildState.FETCHING],
        kept_forecast__isnull=True,
        pack__is_paused=False,
        pack__on_hold=False,
    )
    kept = 0
    for plan in Plan.objects.filter(packs__builds__in=begun.values("pk")).select_related("host").distinct():
        if plan.stated_bytes_per_second or GoodputMinute.objects.filter(host=plan.host).exists():
            rows = _forecasts(plan, set(begun.filter(pack__plan=plan).values_list("pk", flat=True)))
            KeptForecast.objects.bulk_create(rows, ignore_conflicts=True)
            kept += len(rows)
    return kept


def _forecasts(plan: Plan, build_ids: Set[int]) -> list[KeptForecast]:
    board = forecast_board(board_of(plan))
    goodput = board.paces.goodput if board.paces is not None else None
    if board.paces is None or goodput is None:
        return []
    at, made = board.paces.at, []
    for row in board.rows:
        if row.build is None or row.build.pk not in build_ids or row.times is None:
            continue
        made.append(
            KeptForecast(
                build=row.build,
                made_at=at,
                expected_at=at + timedelta(seconds=min(row.times.expected_seconds, _FAR_SECONDS)),
                likely_by_at=at + timedelta(seconds=min(row.times.likely_by_seconds, _FAR_SECONDS)),
                basis=goodput.basis,
                bytes_per_second=goodput.mean,
            )
        )
    return made
