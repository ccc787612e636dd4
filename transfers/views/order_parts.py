"""What a board shows of an order while a pack is dragged, and once it is dropped: times, capabilities and the curve.

Only parts that change are answered, so that a board of a thousand packs follows the hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django_htmx.http import HttpResponseClientRefresh

from calculet.actors import Actor
from calculet.http import ActDoneAlready, PersonRequest
from transfers.forecast.simulate import Times
from transfers.models import Capability, Plan
from transfers.selectors.advice import curve_through, tiers_of, weights_of
from transfers.selectors.forecast import OrderTimes, reordered, times_in_order
from transfers.templatetags.transfer_words import times_writer
from transfers.views.acts import REFUSALS, act_once, sentences_of
from transfers.views.curve_chart import CurveChart, curve_chart

ORDER_DONE = _("The order is as you set it.")


@dataclass(frozen=True, slots=True)
class NeedLine:
    """A capability as the board lists it; `times` count from `forecast_at`."""

    capability: Capability
    is_usable: bool
    times: Times | None
    forecast_at: datetime
    is_stopped: bool


def order_asked(request: PersonRequest, plan: Plan, order: Sequence[int]) -> HttpResponse:
    """What an order would give, beside the one in force. Nothing is saved."""
    now = times_in_order(plan)
    return _parts(request, reordered(now, order), now)


def order_dropped(request: PersonRequest, plan: Plan, reorder: Callable[[Actor], None]) -> HttpResponse:
    """Save an order and answer what it gives; a refusal shows the board as it is now, with its sentence."""
    try:
        act_once(request, reorder)
    except ActDoneAlready as already:
        messages.warning(request, str(already))
        return HttpResponseClientRefresh()
    except REFUSALS as error:
        for sentence in sentences_of(error):
            messages.error(request, sentence)
        return HttpResponseClientRefresh()
    return _parts(request, times_in_order(plan), None)


def _parts(request: PersonRequest, shown: OrderTimes, in_force: OrderTimes | None) -> HttpResponse:
    context: dict[str, Any] = {
        "plan": shown.plan,
        "capabilities": list(_need_lines(shown)),
        "smalls": _smalls(shown),
        "chart": _chart(shown, in_force),
        "is_saved": in_force is None,
        "done": ORDER_DONE,
        "seen_ids": ",".join(str(one.key) for one in shown.standings),
    }
    return render(request, "transfers/times.html", context)


def _smalls(shown: OrderTimes) -> SafeString:
    """The words of each pack's times, by the id of the element that shows them."""
    write = times_writer(shown.paces.at)
    parts = []
    for one in shown.standings:
        if one.is_in_force and not one.is_opened:
            times = shown.times_of(one)
            parts.append(f'<small id="times-{one.key}">{write(times) if times is not None else ""}</small>')
    return SafeString("\n".join(parts))


def _need_lines(shown: OrderTimes) -> Iterator[NeedLine]:
    stopped = {one.name for one in shown.standings if one.is_stopped}
    times = shown.outlook.needs if shown.outlook is not None else {}
    for capability in Capability.objects.filter(plan=shown.plan).order_by("position", "name"):
        groups = shown.needs.get(capability.name)
        yield NeedLine(
            capability,
            is_usable=groups is None,
            times=times.get(capability.name),
            forecast_at=shown.paces.at,
            is_stopped=any(stopped.issuperset(group) for group in groups or ()),
        )


def _chart(shown: OrderTimes, in_force: OrderTimes | None) -> CurveChart | None:
    tiers, weights = tiers_of(shown.plan), weights_of()
    both = {"in_force": shown} if in_force is None else {"dragged": shown, "in_force": in_force}
    return curve_chart({kind: curve_through(one.standings, one.outlook, tiers, weights) for kind, one in both.items()})
