"""Trials of lanes: blocks in random order, counted without their ramp, judged on synthetic data with known truth."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transfers.engine.trial import Answer, Block, Result, count, judge, schedule, student
from transfers.engine.types import LaneReading, Sample

LEVELS = (4, 8, 12)
TRIALS = 400


def _trial(
    truth: Mapping[int, float], seed: int, *, rounds: int = 10, noise: float = 0.08, drift: float = 0.2
) -> Result:
    """Ten rounds over a link whose level wanders from round to round, with noise of its own in each block."""
    chance, blocks = random.Random(seed), []
    order = schedule(tuple(truth), 600, seed).order[: rounds * len(truth)]
    for at, lanes in enumerate(order):
        weather = random.Random(seed * 1000 + at // len(truth)).gauss(1.0, drift)
        rate = truth[lanes] + truth[max(truth)] * (weather - 1 + chance.gauss(0.0, noise))
        blocks.append(Block(lanes, seconds=60.0, new_bytes=max(0, round(rate * 60))))
    return judge(tuple(truth), blocks)


def test_intervals_of_differences_hold_the_truth_as_often_as_they_say() -> None:
    truth = {4: 6e5, 8: 9e5, 12: 1e6}
    held = all_held = 0
    for seed in range(TRIALS):
        inside = [one.low <= truth[one.more] - truth[one.fewer] <= one.high for one in _trial(truth, seed).differences]
        assert len(inside) == 3
        held, all_held = held + sum(inside), all_held + all(inside)
    assert held / (3 * TRIALS) > 0.97
    assert 0.93 < all_held / TRIALS <= 0.995  # 95 % together, and not by being wide beyond use


def test_intervals_of_levels_hold_the_truth_as_often_as_they_say() -> None:
    held = 0
    for seed in range(TRIALS):
        held += sum(one.low <= 1e6 <= one.high for one in _trial(dict.fromkeys(LEVELS, 1e6), seed).levels)
    assert 0.925 < held / (3 * TRIALS) < 0.975


def test_equal_levels_are_told_apart_in_no_more_than_one_trial_of_twenty() -> None:
    answers = Counter(_trial(dict.fromkeys(LEVELS, 1e6), seed).answer for seed in range(TRIALS))
    assert 0.93 < answers[Answer.NO_DIFFERENCE] / TRIALS <= 0.995


def test_a_clear_difference_is_found_though_the_link_wanders_more_than_that() -> None:
    results = [_trial({4: 7e5, 8: 1e6, 12: 1e6}, seed) for seed in range(100)]
    assert sum(result.top == (8, 12) and result.advised == 8 for result in results) > 85
    assert all(4 not in result.top for result in results)
    better = [_trial({4: 5e5, 8: 7.5e5, 12: 1e6}, seed) for seed in range(100)]
    assert sum(result.answer is Answer.BETTER and result.advised == 12 for result in better) > 95


def test_too_many_lanes_are_told_as_such() -> None:
    result = _trial({4: 1e6, 8: 1e6, 12: 6e5}, 1)
    assert result.top == (4, 8) and result.advised == 4 and result.answer is Answer.ALIKE_AT_THE_TOP


@pytest.mark.parametrize("blocks", [0, 1, 2, 5, 8])
def test_too_few_rounds_say_nothing(blocks: int) -> None:
    order = schedule(LEVELS, 600, 1).order
    result = judge(LEVELS, [Block(lanes, seconds=60, new_bytes=10**7 * lanes) for lanes in order[:blocks]])
    assert result.answer is Answer.TOO_FEW and result.advised is None and not result.differences


def test_a_trial_in_which_nothing_came_says_nothing() -> None:
    order = schedule(LEVELS, 600, 1).order
    assert judge(LEVELS, [Block(lanes, seconds=60) for lanes in order]).answer is Answer.TOO_FEW


@given(
    st.lists(st.integers(1, 64), min_size=2, max_size=6, unique=True),
    st.floats(5, 7200),
    st.integers(0, 2**31),
)
def test_each_round_holds_each_level_once_and_the_times_are_those_asked_for(
    levels: list[int], seconds: float, seed: int
) -> None:
    made = schedule(levels, seconds, seed)
    for first in range(0, len(made.order), len(levels)):
        assert sorted(made.order[first : first + len(levels)]) == sorted(levels)
    assert len(made.order) // len(levels) * made.block_seconds == pytest.approx(seconds)
    assert made == schedule(levels, seconds, seed)


def test_orders_differ_between_rounds_and_seeds() -> None:
    orders = {schedule(LEVELS, 600, seed).order for seed in range(20)}
    rounds = {order[:3] for order in orders}
    assert len(orders) == 20 and len(rounds) == 6


def test_the_default_trial_counts_ten_minutes_a_level() -> None:
    made = schedule(LEVELS, 600, 7)
    assert (len(made.order), made.block_seconds, made.ramp_seconds) == (30, 60.0, 10.0)


def _sample(states: Sequence[str], *, new: int = 1000, silent: float = 0.0, refusals: int = 0) -> Sample:
    lanes = tuple(LaneReading(at, state, "b", 1.0, silent, 0) for at, state in enumerate(states))
    return Sample(1.0, new, 2 * new, lanes, refusals, 1)


def test_ramp_dialling_and_starving_are_not_counted() -> None:
    block = Block(2)
    working = ("working", "working")
    for sample, starved in (
        (_sample(["working"]), False),  # the second lane has not begun
        (_sample(working), False),
        (_sample(["working", "dialling"]), False),
        (_sample(["waiting", "waiting"]), True),
    ):
        block = count(block, sample, 2.0, is_limited=False, is_starved=starved)
        assert not block.seconds and not block.new_bytes
    for _ in range(3):
        block = count(block, _sample(working, silent=4.0, refusals=1), 2.0, is_limited=True, is_starved=False)
    assert (block.seconds, block.new_bytes, block.wire_bytes, block.refusals) == (3.0, 3000, 6000, 3)
    assert (block.redials, block.stalled_seconds, block.limited_seconds) == (3, 6.0, 3.0)
    assert block.bytes_per_second == 1000


def test_quantiles_are_those_of_the_tables() -> None:
    for confidence, freedom, t in ((0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 9, 2.262), (0.99, 10, 3.169)):
        assert student(confidence, freedom) == pytest.approx(t, abs=1e-3)
    assert student(0.95, 300) == pytest.approx(1.968, abs=1e-3)
