"""The quick way to read a board for forecasts says the same as the whole one, in whatever state packs are."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from calculet.people.models import Person
from tests.transfers.factories import PlannedHost
from transfers.forecast.futures import Paces
from transfers.forecast.goodput import stated_goodput
from transfers.models import BuildState, Mode, Pack
from transfers.selectors.board import board_of
from transfers.selectors.forecast import forecast_board, outlook_of, times_in_order
from transfers.selectors.standings import Standing, standing_of, standings_of

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    """A pack in every state, some of them held, paused, without a build, or without a place in the revision."""
    host = PlannedHost(alice, tmp_path)
    for at, state in enumerate(BuildState):
        host.add(f"in-{state}", state, is_paused=at % 3 == 1, on_hold=at % 4 == 2, proven=at % 5)
    host.add("unbuilt", None)
    host.add("as-files", BuildState.PLANNED, mode=Mode.FILES)
    again = host.add("opened-and-built-anew", BuildState.OPENED)
    host.build(again, again.items.get(), BuildState.FETCHING, 6, 2, None, {})
    Pack.objects.create(plan=host.plan, name="draft", position=99)
    Pack.objects.filter(on_hold=True, name__startswith="in-p").update(hold_until_rest=True)
    host.capability("Work", [again], [Pack.objects.get(name="in-packed")])
    host.measure()
    return host


def test_both_ways_to_read_a_board_agree(lab: PlannedHost) -> None:
    assert list(standings_of(lab.plan)) == [standing_of(row) for row in board_of(lab.plan).rows]


def test_both_ways_to_forecast_a_board_agree_in_any_order(lab: PlannedHost) -> None:
    order = list(lab.plan.packs.order_by("-position").values_list("pk", flat=True))
    for asked in (None, order):
        quick, whole = times_in_order(lab.plan, asked), forecast_board(board_of(lab.plan), order=asked)
        assert quick.outlook is not None and quick.outlook == whole.outlook
        assert [one.key for one in quick.standings] == [row.pack.pk for row in whole.rows]
        assert [quick.times_of(one) for one in quick.standings] == [row.times for row in whole.rows]


def test_no_statement_is_made_for_each_pack(lab: PlannedHost) -> None:
    with CaptureQueriesContext(connection) as few:
        times_in_order(lab.plan)
    for at in range(10):
        lab.add(f"more-{at}", BuildState.PACKED)
    with CaptureQueriesContext(connection) as many:
        times_in_order(lab.plan)
    assert len(many) == len(few) < 20


STANDINGS = st.lists(
    st.tuples(
        st.sampled_from([BuildState.PLANNED, BuildState.PACKED, BuildState.FETCHING, BuildState.RECEIVED]),
        st.integers(1, 10**9),
        st.integers(0, 10**6),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
).map(lambda rows: [standing(at, *row) for at, row in enumerate(rows)])


def standing(key: int, state: str, total: int, received: int, is_paused: bool) -> Standing:
    return Standing(
        key=key,
        name=str(key),
        mode=Mode.ARCHIVE,
        state=state,
        is_in_force=True,
        is_opened=False,
        is_paused=is_paused,
        on_hold=False,
        waits_for_rest=False,
        total_bytes=total,
        is_before_packing=state == BuildState.PLANNED,
        received_bytes=min(received, total),
    )


@given(STANDINGS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_no_order_of_paused_packs_among_the_others_changes_a_time(standings: list[Standing], draw: Random) -> None:
    paces = Paces(stated_goodput(1e5), shares=(0.3, 0.8), packing_rates=(1e6,))
    paused = [one for one in standings if one.is_stopped]
    others = [one for one in standings if not one.is_stopped]
    draw.shuffle(paused)
    for one in paused:
        others.insert(draw.randint(0, len(others)), one)
    needs = {"work": [[one.name] for one in standings[:3]]}
    before, after = outlook_of(standings, paces, needs, runs=20), outlook_of(others, paces, needs, runs=20)
    assert after == before
    assert set(after.jobs) == {one.name for one in standings if not one.is_stopped}
