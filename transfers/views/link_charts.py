"""Charts of a link, drawn on the server: goodput over lanes with decisions, lane by lane, a trial, a week of limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from transfers.engine.trial import LevelResult
from transfers.models import LaneDecision
from transfers.selectors.lanes import History, LaneChart, LaneLine
from transfers.windows import DAY_MINUTES, WeeklyLimit

WIDTH, TOP, FOOT, LANES_TOP, LANES_FOOT, HEIGHT = 440, 16, 96, 116, 156, 174
SMALL_WIDTH, SMALL_HEIGHT = 120, 30
INTERVAL_LEFT, INTERVAL_RIGHT, ROW = 64, 360, 26  # of 440
WEEK_LEFT, WEEK_WIDTH, WEEK_ROW = 32, 328, 14


@dataclass(frozen=True, slots=True)
class Mark:
    """A decision in the chart: its place, and its number in the table below it."""

    x: float
    y: float
    number: int
    decision: LaneDecision


@dataclass(frozen=True, slots=True)
class LinkChart:
    """Paths in a box of WIDTH x HEIGHT: goodput above, lanes below."""

    area: str
    line: str
    lanes: str
    highest_bytes_per_second: float
    most_lanes: int
    marks: tuple[Mark, ...]


def link_chart(history: History) -> LinkChart | None:
    """The chart of a link; None when nothing ran in its time."""
    if history.is_empty:
        return None
    rates = [stretch.bytes_per_second for stretch in history.stretches]
    lanes = [stretch.lanes for stretch in history.stretches]
    highest = max((rate or 0.0 for rate in rates), default=0.0)
    most = max(
        [lane or 0 for lane in lanes] + [decision.lanes for decision in history.decisions] + [1],
    )
    step = WIDTH / len(rates)
    line, area = _runs(rates, highest or 1.0, step)
    return LinkChart(area, line, _steps(lanes, most, step), highest, most, _marks(history, most))


def _runs(rates: Sequence[float | None], highest: float, step: float) -> tuple[str, str]:
    """A line over each run of stretches in which the link ran, and the area below it."""
    line: list[str] = []
    area: list[str] = []
    run: list[str] = []
    for number, rate in enumerate([*rates, None]):
        if rate is not None:
            run.append(f"{_short((number + 0.5) * step)} {_short(FOOT - (FOOT - TOP) * rate / highest)}")
        elif run:
            first, last = run[0].split()[0], run[-1].split()[0]
            alone = f"h{_short(step / 2)}" if len(run) == 1 else ""  # a stretch without neighbours is seen too
            line.append(f"M{'L'.join(run)}{alone}")
            area.append(f"M{first} {FOOT}L{'L'.join(run)}L{last} {FOOT}Z")
            run = []
    return "".join(line), "".join(area)


def _steps(lanes: Sequence[int | None], most: int, step: float) -> str:
    path: list[str] = []
    is_down = True
    for number, count in enumerate(lanes):
        if count is None:
            is_down = True
            continue
        y = _short(LANES_FOOT - (LANES_FOOT - LANES_TOP) * count / most)
        path.append(f"M{_short(number * step)} {y}" if is_down else f"V{y}")
        path.append(f"H{_short((number + 1) * step)}")
        is_down = False
    return "".join(path)


def _marks(history: History, most: int) -> tuple[Mark, ...]:
    span = history.minutes * 60
    marks = []
    for number, decision in enumerate(history.decisions, 1):
        ago = (history.at - decision.at).total_seconds()
        x = round(WIDTH * (1 - ago / span), 1)
        y = round(LANES_FOOT - (LANES_FOOT - LANES_TOP) * decision.lanes / most, 1)
        marks.append(Mark(x, y, number, decision))
    return tuple(marks)


def _short(value: float) -> str:
    return f"{round(value, 1):g}"


@dataclass(frozen=True, slots=True)
class SmallLane:
    """One lane as a small picture: bars of its minutes, and marks where it collapsed."""

    lane: LaneLine
    bars: str
    collapses: tuple[float, ...]


def small_lanes(chart: LaneChart) -> tuple[SmallLane, ...]:
    """A small picture for each lane, all of one scale."""
    highest, step = chart.highest or 1.0, SMALL_WIDTH / chart.minutes
    found = []
    for lane in chart.lanes:
        bars = [
            f"M{_short(place * step)} {SMALL_HEIGHT}V{_short(SMALL_HEIGHT - (SMALL_HEIGHT - 4) * rate / highest)}"
            f"h{_short(step)}V{SMALL_HEIGHT}Z"
            for place, rate in enumerate(lane.rates)
            if rate
        ]
        found.append(SmallLane(lane, "".join(bars), tuple(round((place + 0.5) * step, 1) for place in lane.collapsed)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One level of a trial: its interval and its mean on a common scale."""

    result: LevelResult
    y: int
    low: float
    high: float
    mean: float


@dataclass(frozen=True, slots=True)
class IntervalChart:
    """The levels of a trial below one another, on a scale from zero."""

    rows: tuple[IntervalRow, ...]

    @property
    def height(self) -> int:
        return ROW * len(self.rows)


def interval_chart(results: Sequence[LevelResult]) -> IntervalChart | None:
    """The chart of a trial; None before a block is done."""
    counted = [result for result in results if result.blocks]
    if not counted:
        return None
    highest = max((result.high for result in results), default=0.0) or 1.0

    def x(value: float) -> float:
        return round(INTERVAL_LEFT + (INTERVAL_RIGHT - INTERVAL_LEFT) * min(1.0, value / highest), 1)

    rows = (
        IntervalRow(result, ROW * number + ROW // 2, x(result.low), x(result.high), x(result.mean))
        for number, result in enumerate(counted)
    )
    return IntervalChart(tuple(rows))


@dataclass(frozen=True, slots=True)
class WeekBlock:
    """A stretch of one day with one limit: `kind` is "none" (nothing is transferred), "low" or "free"."""

    x: float
    width: float
    y: int
    kind: str
    bytes_per_second: int | None
    begins: str
    ends: str


def week_blocks(limit: WeeklyLimit) -> tuple[tuple[WeekBlock, ...], ...]:
    """For each day from Monday its stretches."""
    edges = sorted({0, DAY_MINUTES, *(minute for window in limit.windows for minute in (window.begins, window.ends))})
    days = []
    for day in range(7):
        blocks: list[WeekBlock] = []
        for begin, end in pairwise(edges):
            rates = [window.bytes_per_second for window in limit.windows if window.holds(day, begin)]
            if limit.bytes_per_second is not None:
                rates.append(limit.bytes_per_second)
            rate = min(rates, default=None)
            kind = "none" if rate == 0 else "free" if rate is None else "low"
            blocks.append(
                WeekBlock(
                    x=round(WEEK_LEFT + WEEK_WIDTH * begin / DAY_MINUTES, 1),
                    width=round(WEEK_WIDTH * (end - begin) / DAY_MINUTES, 1),
                    y=day * WEEK_ROW,
                    kind=kind,
                    bytes_per_second=rate,
                    begins=_clock(begin),
                    ends=_clock(end),
                )
            )
        days.append(tuple(blocks))
    return tuple(days)


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
