"""Order advice: complete, within the tiers that the team agreed on, and calm about what does not run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transfers.forecast.advice import Candidate, Why, advise
from transfers.forecast.calibration import Kept, calibrate

PACKS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 4), st.booleans()), min_size=1, max_size=9
).map(
    lambda rows: [
        Candidate(str(at), min(left, total), total, tier, runs) for at, (left, total, tier, runs) in enumerate(rows)
    ]
)
NEEDS = st.dictionaries(
    st.sampled_from(["one", "two"]),
    st.lists(st.lists(st.sampled_from("012345678"), min_size=1, max_size=3), max_size=3),
)


def keys(packs: list[Candidate], needs: dict[str, list[list[str]]], may_cross_tiers: bool = False) -> list[str]:
    return [one.key for one in advise(packs, needs, aim="one", may_cross_tiers=may_cross_tiers)]


@given(PACKS, NEEDS)
@settings(deadline=None)
def test_every_pack_has_one_place_and_no_tier_is_crossed_anew(
    packs: list[Candidate], needs: dict[str, list[list[str]]]
) -> None:
    order = keys(packs, needs)
    assert sorted(order) == sorted(one.key for one in packs)
    running = [one for one in packs if one.runs]
    for at, one in enumerate(running):
        for other in running[at + 1 :]:
            if one.tier < other.tier:
                assert order.index(one.key) < order.index(other.key)


@given(PACKS, NEEDS, st.booleans())
@settings(deadline=None)
def test_packs_that_nothing_moves_keep_their_places(
    packs: list[Candidate], needs: dict[str, list[list[str]]], crossing: bool
) -> None:
    order = keys(packs, needs, may_cross_tiers=crossing)
    assert all(order[at] == one.key for at, one in enumerate(packs) if not one.runs)


@given(PACKS, NEEDS, st.booleans())
@settings(deadline=None)
def test_the_aim_waits_for_no_more_bytes_than_before(
    packs: list[Candidate], needs: dict[str, list[list[str]]], crossing: bool
) -> None:
    def ahead(order: list[str]) -> float | None:
        sums, total = {}, 0.0
        by_key: dict[str, Candidate] = {one.key: one for one in packs}
        for key in order:
            total += by_key[key].left_bytes if by_key[key].runs else 0
            sums[key] = total
        firsts = [[sums[key] for key in group if key in by_key and by_key[key].runs] for group in needs.get("one", [])]
        return max((min(one) for one in firsts), default=None) if all(firsts) else None

    before, after = ahead([one.key for one in packs]), ahead(keys(packs, needs, may_cross_tiers=crossing))
    if before is not None and all(len(group) == 1 for group in needs["one"]):
        assert after is not None and after <= before


def test_a_set_that_is_nearly_done_goes_first_among_equals() -> None:
    packs = [Candidate("new", 100, 100, 1), Candidate("nearly", 10, 100, 1)]
    first, second = advise(packs, {})
    assert (first.key, first.why, second.key, second.why) == ("nearly", Why.NEARLY_DONE, "new", Why.VALUE)


def test_of_any_the_one_with_the_fewest_bytes_is_taken() -> None:
    packs = [Candidate("other", 5, 5, 1), Candidate("large", 100, 100, 1), Candidate("small", 50, 50, 1)]
    order = advise(packs, {"work": [["large", "small"]]}, aim="work")
    assert (order[0].key, order[0].why) == ("small", Why.NEEDED)


def test_weights_decide_between_tiers_when_they_may_be_crossed() -> None:
    packs = [Candidate("worse", 100, 100, 2), Candidate("better", 100, 100, 1)]
    assert [one.key for one in advise(packs, {}, weights={1: 1, 2: 5}, may_cross_tiers=True)] == ["worse", "better"]
    assert [one.key for one in advise(packs, {}, weights={1: 5, 2: 1}, may_cross_tiers=True)] == ["better", "worse"]


def test_calibration_counts_how_often_the_likely_by_time_held() -> None:
    assert calibrate([]) is None
    rows = [Kept(100, 150, 90), Kept(100, 150, 140), Kept(100, 150, 150), Kept(100, 150, 400)]
    found = calibrate(rows)
    assert found is not None
    assert (found.count, found.held, found.within_expected, found.share_held) == (4, 3, 1, 0.75)
    assert found.ratio == pytest.approx(1.5)
