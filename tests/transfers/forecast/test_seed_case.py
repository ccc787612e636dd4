"""The case that the product grew from, with its numbers: nine packs at 70 kB/s, in four orders.

Pack 01 is taken to shrink to 30 %; of the baseline 57.15 % is here; pack 00, 02 and what exists is fetched as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from transfers.forecast.advice import Candidate, Why, advise
from transfers.forecast.futures import Paces
from transfers.forecast.goodput import stated_goodput
from transfers.forecast.simulate import Job, Outlook, simulate

HOUR, DAY = 3600, 86_400
RATE = 70_000
SMALLEST = "smallest working set"
# name: (bytes as packed, bytes left, tier of what is in it)
PACKS = {
    "00-critical-context": (21_000_000, 21_000_000, 1),
    "baseline": (436_398_080, round(436_398_080 * (1 - 0.5715)), 1),
    "01-model-runtime-no-weights": (round(562_902_582 * 0.3), round(562_902_582 * 0.3), 2),
    "llama-cpp": (264_921_801, 256_500_000, 1),
    "02-user-workspace": (4_000_000, 4_000_000, 4),
    "oci-image": (1_646_166_016, 1_646_166_016, 3),
    "container-home": (740_994_223, 740_994_223, 3),
    "whole-home-user2": (1_684_911_580, 1_684_911_580, 4),
    "model-parameters": (16_285_000_000, 16_285_000_000, 5),
}
NEEDS = {
    SMALLEST: [["00-critical-context"], ["01-model-runtime-no-weights"], ["llama-cpp"]],
    "exact rebuild": [["oci-image"]],
}
SEED = list(PACKS)
LARGEST_FIRST = sorted(PACKS, key=lambda name: -PACKS[name][1])
FILE_ORDER = sorted(PACKS)


def outlook(order: Sequence[str]) -> Outlook:
    link = Paces(stated_goodput(RATE), proof_rates=(150e6,))
    return simulate([Job(name, PACKS[name][1]) for name in order], link, needs=NEEDS)


def advised(order: Sequence[str], *, may_cross_tiers: bool = False) -> list[str]:
    candidates = [Candidate(name, PACKS[name][1], PACKS[name][0], PACKS[name][2]) for name in order]
    return [str(one.key) for one in advise(candidates, NEEDS, aim=SMALLEST, may_cross_tiers=may_cross_tiers)]


def hours(order: Sequence[str]) -> float:
    return outlook(order).needs[SMALLEST].expected_seconds / HOUR


def test_everything_takes_about_three_and_a_half_days_in_any_order() -> None:
    for order in (SEED, LARGEST_FIRST, FILE_ORDER, advised(SEED)):
        everything = outlook(order).everything
        assert everything is not None
        assert everything.expected_seconds / DAY == pytest.approx(3.47, abs=0.03)


def test_the_smallest_working_set_comes_within_hours_and_not_after_days() -> None:
    left = {name: PACKS[name][1] for name in PACKS}
    four = left["00-critical-context"] + left["baseline"] + left["01-model-runtime-no-weights"] + left["llama-cpp"]
    assert hours(SEED) == pytest.approx(four / RATE / HOUR, rel=0.01)
    assert hours(SEED) == pytest.approx(2.51, abs=0.03)
    assert hours(LARGEST_FIRST) == pytest.approx(83.2, abs=0.5)  # all but the smallest pack stands before it
    assert hours(FILE_ORDER) == pytest.approx(5.48, abs=0.05)


def test_the_advice_is_never_later_than_the_order_in_force() -> None:
    for order in (SEED, LARGEST_FIRST, FILE_ORDER):
        for crossing in (False, True):
            assert hours(advised(order, may_cross_tiers=crossing)) <= hours(order)


def test_the_advice_from_any_order_is_no_later_than_the_seeds_order() -> None:
    for order in (SEED, LARGEST_FIRST, FILE_ORDER):
        assert hours(advised(order)) <= hours(SEED) * (1 + 1e-9)


def test_across_tiers_the_advice_is_three_quarters_of_an_hour_earlier() -> None:
    order = advised(SEED, may_cross_tiers=True)
    assert set(order[:3]) == {"00-critical-context", "01-model-runtime-no-weights", "llama-cpp"}
    assert hours(order) == pytest.approx(1.77, abs=0.02)
    assert (hours(SEED) - hours(order)) * 60 == pytest.approx(44.5, abs=1)


def test_a_better_tier_is_left_before_a_worse_one() -> None:
    order = advised(SEED)
    assert order.index("baseline") < order.index("01-model-runtime-no-weights")
    assert order[-1] == "model-parameters"
    for at, name in enumerate(SEED):
        behind = [other for other in SEED[at + 1 :] if PACKS[other][2] > PACKS[name][2]]
        assert all(order.index(name) < order.index(other) for other in behind)


def test_each_pack_has_a_reason() -> None:
    candidates = [Candidate(name, left, total, tier) for name, (total, left, tier) in PACKS.items()]
    found = {one.key: one for one in advise(candidates, NEEDS, aim=SMALLEST)}
    assert (found["llama-cpp"].why, found["llama-cpp"].need) == (Why.NEEDED, SMALLEST)
    assert (found["baseline"].why, found["baseline"].need) == (Why.TIER, SMALLEST)
    assert (found["oci-image"].why, found["oci-image"].need) == (Why.NEXT, "exact rebuild")
    assert found["model-parameters"].why is Why.VALUE
