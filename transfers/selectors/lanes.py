"""What a link and its lanes did lately, for charts: goodput and lanes over time, and each lane minute by minute.

A lane *collapses* in a minute in which it brought less than a fifth of what its siblings did in the middle. The link
collapses in a minute in which its lanes in the middle brought less than a fifth of what they did over all minutes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from inventory.models import Host
from transfers.models import GoodputSample, LaneDecision, LaneMinute

SPANS = (10, 60, 360, 1440)  # minutes
POINTS = 60  # of a chart
COLLAPSED = 0.2
LANES_SHOWN = 64
_FEWEST_SIBLINGS = 2
_WHOLE_MINUTE = 30.0  # seconds measured: less says nothing of a minute


@dataclass(frozen=True, slots=True)
class Stretch:
    """One stretch of a chart: bytes a second and lanes; None where no link ran."""

    at: datetime
    bytes_per_second: float | None
    lanes: int | None


@dataclass(frozen=True, slots=True)
class History:
    """Goodput and lanes over a span that ends at `at`, oldest first, with the decisions that fell into it."""

    at: datetime
    minutes: int
    stretches: tuple[Stretch, ...]
    decisions: tuple[LaneDecision, ...]  # newest first

    @property
    def is_empty(self) -> bool:
        return all(stretch.bytes_per_second is None for stretch in self.stretches)


def history_of(host: Host, minutes: int, *, at: datetime | None = None) -> History:
    """What a host's link did in the last minutes."""
    now = at or timezone.now()
    begin = now - timedelta(minutes=minutes)
    rows = _samples(host, begin, now) if minutes <= SPANS[0] else _minutes(host, begin, now)
    step = minutes * 60 / POINTS
    sums = [[0.0, 0.0, 0] for _ in range(POINTS)]  # seconds, bytes, most lanes
    for at_, seconds, new_bytes, lanes in rows:
        place = sums[min(POINTS - 1, max(0, int((at_ - begin).total_seconds() // step)))]
        place[0] += seconds
        place[1] += new_bytes
        place[2] = max(int(place[2]), lanes)
    stretches = tuple(
        Stretch(
            begin + timedelta(seconds=step * number),
            new_bytes / max(seconds, min(step, 60.0)) if seconds else None,
            int(lanes) if seconds else None,
        )
        for number, (seconds, new_bytes, lanes) in enumerate(sums)
    )
    decisions = LaneDecision.objects.filter(host=host, at__gt=begin, at__lte=now)
    return History(now, minutes, stretches, tuple(decisions))


def _samples(host: Host, begin: datetime, end: datetime) -> list[tuple[datetime, float, int, int]]:
    rows = GoodputSample.objects.filter(host=host, at__gt=begin, at__lte=end)
    return list(rows.values_list("at", "seconds", "new_bytes", "lanes"))


def _minutes(host: Host, begin: datetime, end: datetime) -> list[tuple[datetime, float, int, int]]:
    rows = LaneMinute.objects.filter(host=host, at__gte=begin, at__lte=end)
    return [(row.at, row.seconds, row.new_bytes, sum(1 for lane in row.lanes if lane[1])) for row in rows]


@dataclass(frozen=True, slots=True)
class LaneLine:
    """One lane over the minutes of the chart: bytes a second (None: it was not there), and where it collapsed."""

    number: int
    rates: tuple[float | None, ...]
    collapsed: tuple[int, ...]  # places among the minutes
    silent_seconds: float
    redials: int

    @property
    def mean(self) -> float:
        """Bytes a second over the minutes in which it was there."""
        known = [rate for rate in self.rates if rate is not None]
        return statistics.fmean(known) if known else 0.0


@dataclass(frozen=True, slots=True)
class LaneChart:
    """The lanes of the last hour; `collapsed` are minutes in which all of them were far below their usual."""

    begin: datetime
    minutes: int
    lanes: tuple[LaneLine, ...]
    left_out: int  # lanes of the hour that are not among the newest
    collapsed: tuple[datetime, ...]

    @property
    def highest(self) -> float:
        return max((rate or 0.0 for lane in self.lanes for rate in lane.rates), default=0.0)


def lane_chart(host: Host, *, minutes: int = 60, at: datetime | None = None) -> LaneChart:
    """Each lane of a host minute by minute."""
    now = at or timezone.now()
    begin = now.replace(second=0, microsecond=0) - timedelta(minutes=minutes - 1)
    rows = {
        round((row.at - begin).total_seconds() / 60): row
        for row in LaneMinute.objects.filter(host=host, at__gte=begin, at__lte=now)
    }
    numbers = sorted({int(lane[0]) for row in rows.values() for lane in row.lanes}, reverse=True)
    shown = sorted(numbers[:LANES_SHOWN])
    middles = {place: _middle(row) for place, row in rows.items()}
    lines = tuple(_line(number, rows, middles, minutes) for number in shown)
    return LaneChart(begin, minutes, lines, len(numbers) - len(shown), _link_collapses(rows, middles))


def _middle(row: LaneMinute) -> float | None:
    """What the lane in the middle brought in a minute, in bytes a second; None when the minute tells nothing."""
    if row.seconds < _WHOLE_MINUTE or len(row.lanes) < _FEWEST_SIBLINGS:
        return None
    return statistics.median(float(lane[1]) for lane in row.lanes) / row.seconds


def _line(number: int, rows: dict[int, LaneMinute], middles: dict[int, float | None], minutes: int) -> LaneLine:
    rates: list[float | None] = [None] * minutes
    collapsed: list[int] = []
    silent, redials = 0.0, 0
    for place, row in sorted(rows.items()):
        found = next((lane for lane in row.lanes if lane[0] == number), None)
        if found is None or not row.seconds or not 0 <= place < minutes:
            continue
        rates[place] = found[1] / row.seconds
        silent, redials = silent + found[2], redials + found[3]
        middle = middles[place]
        if middle and found[1] / row.seconds < COLLAPSED * middle and _was_there(number, place, rows):
            collapsed.append(place)
    return LaneLine(number, tuple(rates), tuple(collapsed), silent, redials)


def _was_there(number: int, place: int, rows: dict[int, LaneMinute]) -> bool:
    """True when a lane was there before and after a minute too, so that it neither began nor ended in it."""
    beside = [rows.get(place - 1), rows.get(place + 1)]
    return all(row is not None and any(lane[0] == number for lane in row.lanes) for row in beside)


def _link_collapses(rows: dict[int, LaneMinute], middles: dict[int, float | None]) -> tuple[datetime, ...]:
    known = [middle for middle in middles.values() if middle is not None]
    if len(known) < 3:
        return ()
    usual = statistics.median(known)
    low = [place for place, middle in middles.items() if middle is not None and middle < COLLAPSED * usual]
    return tuple(rows[place].at for place in sorted(low))


def decisions_of(host: Host, count: int) -> Sequence[LaneDecision]:
    """A host's newest decisions."""
    return list(LaneDecision.objects.filter(host=host)[:count])
