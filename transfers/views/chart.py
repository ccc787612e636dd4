"""A small chart of goodput, drawn on the server: points for an SVG, and the same in words."""

from __future__ import annotations

from dataclasses import dataclass

from transfers.selectors.goodput import BUCKET_SECONDS, Pace

WIDTH, HEIGHT, TOP, FOOT = 440, 120, 20, 100
_MINUTE = 60 // BUCKET_SECONDS


@dataclass(frozen=True, slots=True)
class Chart:
    """`line` and `area` are SVG paths in a box of WIDTH x HEIGHT; `minutes` is (minutes ago, bytes a second)."""

    line: str
    area: str
    highest_bytes_per_second: float
    average_bytes_per_second: float
    minutes: tuple[tuple[int, float], ...]


def chart_of(pace: Pace) -> Chart | None:
    """The chart of a host's last minutes; None when nothing was measured in them."""
    if not pace.has_chart:
        return None
    buckets, highest = pace.buckets, pace.highest_bytes_per_second
    step = WIDTH / (len(buckets) - 1)
    points = [
        f"{round(at * step, 1):g} {round(FOOT - (FOOT - TOP) * value / highest, 1):g}"
        for at, value in enumerate(buckets)
    ]
    line = "M" + " L".join(points)
    return Chart(
        line=line,
        area=f"{line} L{WIDTH} {FOOT} L0 {FOOT} Z",
        highest_bytes_per_second=highest,
        average_bytes_per_second=sum(buckets) / len(buckets),
        minutes=tuple(
            ((len(buckets) - first) // _MINUTE, sum(buckets[first : first + _MINUTE]) / _MINUTE)
            for first in range(0, len(buckets), _MINUTE)
        ),
    )
