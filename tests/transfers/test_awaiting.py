"""A pack that leaves files to others is usable when those are: on the board, for capabilities, and in forecasts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculet.people.models import Person
from tests.transfers.factories import PlannedHost, make_list
from transfers.models import Build, BuildState, Item, Pack
from transfers.selectors.awaiting import needs_with, parts_needed, usable_names
from transfers.selectors.board import board_of
from transfers.selectors.forecast import forecast_board, times_in_order
from transfers.selectors.overview import capability_states

NAMES = "abcde"


@given(
    links=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=6),
    group=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
    opened=st.sets(st.sampled_from(NAMES)),
    later=st.sets(st.sampled_from(NAMES)),
)
def test_needs_told_apart_are_met_exactly_when_a_pack_of_the_group_is_usable(
    links: list[tuple[str, str]], group: list[str], opened: set[str], later: set[str]
) -> None:
    carriers: dict[str, list[str]] = {}
    for one, other in links:
        if one > other:  # a pack leaves files to packs before it
            carriers.setdefault(one, []).append(other)
    parts = parts_needed(opened, carriers)
    told = needs_with({"work": [group]}, parts)["work"]
    then = opened | later
    is_met = all(any(name in then for name in one) for one in told)
    assert is_met == bool(usable_names(then, carriers) & set(group))


def leave(pack: Pack, carrier: Pack) -> None:
    """Let a pack leave a file to another one."""
    item = Item.objects.get(pack=pack, revision__state="approved")
    item.carriers = [{"pack": carrier.name, "list": "x", "files": 2, "bytes": 700}]
    item.satisfied_list = make_list([(b"data/shared", 700)])
    item.save()


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path)


@pytest.mark.django_db
def test_an_opened_pack_is_usable_when_its_carrier_is(lab: PlannedHost) -> None:
    carrier, pack = lab.add("carrier", BuildState.FETCHING), lab.add("pack", BuildState.OPENED)
    lab.capability("Work", [pack])
    leave(pack, carrier)
    row = board_of(lab.plan).rows[1]
    assert (row.opened, row.awaited, row.saved_bytes) == (None, ("carrier",), 700)
    assert not capability_states([board_of(lab.plan)])[0].is_usable
    assert not times_in_order(lab.plan).standings[1].is_opened
    Build.objects.filter(pack=carrier).update(state=BuildState.OPENED)
    row = board_of(lab.plan).rows[1]
    assert row.opened is not None
    assert row.awaited == ()
    assert capability_states([board_of(lab.plan)])[0].is_usable
    assert times_in_order(lab.plan).standings[1].is_opened


@pytest.mark.django_db
def test_a_former_build_of_a_pack_that_took_others_in_does_not_count_as_the_whole(lab: PlannedHost) -> None:
    pack = lab.add("whole", BuildState.OPENED)
    Item.objects.filter(pack=pack).update(came_of=["merged"])
    assert board_of(lab.plan).rows[0].opened is not None  # it is the list in force that was opened
    Item.objects.filter(pack=pack).update(entry_list=make_list([(b"more", 1)]))
    assert board_of(lab.plan).rows[0].opened is None
    assert not times_in_order(lab.plan).standings[0].is_opened
    Item.objects.filter(pack=pack).update(came_of=[])
    assert board_of(lab.plan).rows[0].opened is not None
    assert times_in_order(lab.plan).standings[0].is_opened


@pytest.mark.django_db
def test_a_forecast_gives_no_pack_a_time_before_its_carriers(lab: PlannedHost) -> None:
    pack, carrier = lab.add("first", BuildState.PACKED), lab.add("carrier", BuildState.PACKED, chunk_count=40)
    lab.capability("Work", [pack])
    lab.measure()
    before = forecast_board(board_of(lab.plan))
    leave(pack, carrier)
    after = forecast_board(board_of(lab.plan))
    assert before.rows[0].times is not None and after.outlook is not None
    assert before.rows[0].times != before.rows[1].times
    assert after.rows[0].times == after.rows[1].times == before.rows[1].times
    assert after.outlook.needs == {"Work": after.rows[1].times}
    Pack.objects.filter(pk=carrier.pk).update(is_paused=True)
    assert forecast_board(board_of(lab.plan)).rows[0].times is None  # nobody can say when
