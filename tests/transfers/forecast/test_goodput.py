"""The distribution of goodput: what counts as measured, and what as a link that stood still."""

from __future__ import annotations

from dataclasses import replace

import pytest

from transfers.forecast.goodput import Alike, Reading, measured_goodput, stated_goodput


def minutes(*counts: int, first: int = 0, lanes: int = 4) -> list[Reading]:
    return [Reading(first + at, 60.0, count, lanes) for at, count in enumerate(counts)]


def test_less_than_a_minute_is_no_measurement() -> None:
    assert measured_goodput([Reading(0, 59.0, 10**9, 4)]) is None
    assert measured_goodput([Reading(0, 60.0, 6_000, 4)]) is not None


def test_nothing_that_came_is_no_measurement() -> None:
    assert measured_goodput(minutes(0, 0, 0)) is None


def test_a_silence_counts_while_there_was_something_to_fetch_and_not_otherwise() -> None:
    readings = minutes(600_000, first=0) + minutes(600_000, first=4)
    idle, stalled = measured_goodput(readings), measured_goodput(readings, had_work=[(0, 10)])
    assert idle is not None and stalled is not None
    assert idle.mean == pytest.approx(10_000)
    assert stalled.mean == pytest.approx(4_000)
    assert stalled.measured_seconds == 300


def test_a_silence_of_hours_is_a_link_that_was_off() -> None:
    readings = minutes(600_000, first=0) + minutes(600_000, first=100)
    found = measured_goodput(readings, had_work=[(0, 200)])
    assert found is not None and found.mean == pytest.approx(10_000)


def test_readings_with_the_lanes_that_are_set_are_used_alone_once_there_are_enough() -> None:
    few, many = minutes(*[600_000] * 30), minutes(*[1_200_000] * 10, first=30, lanes=8)
    found = measured_goodput([*few, *many], lanes=8)
    assert found is not None and found.alike is Alike.LANES and found.mean == pytest.approx(20_000)
    assert [(one.lanes, round(one.bytes_per_second)) for one in found.by_lanes] == [(4, 10_000), (8, 20_000)]
    too_few = measured_goodput([*few, *many[:9]], lanes=8)
    assert too_few is not None and too_few.alike is Alike.CHANNEL and 10_000 < too_few.mean < 20_000
    steered = measured_goodput([*few, *many])
    assert steered is not None and steered.alike is Alike.CHANNEL and steered.measured_seconds == 2400


def test_another_channel_counts_only_until_enough_came_over_the_one_in_use() -> None:
    other = [replace(one, channel=1) for one in minutes(*[600_000] * 60)]
    ours = [replace(one, channel=2) for one in minutes(*[60_000] * 10, first=60)]
    found = measured_goodput([*other, *ours], lanes=4, channel=2)
    assert found is not None and found.alike is Alike.LANES and found.mean == pytest.approx(1_000)
    assert [(one.channel, one.lanes) for one in found.by_lanes] == [(1, 4), (2, 4)]
    too_few = measured_goodput([*other, *ours[:9]], lanes=4, channel=2)
    alone = measured_goodput(other, lanes=4, channel=1)
    assert too_few is not None and alone is not None
    assert too_few.alike is Alike.HOST and too_few.mean > 8_000
    assert too_few.spread > alone.spread + 0.1


def test_the_less_was_measured_the_wider_it_is() -> None:
    short, long = measured_goodput(minutes(*[60_000] * 2)), measured_goodput(minutes(*[60_000] * 300))
    assert short is not None and long is not None
    assert short.spread > long.spread > 0.1


def test_rates_that_vary_are_told_by_their_share() -> None:
    found = measured_goodput(minutes(*[60_000] * 10, *[600_000] * 90))
    assert found is not None
    assert (found.share_slower(0.05), found.share_slower(0.5), found.fastest) == (1_000, 10_000, 10_000)


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_a_stated_rate_is_above_zero(rate: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        stated_goodput(rate)


def test_minutes_that_a_limit_held_back_do_not_tell_what_the_link_can_do() -> None:
    held = [replace(one, is_limited=True) for one in minutes(*[60_000] * 60)]
    free = minutes(*[1_200_000] * 10, first=60)
    found = measured_goodput([*held, *free])
    assert found is not None and not found.is_limited
    assert found.mean == pytest.approx(20_000) and found.measured_seconds == 600
    assert [round(one.bytes_per_second) for one in found.by_lanes] == [20_000]
    too_few = measured_goodput([*held, *free[:9]])
    assert too_few is not None and too_few.is_limited and too_few.mean < 4_000
    alone = measured_goodput(held)
    assert alone is not None and alone.is_limited and alone.mean == pytest.approx(1_000)
