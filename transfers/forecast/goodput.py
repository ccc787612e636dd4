"""The distribution of a link's goodput over the last hours, as what a simulation draws from.

Readings are sums by the minute, over one channel and with one number of lanes: what another channel or another number
of lanes brought says little of the one that is set, so it is drawn from only as long as nothing better was measured.
The same holds of minutes that a bandwidth limit held back: they tell how fast the link is at least.
A minute without any reading counts as one in which nothing came while there was something to fetch, and as none at all
otherwise: a link that stood still is slow, one without work is not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Literal

MINUTE = 60
WINDOW_MINUTES = 5  # one draw of a simulation stands for so long
LOOK_BACK_SECONDS = 6 * 3600
ENOUGH_SECONDS = 60  # less than this is no measurement
ENOUGH_ALIKE_SECONDS = 600  # from here on, only readings over the channel and with the lanes that are set are used
LONGEST_STALL_MINUTES = 15  # a longer silence is a link that was off, whatever there was to fetch

STATED_SPREAD = 0.35  # logarithmic: nobody measured it, so one time in ten it is a third lower
FUTURE_SPREAD = 0.1  # the next hours are not the last ones, however long those were measured
SHORT_SPREAD = 0.35  # what ten minutes of measurement leave open, beside that
OTHER_SPREAD = 0.35  # what another channel leaves open
ALIKE_WINDOWS = 4  # neighbouring windows resemble one another: so many tell as much as one that stands alone


class Alike(StrEnum):
    """How much what forecasts are drawn from is like what is set."""

    LANES = "lanes"  # the same channel and the same number of lanes
    CHANNEL = "channel"  # the same channel, any number of lanes
    HOST = "host"  # any channel, any number of lanes


@dataclass(frozen=True, slots=True)
class Reading:
    """What came in one minute: `minute` counts from any fixed start; `seconds` were measured, over `lanes` lanes."""

    minute: int
    seconds: float
    new_bytes: int
    lanes: int
    channel: int | None = None
    is_limited: bool = False  # by a bandwidth limit, not by the link


@dataclass(frozen=True, slots=True)
class LanePace:
    """What was measured over one channel with one number of lanes."""

    lanes: int
    bytes_per_second: float
    seconds: float
    channel: int | None = None


@dataclass(frozen=True, slots=True)
class Goodput:
    """Rates in bytes a second, each with the seconds that it stands for.

    `spread` is the logarithmic deviation of the level that a whole future run may have; `fastest` bounds every rate
    that is drawn (infinite for a stated rate). `alike` says which readings were used, of `by_lanes`; `lanes` are those
    that are set, None where they are steered.
    """

    basis: Literal["measured", "stated"]
    rates: tuple[float, ...]
    weights: tuple[float, ...]
    spread: float
    fastest: float
    measured_seconds: float = 0.0
    lanes: int | None = None
    by_lanes: tuple[LanePace, ...] = ()
    alike: Alike = Alike.HOST
    is_limited: bool = False

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
    readings: Iterable[Reading],
    *,
    had_work: Sequence[tuple[int, int]] = (),
    lanes: int | None = None,
    channel: int | None = None,
) -> Goodput | None:
    """The distribution in what was measured; None when that is too little, or nothing came at all.

    `had_work` are spans of minutes (first, last) in which something was there to fetch. Readings over the channel that
    is set and with the lanes that are set (None: any, they are steered) are used alone as soon as there are enough of
    them; else those over the channel; else all. Readings that a limit held back are left out as soon as there are
    enough others.
    """
    minutes = _free(_minutes(readings, had_work))
    by_lanes = _by_lanes(minutes)
    alike, used = _alike(minutes, channel, lanes)
    seconds, total = math.fsum(one.seconds for one in used), sum(one.new_bytes for one in used)
    if seconds < ENOUGH_SECONDS or not total:
        return None
    windows = _windows(used)
    rates = tuple(one.new_bytes / one.seconds for one in windows)
    weights = tuple(one.seconds for one in windows)
    bare = Goodput("measured", rates, weights, 0.0, max(rates))
    spread = math.sqrt(
        bare.variation**2 * ALIKE_WINDOWS / max(len(windows), ALIKE_WINDOWS)
        + FUTURE_SPREAD**2
        + SHORT_SPREAD**2 * 600 / (600 + seconds)
        + (OTHER_SPREAD**2 if alike is Alike.HOST else 0.0)
    )
    is_limited = any(one.is_limited for one in used)
    return Goodput("measured", rates, weights, spread, max(rates), seconds, lanes, by_lanes, alike, is_limited)


def _free(minutes: list[Reading]) -> list[Reading]:
    free = [one for one in minutes if not one.is_limited]
    is_enough = math.fsum(one.seconds for one in free) >= ENOUGH_ALIKE_SECONDS and any(one.new_bytes for one in free)
    return free if is_enough else minutes


def _alike(minutes: Sequence[Reading], channel: int | None, lanes: int | None) -> tuple[Alike, list[Reading]]:
    over = [one for one in minutes if one.channel == channel]
    with_lanes = [one for one in over if one.lanes == lanes]
    for alike, rows in ((Alike.LANES, with_lanes), (Alike.CHANNEL, over)):
        if math.fsum(one.seconds for one in rows) >= ENOUGH_ALIKE_SECONDS and any(one.new_bytes for one in rows):
            return alike, rows
    return (Alike.HOST if len(over) < len(minutes) else Alike.CHANNEL), list(minutes)


def _minutes(readings: Iterable[Reading], had_work: Sequence[tuple[int, int]]) -> list[Reading]:
    """One reading a minute, silent ones among them, oldest first."""
    summed: dict[int, Reading] = {}
    for one in sorted(readings, key=lambda one: (one.minute, one.seconds)):
        before = summed.get(one.minute)
        if before is not None:  # what was set changed within the minute: the longer one names it
            one = replace(one, seconds=before.seconds + one.seconds, new_bytes=before.new_bytes + one.new_bytes)
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
    return [replace(before, minute=minute, seconds=float(MINUTE), new_bytes=0) for minute in stalled]


def _by_lanes(minutes: Iterable[Reading]) -> tuple[LanePace, ...]:
    sums: dict[tuple[int | None, int], tuple[float, int]] = {}
    for one in minutes:
        key = (one.channel, one.lanes)
        seconds, count = sums.get(key, (0.0, 0))
        sums[key] = (seconds + one.seconds, count + one.new_bytes)
    rows = sorted(sums.items(), key=lambda pair: (pair[0][0] or 0, pair[0][1]))
    return tuple(
        LanePace(lanes, count / seconds, seconds, channel) for (channel, lanes), (seconds, count) in rows if seconds > 0
    )


def _windows(minutes: Sequence[Reading]) -> list[Reading]:
    """Neighbouring minutes put together; minutes of which hardly anything was measured go with their neighbours."""
    windows = []
    for _key, group in groupby(enumerate(minutes), key=lambda pair: pair[0] // WINDOW_MINUTES):
        members = [one for _at, one in group]
        seconds, count = math.fsum(one.seconds for one in members), sum(one.new_bytes for one in members)
        windows.append(replace(members[0], seconds=seconds, new_bytes=count))
    if len(windows) > 1 and windows[-1].seconds < MINUTE:  # a rate of a few seconds is no window
        last, before = windows.pop(), windows.pop()
        seconds, count = before.seconds + last.seconds, before.new_bytes + last.new_bytes
        windows.append(replace(before, seconds=seconds, new_bytes=count))
    return windows
