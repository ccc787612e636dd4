"""Transfers: packs in execution order, one pack's page, and what operators order at any time."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from calculet.http import PersonRequest, page_or_part
from calculet.people.roles import Act, require
from transfers.forms import HoldForm, PlaceForm, ReasonForm
from transfers.models import Build, BuildState, Pack, UnpackState
from transfers.selectors.adoptions import adoptions_active
from transfers.selectors.advice import curve_of, weights_of
from transfers.selectors.board import HOME, USABLE, PackRow, board_of, boards
from transfers.selectors.builds import (
    MOST_FAULTS,
    builds_of,
    check_sums,
    faults_of,
    landing_path,
    lanes_of,
    unpack_path,
)
from transfers.selectors.chunks import chunk_map
from transfers.selectors.forecast import forecast_board, forecast_boards
from transfers.selectors.overview import capability_states
from transfers.services import orders
from transfers.views.acts import act_and_return, rights
from transfers.views.build_words import map_words, steps_of
from transfers.views.curve_chart import curve_chart
from transfers.views.deltas import drift_context
from transfers.views.find import build_numbered, pack_named, plan_of_host
from transfers.views.order_parts import ORDER_DONE, order_dropped

_MOST_DEVIATIONS = 200


@require_safe
def packs(request: PersonRequest) -> HttpResponse:
    """Every host's packs in execution order; the board refreshes itself."""
    require(request.user, Act.VIEW)
    found, weights = forecast_boards(boards()), weights_of()
    is_moving, count = any(board.is_moving for board in found), sum(len(board.rows) for board in found)
    context = {
        "boards": [
            {
                "board": board,
                "capabilities": capability_states([board]),
                "chart": curve_chart({"in_force": curve_of(board, weights)}),
            }
            for board in found
        ],
        "refresh_seconds": max(2 if is_moving else 15, count // 40),
        **rights(request),
    }
    return page_or_part(request, "transfers/packs.html", "board", context)


@require_safe
def pack(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """One pack with its newest build."""
    require(request.user, Act.VIEW)
    return pack_page(request, pack_named(host, pack))


@require_safe
def build(request: PersonRequest, host: str, pack: str, number: int) -> HttpResponse:
    """One pack with one of its builds."""
    require(request.user, Act.VIEW)
    return pack_page(request, pack_named(host, pack), build_numbered(host, pack, number))


def pack_page(
    request: PersonRequest,
    pack: Pack,
    build: Build | None = None,
    *,
    accept_form: ReasonForm | None = None,
    hold_form: HoldForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render a pack's page; `build` is its newest when none is given. Forms that were refused are shown again."""
    board = forecast_board(board_of(pack.plan))
    row = next(row for row in board.rows if row.pack.pk == pack.pk)
    shown = build if build is not None else row.build
    context: dict[str, Any] = {
        "pack": row.pack,
        "host": board.host,
        "row": row,
        "place": board.rows.index(row) + 1,
        "place_count": len(board.rows),
        "build": shown,
        "is_newest": shown is None or shown == row.build,
        "builds": builds_of(pack),
        "hold_form": hold_form or HoldForm(initial={"reason": pack.hold_reason}),
        "accept_form": accept_form or ReasonForm(),
        "is_moving": row.is_moving,
        "own_address": _build_address(shown) if build is not None and shown is not None else _address(pack),
        "pace": board.pace,
        "forecast_at": board.paces.at if board.paces is not None else None,
        "seen_ids": ",".join(str(one.pack.pk) for one in board.rows),
        **drift_context(pack),
        **rights(request),
    }
    if shown is not None:
        context |= _build_context(request, row, shown, lanes_of(board.pace.status, shown))
    return page_or_part(request, "transfers/pack.html", "build", context, status=status)


def _build_context(request: PersonRequest, row: PackRow, build: Build, lanes: object) -> dict[str, Any]:
    faults, fault_count = faults_of(build)
    rows = list(build.unpacks.select_related("build__landing", "requested_by"))
    is_unpacking = any(one.state in (UnpackState.QUEUED, UnpackState.RUNNING) for one in rows)
    drawn = chunk_map(build)
    total = build.size_bytes if build.size_bytes is not None else build.entry_list.total_bytes
    return {
        "map": drawn,
        "map_words": map_words(drawn),
        "steps": steps_of(build),
        "is_home": build.state in HOME,
        "shown_total": total,
        "shown_received": total if build.state in HOME else build.received_bytes,
        "opened_states": sorted(USABLE),
        "lanes": lanes,
        "sums": check_sums(build),
        "faults": faults,
        "fault_count": fault_count,
        "most_faults": MOST_FAULTS,
        "deviations": build.deviations[:_MOST_DEVIATIONS],
        "landing_path": landing_path(build),
        "unpacks": [{"unpack": one, "path": unpack_path(one)} for one in rows],
        "reports": build.reports.order_by("-made_at"),
        "can_unpack": build.state in USABLE and not is_unpacking and request.user.may(Act.UNPACK),
        "can_report": build.state in (BuildState.VERIFIED, BuildState.OPENED, BuildState.PERMITTED)
        and request.user.may(Act.REPORT_MAKE),
        "adoption": adoptions_active(build).first(),
        "is_landed": build.state in (BuildState.VERIFIED, BuildState.OPENED),
        "is_own_plan": build.item.revision.author_id == request.user.pk,
        "is_moving": row.is_moving or is_unpacking or build.state == BuildState.VERIFIED,
    }


@require_POST
def pack_pause(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """Let the pack get nothing new; what came stays."""
    require(request.user, Act.PAUSE)
    row = pack_named(host, pack)
    done = _("%(pack)s is paused. What came of it stays.") % {"pack": row}
    return act_and_return(request, lambda actor: orders.pack_pause(pack=row, actor=actor), _address(row), done=done)


@require_POST
def pack_resume(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """Let a paused pack go on."""
    require(request.user, Act.PAUSE)
    row = pack_named(host, pack)
    done = _("%(pack)s goes on.") % {"pack": row}
    return act_and_return(request, lambda actor: orders.pack_resume(pack=row, actor=actor), _address(row), done=done)


@require_POST
def pack_hold(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """Keep the pack back, with a reason that everybody sees."""
    require(request.user, Act.PAUSE)
    row, form = pack_named(host, pack), HoldForm(request.POST)
    if not form.is_valid():
        return pack_page(request, row, hold_form=form, status=422)
    reason = form.cleaned_data["reason"]
    done = _("%(pack)s is on hold.") % {"pack": row}
    hold = partial(orders.pack_hold, pack=row, reason=reason, until=orders.HoldUntil(**form.until()))
    return act_and_return(request, lambda actor: hold(actor=actor), _address(row), done=done, kept=reason)


@require_POST
def pack_release(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """End the hold."""
    require(request.user, Act.PAUSE)
    row = pack_named(host, pack)
    done = _("%(pack)s is released.") % {"pack": row}
    return act_and_return(request, lambda actor: orders.pack_release(pack=row, actor=actor), _address(row), done=done)


@require_POST
def order(request: PersonRequest, host: str) -> HttpResponse:
    """A new execution order: the packs as dragged, or one of them moved up or down from the order that was seen."""
    require(request.user, Act.ORDER)
    plan, back = plan_of_host(host), reverse("transfers:packs")
    seen = _numbers(request.POST.get("seen_ids", "").split(","))
    wanted = _numbers(request.POST.get("order", "").split(",")) or _numbers(request.POST.getlist("pack_ids")) or seen
    move, _colon, which = request.POST.get("move", "").partition(":")
    if move in ("up", "down") and which.isdigit() and int(which) in seen:
        at = seen.index(int(which))
        wanted = _moved(seen, at, at - 1 if move == "up" else at + 1)
    if not seen:
        messages.error(request, _("The form did not say which order you saw. Nothing was changed."))
        return redirect(back)
    reorder = partial(orders.packs_reorder, plan=plan, pack_ids=wanted, seen_ids=seen)
    if request.htmx:
        return order_dropped(request, plan, lambda actor: reorder(actor=actor))
    return act_and_return(request, lambda actor: reorder(actor=actor), back, done=str(ORDER_DONE))


@require_POST
def pack_place(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """Put one pack at a place in the order that was seen."""
    require(request.user, Act.ORDER)
    row, form = pack_named(host, pack), PlaceForm(request.POST)
    seen = _numbers(request.POST.get("seen_ids", "").split(","))
    if not form.is_valid() or row.pk not in seen:
        messages.error(request, _("The place must be a number from 1 on. Nothing was changed."))
        return redirect(_address(row))
    wanted = _moved(seen, seen.index(row.pk), form.cleaned_data["place"] - 1)
    reorder = partial(orders.packs_reorder, plan=row.plan, pack_ids=wanted, seen_ids=seen)
    done = _("%(pack)s has its new place.") % {"pack": row}
    return act_and_return(request, lambda actor: reorder(actor=actor), _address(row), done=done)


def _moved(order: list[int], at: int, to: int) -> list[int]:
    rest = [*order[:at], *order[at + 1 :]]
    place = min(max(to, 0), len(rest))
    return [*rest[:place], order[at], *rest[place:]]


def _numbers(texts: list[str]) -> list[int]:
    return [int(text) for text in texts if text.isdigit()]


def _build_address(build: Build) -> str:
    return reverse("transfers:build", args=[build.pack.plan.host.name, build.pack.name, build.number])


def _address(pack: Pack) -> str:
    return reverse("transfers:pack", args=[pack.plan.host.name, pack.name])
