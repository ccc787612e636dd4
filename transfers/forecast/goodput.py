"""The distribution of a link's goodput over the last hours, as what a simulation draws from.

Readings of about a second are summed by the minute. A minute without any counts as one in which nothing came while
there was something to fetch, and as none at all otherwise: a link that stood still is slow, one without work is not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

MINUTE = 60
WINDOW_MINUTES = 5  # one draw of a simulation stands for so long
LOOK_BACK_SECONDS = 6 * 3600
ENOUGH_SECONDS = 60  # less than this is no measurement
ENOUGH_OF_LANES_SECONDS = 600  # from here on, only readings with today's number of lanes are used
LONGEST_STALL_MINUTES = 15  # a longer silence is a link that was off, whatever there was to fetch

STATED_SPREAD = 0.35  # logarithmic: nobody measured it, so one time in ten it is a third lower
FUTURE_SPREAD = 0.1  # the next hours are not the last ones, however long those were measured
SHORT_SPREAD = 0.35  # what ten minutes of measurement leave open, beside that
ALIKE_WINDOWS = 4  # neighbouring windows resemble one another: so many tell as much as one that stands alone


@dataclass(frozen=True, slots=True)
class Reading:
    """What came in one minute: `minute` counts from any fixed start; `seconds` were measured, over `lanes` lanes."""

    minute: int
    seconds: float
    new_bytes: int
    lanes: int


@dataclass(frozen=True, slots=True)
class LanePace:
    """What was measured with one number of lanes."""

    lanes: int
    bytes_per_second: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """Rates in bytes a second, each with the seconds that it stands for.

    `spread` is the logarithmic deviation of the level that a whole future run may have; `fastest` bounds every rate
    that is drawn (infinite for a stated rate). `lanes` is None when readings of every number of lanes were used.
    """

    basis: Literal["measured", "stated"]
    rates: tuple[float, ...]
    weights: tuple[float, ...]
    spread: float
    fastest: float
    measured_seconds: float = 0.0
    lanes: int | None = None
    by_lanes: tuple[LanePace, ...] = ()

    @property
    def mean(self) -> float:
        """Bytes a second over all that was measured."""
        return math.fsum(map(operator.mul, self.rates, self.weights)) / math.fsum(self.weights)

    @property
    def variation(self) -> float:
        """Standard deviation over mean, from window to window."""
        mean = self.mean
        spread = math.fsum((rate - mean) ** 2 * weight for rate, weight in zip(self.rates, self.weights, strict=True))
        return math.sqrt(spread / math.fsum(self.weights)) / mean

    def share_slower(self, share: float) -> float:
        """The rate below which the link was for `share` of the time measured."""
        left = share * math.fsum(self.weights)
        pairs = sorted(zip(self.rates, self.weights, strict=True))
        for rate, weight in pairs:
            left -= weight
            if left <= 0:
                return rate
        return pairs[-1][0]


def stated_goodput(bytes_per_second: float) -> Goodput:
    """The goodput that somebody states before any was measured. Raises ValueError unless it is above zero."""
    if not 0 < bytes_per_second < math.inf:
        raise ValueError("A stated rate is a number of bytes a second above zero.")
    return Goodput("stated", (float(bytes_per_second),), (1.0,), STATED_SPREAD, math.inf)


def measured_goodput(
    readings: Iterable[Reading], *, had_work: Sequence[tuple[int, int]] = (), lanes: int | None = None
) -> Goodput | None:
    """The distribution in what was measured; None when that is too little, or nothing came at all.

    `had_work` are spans of minutes (first, last) in which something was there to fetch. With `lanes`, readings of that
    number of lanes are used alone as soon as there are enough of them.
    """
    minutes = _minutes(readings, had_work)
    by_lanes = _by_lanes(minutes)
    known = {one.lanes: one.seconds for one in by_lanes}
    alone = lanes if lanes is not None and known.get(lanes, 0) >= ENOUGH_OF_LANES_SECONDS else None
    used = [one for one in minutes if alone is None or one.lanes == alone]
    seconds, total = math.fsum(one.seconds for one in used), sum(one.new_bytes for one in used)
    if seconds < ENOUGH_SECONDS or not total:
        return None
    windows = _windows(used)
    rates = tuple(one.new_bytes / one.seconds for one in windows)
    weights = tuple(one.seconds for one in windows)
    bare = Goodput("measured", rates, weights, 0.0, max(rates), seconds, alone, by_lanes)
    spread = math.sqrt(
        bare.variation**2 * ALIKE_WINDOWS / max(len(windows), ALIKE_WINDOWS)
        + FUTURE_SPREAD**2
        + SHORT_SPREAD**2 * 600 / (600 + seconds)
    )
    return Goodput("measured", rates, weights, spread, max(rates), seconds, alone, by_lanes)


def _minutes(readings: Iterable[Reading], had_work: Sequence[tuple[int, int]]) -> list[Reading]:
    """One reading a minute, silent ones among them, oldest first."""
    summed: dict[int, Reading] = {}
    for one in sorted(readings, key=lambda one: (one.minute, one.seconds)):
        before = summed.get(one.minute)
        if before is not None:  # the number of lanes changed within the minute: the longer one names it
            seconds, count = before.seconds + one.seconds, before.new_bytes + one.new_bytes
            one = Reading(one.minute, seconds, count, one.lanes)
        summed[one.minute] = one
    found: list[Reading] = []
    for one in summed.values():
        if found:
            found += _silence(found[-1], one, had_work)
        found.append(one)
    return found


def _silence(before: Reading, after: Reading, had_work: Sequence[tuple[int, int]]) -> list[Reading]:
    missing = range(before.minute + 1, after.minute)
    if not missing or len(missing) > LONGEST_STALL_MINUTES:
        return []
    stalled = [minute for minute in missing if any(first <= minute <= last for first, last in had_work)]
    return [Reading(minute, float(MINUTE), 0, before.lanes) for minute in stalled]


def _by_lanes(minutes: Iterable[Reading]) -> tuple[LanePace, ...]:
    sums: dict[int, tuple[float, int]] = {}
    for one in minutes:
        seconds, count = sums.get(one.lanes, (0.0, 0))
        sums[one.lanes] = (seconds + one.seconds, count + one.new_bytes)
    return tuple(
        LanePace(lanes, count / seconds, seconds) for lanes, (seconds, count) in sorted(sums.items()) if seconds > 0
    )


def _windows(minutes: Sequence[Reading]) -> list[Reading]:
    """Neighbouring minutes put together; minutes of which hardly anything was measured go with their neighbours."""
    windows = []
    for _key, group in groupby(enumerate(minutes), key=lambda pair: pair[0] // WINDOW_MINUTES):
        members = [one for _at, one in group]
        seconds, count = math.fsum(one.seconds for one in members), sum(one.new_bytes for one in members)
        windows.append(Reading(members[0].minute, seconds, count, members[0].lanes))
    if len(windows) > 1 and windows[-1].seconds < MINUTE:  # a rate of a few seconds is no window
        last, before = windows.pop(), windows.pop()
        windows.append(
            Reading(before.minute, before.seconds + last.seconds, before.new_bytes + last.new_bytes, before.lanes)
        )
    return windows
