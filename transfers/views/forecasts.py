"""Forecasts: a host's times and what they go by, the order advised, and the times of an order that nobody saved."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from calculet.http import PersonRequest
from calculet.people.roles import Act, require
from transfers.forms import AdviceForm, ClearByForm, RateForm
from transfers.models import Plan
from transfers.selectors.advice import curve_of, largest_first, suggest, weights_of
from transfers.selectors.board import board_of
from transfers.selectors.calibration import calibration_of
from transfers.selectors.deadline import deadline_of
from transfers.selectors.forecast import forecast_board, needs_of
from transfers.selectors.overview import capability_states
from transfers.services import forecasts
from transfers.views.acts import act_and_return, rights
from transfers.views.curve_chart import curve_chart
from transfers.views.find import plan_of_host
from transfers.views.order_parts import order_asked


@require_http_methods(["GET", "HEAD", "POST"])  # the order of a thousand packs is too long for an address
def times(request: PersonRequest, host: str) -> HttpResponse:
    """The times that packs and capabilities would have in the order asked for; nothing is saved."""
    require(request.user, Act.VIEW)
    asked = request.POST.get("order", request.GET.get("order", ""))
    order = [int(text) for text in asked.split(",") if text.isdecimal() and len(text) < 19]
    return order_asked(request, plan_of_host(host), order)


@require_safe
def forecast(request: PersonRequest, host: str) -> HttpResponse:
    """A host's forecast."""
    require(request.user, Act.VIEW)
    return forecast_page(request, plan_of_host(host))


def forecast_page(
    request: PersonRequest,
    plan: Plan,
    *,
    rate_form: RateForm | None = None,
    clear_by_form: ClearByForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render a host's forecast; a statement that was refused is shown again."""
    board = forecast_board(board_of(plan))
    advice_form = AdviceForm(request.GET or None, names=list(needs_of(board)), weights=weights_of())
    aim, weights, may_cross = advice_form.question()
    advice = suggest(board, aim=aim, weights=weights, may_cross_tiers=may_cross)
    curves = {"in_force": board, "advised": advice.board, "largest_first": largest_first(board)}
    context: dict[str, Any] = {
        "advice": advice,
        "deadline": deadline_of(board, advice.board),
        "clear_by_form": clear_by_form or ClearByForm(initial={"clear_by": plan.clear_by}),
        "calibration": calibration_of(plan.host),
        "advice_form": advice_form,
        "chart": curve_chart({kind: curve_of(one, weights) for kind, one in curves.items()}),
        "pack_ids": [one.row.pack.pk for one in advice.rows],
        "seen_ids": ",".join(str(row.pack.pk) for row in board.rows),
        "host": plan.host,
        "plan": plan,
        "board": board,
        "paces": board.paces,
        "capabilities": capability_states([board]),
        "rate_form": rate_form or RateForm(initial=RateForm.start_of(plan)),
        **rights(request),
    }
    return render(request, "transfers/forecast.html", context, status=status)


@require_POST
def rate_state(request: PersonRequest, host: str) -> HttpResponse:
    """State what forecasts go by as long as nothing is measured."""
    require(request.user, Act.ORDER)
    plan, form = plan_of_host(host), RateForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Nothing was changed: see what is said beside the fields."))
        return forecast_page(request, plan, rate_form=form, status=422)
    values = form.values()
    return act_and_return(
        request,
        lambda actor: forecasts.rate_state(plan=plan, actor=actor, **values),
        reverse("transfers:forecast", args=[host]),
        done=_("Forecasts go by this as long as nothing is measured."),
    )


@require_POST
def clear_by_state(request: PersonRequest, host: str) -> HttpResponse:
    """Say on which day the host will be cleared."""
    require(request.user, Act.ORDER)
    plan, form = plan_of_host(host), ClearByForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Nothing was changed: see what is said beside the fields."))
        return forecast_page(request, plan, clear_by_form=form, status=422)
    day = form.cleaned_data["clear_by"]
    done = _("The plan tells what will not make it by that day.") if day else _("No day is named any more.")
    return act_and_return(
        request,
        lambda actor: forecasts.clear_by_state(plan=plan, clear_by=day, actor=actor),
        reverse("transfers:forecast", args=[host]),
        done=done,
    )
