"""The value curve, drawn on the server: how much is usable over time in several orders, and the same as a table.

Time runs logarithmically: what comes in the first hours would vanish beside days of parameters otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transfers.forecast.simulate import Times
from transfers.selectors.advice import Curve

WIDTH, HEIGHT, TOP, FOOT, LEFT, RIGHT = 640, 240, 16, 208, 44, 632
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_TICKS = (
    *(1.0, 10.0, _MINUTE, 10 * _MINUTE, _HOUR, 3 * _HOUR, 10 * _HOUR, _DAY, 3 * _DAY, 10 * _DAY, 30 * _DAY),
    *(100 * _DAY, 365 * _DAY, 3_650 * _DAY, 36_500 * _DAY),
)
_DECADES = 4  # at most so many are drawn: what comes before stands at the left edge
_DOT_AWAY = 6


@dataclass(frozen=True, slots=True)
class Line:
    """One order: an SVG path, and dots where capabilities become usable (x, y, name)."""

    kind: str
    path: str
    dots: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True, slots=True)
class CurveChart:
    """Lines in a box of WIDTH x HEIGHT, ticks (x, seconds), and tables with one column for each line's kind."""

    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, float], ...]
    kinds: tuple[str, ...]
    shares: tuple[tuple[float, tuple[float, ...]], ...]  # seconds; share in each order
    needs: tuple[tuple[str, tuple[tuple[str, Times | None], ...]], ...]  # name; (kind, times) in each order


def curve_chart(curves: Mapping[str, Curve]) -> CurveChart | None:
    """The chart of several orders, the first one drawn on top; None when nothing has a time."""
    ends = [at for curve in curves.values() for at, _share in curve.steps]
    last = max(ends, default=0.0)
    if last <= 0:
        return None
    first = max(min(at for at in ends if at > 0), last / 10**_DECADES)
    scale = _Scale(first / 2, last * 1.05)
    ticks = tuple(tick for tick in _TICKS if scale.first <= tick <= scale.last)
    names = list(dict.fromkeys(name for curve in curves.values() for name in curve.needs))
    moments = [*ticks, last] if not ticks or ticks[-1] < last else list(ticks)
    return CurveChart(
        lines=tuple(_line(kind, curve, scale) for kind, curve in reversed(list(curves.items()))),
        ticks=tuple((scale.x(tick), tick) for tick in ticks),
        kinds=tuple(curves),
        shares=tuple((at, tuple(curve.share_at(at) for curve in curves.values())) for at in moments),
        needs=tuple((name, tuple((kind, one.needs.get(name)) for kind, one in curves.items())) for name in names),
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    first: float
    last: float

    def x(self, seconds: float) -> float:
        """The place of a time, within the box."""
        share = math.log(max(seconds, self.first) / self.first) / math.log(self.last / self.first)
        return round(LEFT + (RIGHT - LEFT) * min(share, 1.0), 1)


def _y(share: float) -> float:
    return round(FOOT - (FOOT - TOP) * share, 1)


def _line(kind: str, curve: Curve, scale: _Scale) -> Line:
    path = [f"M{LEFT} {_y(curve.share_at(0.0)):g}"]
    for at, share in curve.steps:
        path.append(f"H{scale.x(at):g}V{_y(share):g}")
    path.append(f"H{RIGHT}")
    return Line(kind, "".join(path), tuple(_dots(curve, scale)))


def _dots(curve: Curve, scale: _Scale) -> Sequence[tuple[float, float, str]]:
    """One dot a capability; those at the same place stand above one another."""
    dots: list[tuple[float, float, str]] = []
    for name, times in sorted(curve.needs.items(), key=lambda pair: pair[1].expected_seconds):
        x, y = scale.x(times.expected_seconds), _y(curve.share_at(times.expected_seconds))
        while any(abs(x - other) < _DOT_AWAY and abs(y - height) < _DOT_AWAY for other, height, _name in dots):
            y -= _DOT_AWAY
        dots.append((x, round(y, 1), name))
    return dots
