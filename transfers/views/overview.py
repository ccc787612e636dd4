"""The first page: what is usable, what moves, what waits for a person, what is wrong."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from calculet.http import PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory.models import Host
from transfers.selectors.board import boards
from transfers.selectors.forecast import forecast_boards
from transfers.selectors.goodput import CHART_SECONDS, ESTIMATE_SECONDS
from transfers.selectors.overview import capability_states
from transfers.views.chart import chart_of
from transfers.views.waiting import waiting_for, wrong_now


@require_safe
def overview(request: PersonRequest) -> HttpResponse:
    """The four questions, answered from the rows; a part of it refreshes itself."""
    require(request.user, Act.VIEW)
    found = forecast_boards(boards())
    waiting = waiting_for(request.user)
    context: dict[str, Any] = {
        "boards": [{"board": board, "chart": chart_of(board.pace)} for board in found],
        "is_moving": any(board.is_moving for board in found),
        "has_hosts": bool(found) or Host.objects.exists(),
        "capabilities": capability_states(found),
        "has_running": any(board.running for board in found),
        "waiting_mine": [one for one in waiting if one.is_mine],
        "waiting_others": [one for one in waiting if not one.is_mine],
        "wrong": wrong_now(found),
        "chart_minutes": CHART_SECONDS // 60,
        "estimate_minutes": ESTIMATE_SECONDS // 60,
    }
    return page_or_part(request, "transfers/overview.html", "now", context)
