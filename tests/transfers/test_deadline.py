"""Where a host will be cleared on a day, the plan says what will not make it, and what would."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from calculet.audit.models import Event
from calculet.http import new_act_key
from calculet.people.models import Person
from inventory.models import Channel
from tests.transfers.factories import PlannedHost
from transfers.models import Build, BuildState, Plan
from transfers.selectors.board import Board, board_of
from transfers.selectors.deadline import deadline_of
from transfers.selectors.forecast import forecast_board

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]
GIGABYTE = 10**9


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    """At 100 kB/s a day brings 8.64 GB: large takes ten days, the others hours."""
    made = PlannedHost(alice, tmp_path)
    for name, size in (("first", GIGABYTE), ("large", 86 * GIGABYTE), ("small", GIGABYTE)):
        Build.objects.filter(pack=made.add(name, BuildState.PACKED)).update(size_bytes=size)
    made.measure(bytes_per_second=100_000)
    return made


def in_days(lab: PlannedHost, days: int) -> Board:
    Plan.objects.update(clear_by=timezone.localdate() + timedelta(days=days))
    lab.plan.refresh_from_db()
    return forecast_board(board_of(lab.plan))


def test_without_a_day_nothing_is_late(lab: PlannedHost) -> None:
    board = forecast_board(board_of(lab.plan))
    assert deadline_of(board, board) is None


def test_what_is_late_and_what_would_help(lab: PlannedHost) -> None:
    board = in_days(lab, 3)
    packs = {row.pack.name: row.pack.pk for row in board.rows}
    advised = forecast_board(board, order=[packs["first"], packs["small"], packs["large"]], paces=board.paces)
    found = deadline_of(board, advised)
    assert found is not None and not found.has_passed
    assert [row.pack.name for row in found.late] == ["large", "small"]
    assert found.saved_by_order == ("small",)
    assert [(one.name, one.saved) for one in found.left_out] == [("large", ("small",))]
    assert found.needed_bytes_per_second is not None
    assert 88 * GIGABYTE / (3 * 86_400) < found.needed_bytes_per_second < 3 * 88 * GIGABYTE / (2 * 86_400)


def test_another_channel_that_was_fast_enough_is_named(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    other = Channel.objects.create(host=lab.host, address="192.0.2.8", username="guest", position=7)
    lab.minutes([2_000_000] * 12, lanes=16, channel=other, ended=20)
    board = in_days(lab, 3)
    found = deadline_of(board, board)
    assert found is not None
    assert [(one.lanes, one.channel) for one in found.fast_enough] == [(16, other.pk)]
    page = " ".join(signed_in(bob).get("/plans/lab/forecast/").content.decode().split())
    assert "Lately so much came with: guest@192.0.2.8:22, 16 lanes: 2.00 MB/s over 12 min 0 s." in page


def test_with_time_enough_nothing_is_late_but_what_is_held(lab: PlannedHost) -> None:
    board = in_days(lab, 100)
    found = deadline_of(board, board)
    assert found is not None and found.late == () and found.needed_bytes_per_second is None
    lab.plan.packs.filter(name="small").update(on_hold=True, hold_reason="a word")
    board = in_days(lab, 100)
    found = deadline_of(board, board)
    assert found is not None and [row.pack.name for row in found.late] == ["small"]


def test_a_day_that_has_begun_is_told(lab: PlannedHost) -> None:
    board = in_days(lab, 0)
    found = deadline_of(board, board)
    assert found is not None and found.has_passed
    assert [row.pack.name for row in found.late] == ["first", "large", "small"]
    assert (found.saved_by_order, found.left_out, found.needed_bytes_per_second) == ((), (), None)


def test_an_operator_names_the_day_and_everybody_sees_what_it_means(
    signed_in: SignedIn, alice: Person, bob: Person, lab: PlannedHost
) -> None:
    day = timezone.localdate() + timedelta(days=3)
    address = "/plans/lab/forecast/clear-by/"
    assert signed_in(bob).post(address, {"clear_by": day.isoformat()}).status_code == 403
    client = signed_in(alice)
    wrong = client.post(address, {"clear_by": "soon", "act_key": new_act_key()})
    assert wrong.status_code == 422 and Plan.objects.get().clear_by is None
    client.post(address, {"clear_by": day.isoformat(), "act_key": new_act_key()})
    assert Plan.objects.get().clear_by == day
    assert Event.objects.order_by("-pk")[0].act == "plan.clear_by"
    page = " ".join(signed_in(bob).get("/plans/lab/forecast/").content.decode().split())
    assert "These will likely not make it:" in page
    assert "Without large these would make it: small." in page and "Name the day" not in page
    client.post(address, {"clear_by": "", "act_key": new_act_key()})
    assert Plan.objects.get().clear_by is None
