"""Steering as a pure function: on seconds recorded from a lossy link, and on links whose truth is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle

import pytest

from transfers.engine.control import Decision, Phase, Steering, begin, step
from transfers.engine.types import LaneReading, Sample

MEGABIT = 1e6 / 8

# Distinct Mbit/s of each second, recorded over 180 ms, 1 % loss, 20 Mbit/s: 8 lanes from their first second on.
EIGHT_LANES = (
    *(3.1, 14.2, 14.2, 10.0, 9.4, 7.9, 7.9, 7.3, 5.8, 6.8, 6.3, 5.8, 7.3, 5.8, 6.8, 6.8, 5.8, 5.2, 5.2, 6.7, 4.7, 5.2),
    *(6.2, 6.8, 6.3, 6.3, 6.3, 5.8, 5.2, 4.7, 5.2, 4.2, 5.2, 6.3, 5.2, 4.7, 5.2, 6.3, 5.8, 5.2, 6.3, 6.3, 6.3, 7.3),
    *(5.8, 5.2, 5.8, 4.7, 6.8, 6.3, 4.2, 6.7, 5.2, 5.2, 6.2, 4.7, 6.3, 5.2, 5.2, 6.3),
)
_USUAL = EIGHT_LANES[10:]
NOISE = tuple(second / (sum(_USUAL) / len(_USUAL)) for second in _USUAL)

Link = Callable[[int, int], float]  # (lanes, second) to bytes a second, before noise


def _sample(rate: float, lanes: int, *, refusals: int = 0, working: int | None = None) -> Sample:
    served = lanes if working is None else working
    readings = tuple(
        LaneReading(number, "working" if number < served else "redialling", "build", rate / max(1, served), 0.1, 0)
        for number in range(lanes)
    )
    return Sample(1.0, round(rate), round(rate), readings, refusals, 0)


def _run(
    link: Link, seconds: int, *, start: Steering | None = None, most: int = 48, noise: float = 1.0, seed: int = 1
) -> tuple[Steering, list[tuple[int, Decision]], list[int]]:
    """Let steering run a link; its state, its decisions with their seconds, and the lanes of each second."""
    now, told, lanes = start or begin(8), [], []
    wobble = cycle(NOISE[seed * 7 % len(NOISE) :] + NOISE[: seed * 7 % len(NOISE)])
    for second in range(seconds):
        rate = link(now.lanes, second) * (1 + (next(wobble) - 1) * noise)
        now, decision = step(now, _sample(max(0.0, rate), now.lanes), most=most)
        lanes.append(now.lanes)
        if decision is not None:
            told.append((second, decision))
    return now, told, lanes


def _lossy(lanes: int, _second: int) -> float:
    """Each connection is held to 0.7 Mbit/s; the wire carries 19."""
    return min(19.0, 0.7 * lanes) * MEGABIT


def test_a_steady_link_is_filled_within_half_a_minute_and_then_left_in_peace() -> None:
    now, told, lanes = _run(_lossy, 900, noise=0.1)
    assert _lossy(lanes[30], 0) > 0.95 * 19 * MEGABIT
    mean = sum(_lossy(count, 0) for count in lanes[30:]) / len(lanes[30:])
    assert mean > 0.97 * 19 * MEGABIT
    assert len([second for second, _ in told if second > 60]) <= 14  # a try and its answer now and then
    assert now.lanes <= 40


@pytest.mark.parametrize("seed", range(8))
def test_noise_as_recorded_does_not_keep_it_from_filling_the_link(seed: int) -> None:
    _now, _told, lanes = _run(_lossy, 900, seed=seed)
    assert _lossy(lanes[45], 0) > 0.8 * 19 * MEGABIT
    assert sum(_lossy(count, 0) for count in lanes[60:]) / len(lanes[60:]) > 0.9 * 19 * MEGABIT


def test_a_recorded_fetch_with_its_fast_first_seconds_leads_to_more_lanes() -> None:
    now: Steering = begin(8)
    decisions = []
    for rate in EIGHT_LANES:
        now, decision = step(now, _sample(rate * MEGABIT, now.lanes), most=48)
        decisions += [decision] if decision is not None else []
    assert decisions[0].lanes == 16
    assert decisions[0].rate is not None and decisions[0].rate.low < decisions[0].rate.mean < decisions[0].rate.high
    assert "8 lanes bring" in decisions[0].reason and "16 are tried" in decisions[0].reason


@pytest.mark.parametrize("begun", [4, 8, 16])
def test_connections_that_are_fast_while_they_are_fresh_do_not_keep_it_from_filling_the_link(begun: int) -> None:
    ages: list[int] = []

    def fresh(lanes: int, _second: int) -> float:
        del ages[lanes:]
        ages.extend([0] * (lanes - len(ages)))
        rates = [0.7 * (1 + 2.2 * 0.8**age) for age in ages]
        ages[:] = [age + 1 for age in ages]
        return min(19.0, sum(rates)) * MEGABIT

    _now, _told, lanes = _run(fresh, 600, start=begin(begun))
    assert min(lanes[90:]) >= 16
    assert sum(_lossy(count, 0) for count in lanes[90:]) / len(lanes[90:]) > 0.88 * 19 * MEGABIT


def test_a_number_that_lost_only_because_the_link_became_slower_is_tried_again() -> None:
    def slower(lanes: int, second: int) -> float:
        return _lossy(lanes, second) * (0.4 if second > 8 else 1.0)

    _now, told, lanes = _run(slower, 60, noise=0.1)
    assert any("just before" in decision.reason for _second, decision in told)
    assert lanes[-1] >= 24


def test_a_link_that_more_lanes_make_collapse_keeps_fewer() -> None:
    def collapsing(lanes: int, _second: int) -> float:
        return (0.9 * lanes if lanes <= 16 else 5.0) * MEGABIT

    _now, told, lanes = _run(collapsing, 900)
    assert lanes[40] <= 16
    assert sum(collapsing(count, 0) for count in lanes[40:]) / len(lanes[40:]) > 0.85 * 0.9 * 16 * MEGABIT
    assert any("back to 16" in decision.reason for _second, decision in told)


def test_a_clean_link_that_one_lane_fills_gets_few() -> None:
    now, _told, lanes = _run(lambda lanes, _second: 100 * MEGABIT, 3600, noise=0.1)
    assert max(lanes) <= 16 and now.lanes <= 4


def test_one_slow_spell_changes_nothing_and_a_silence_is_not_judged() -> None:
    def spell(lanes: int, second: int) -> float:
        return _lossy(lanes, second) * (0.1 if 200 <= second < 220 else 1.0)

    held = begin(32, is_known=True)
    quiet = _run(_lossy, 230, start=held, noise=0.2)[2]
    assert _run(spell, 230, start=held, noise=0.2)[2] == quiet
    now = held
    for _ in range(3600):
        now, decision = step(now, _sample(0.0, now.lanes), most=48)
        assert decision is None and now.lanes == 32


def test_a_rate_that_falls_and_stays_low_is_told_and_others_are_tried() -> None:
    def shared(lanes: int, second: int) -> float:
        return _lossy(lanes, second) * (0.4 if second >= 100 else 1.0)

    _now, told, lanes = _run(shared, 400, start=begin(32, is_known=True), noise=0.2)
    fallen = [second for second, decision in told if "stays there" in decision.reason]
    assert len(fallen) == 1 and 125 <= fallen[0] <= 150
    assert any(second > fallen[0] for second, decision in told if "tried" in decision.reason)
    assert max(lanes) <= 48


def test_on_a_shared_link_it_stays_within_its_setting_and_does_not_thrash() -> None:
    def shared(lanes: int, _second: int) -> float:
        return 20 * MEGABIT * lanes / (lanes + 24)  # another's 24 connections: more lanes, a larger part

    _now, told, lanes = _run(shared, 3600, most=20)
    assert max(lanes) <= 20
    assert len(told) < 40
    assert sum(lanes[60:]) / len(lanes[60:]) > 13


def test_a_server_that_refuses_gets_fewer_and_no_more_for_ten_minutes() -> None:
    now = begin(16)
    decisions = []
    for second in range(600):
        served = min(now.lanes, 6)
        refusals = 2 if now.lanes > 6 else 0
        now, decision = step(now, _sample(served * MEGABIT, now.lanes, refusals=refusals, working=served), most=48)
        decisions += [(second, decision)] if decision is not None else []
    assert now.lanes <= 6
    assert "turned" in decisions[0][1].reason and "instead of 16" in decisions[0][1].reason
    assert decisions[0][0] < 15
    assert all(decision.lanes <= 8 for _second, decision in decisions)


def test_a_lone_refusal_while_connecting_takes_no_lane_away() -> None:
    now = begin(8)
    now, decision = step(now, _sample(MEGABIT, 8, refusals=1), most=48)
    assert decision is None and now.lanes == 8


def test_nothing_is_judged_while_lanes_connect_while_a_limit_holds_or_without_work() -> None:
    dialling = LaneReading(0, "dialling", "", 0.0, 0.0, 0)
    now = begin(8)
    for _ in range(12):
        now, decision = step(now, Sample(1.0, 10**6, 10**6, (dialling,), 0, 0), most=48)
        assert decision is None
    for reason in ("is_limited", "is_starved"):
        now = begin(8)
        for _ in range(600):
            now, decision = step(now, _sample(MEGABIT, 8), most=48, **{reason: True})
            assert decision is None and now.lanes == 8


def test_fewer_lanes_allowed_take_effect_at_once() -> None:
    now, decision = step(begin(32), _sample(MEGABIT, 32), most=5)
    assert now.lanes == 5 and decision is not None and "No more than 5" in decision.reason


@pytest.mark.parametrize(("round_trip", "most", "lanes"), [(0.18, 48, 32), (0.18, 12, 12), (0.02, 48, 8)])
def test_a_long_round_trip_is_told_by_the_first_answer_and_more_lanes_begin(
    round_trip: float, most: int, lanes: int
) -> None:
    answered = LaneReading(0, "working", "build", 0.0, 0.1, 0, 0, round_trip)
    dialling = [LaneReading(number, "dialling", "", 0.0, 0.1, 0) for number in range(1, 8)]
    now, _decision = step(begin(8), Sample(1.0, 0, 0, tuple(dialling), 0, 0), most=most)
    assert now.lanes == 8
    now, decision = step(now, Sample(1.0, 0, 0, (answered, *dialling), 0, 0), most=most)
    assert now.lanes == lanes and (decision is None) == (lanes == 8)
    now, decision = step(now, Sample(1.0, 0, 0, (answered, *dialling), 0, 0), most=most)
    assert now.lanes == lanes and decision is None


def test_a_number_found_good_before_is_held_and_not_doubled() -> None:
    _now, told, lanes = _run(_lossy, 50, start=begin(24, is_known=True))
    assert set(lanes) == {24} and not told


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_link_does_lanes_stay_within_their_bounds(seed: int) -> None:
    chance = random.Random(seed)
    now, most = begin(chance.randint(1, 64)), 48
    for second in range(400):
        most = chance.choice((1, 5, 48, 48)) if second % 50 == 0 else most
        rate = chance.choice((0.0, 1.0, chance.expovariate(1.0) * 20 * MEGABIT))
        sample = _sample(rate, now.lanes, refusals=chance.choice((0, 0, 0, 0, 0, 1, 30)))
        now, decision = step(now, sample, most=most, is_limited=chance.random() < 0.1, is_starved=chance.random() < 0.1)
        assert 1 <= now.lanes <= most
        assert decision is None or (decision.lanes == now.lanes and decision.reason)
        assert now.phase in Phase
