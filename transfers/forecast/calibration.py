"""How forecasts turned out: how often the likely-by time held, and how far off the expected time was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SHARE_MEANT = 0.9  # of likely-by times should hold


@dataclass(frozen=True, slots=True)
class Kept:
    """One forecast beside what happened, in seconds from when it was made."""

    expected_seconds: float
    likely_by_seconds: float
    taken_seconds: float

    @property
    def has_held(self) -> bool:
        """True when it was done by the likely-by time."""
        return self.taken_seconds <= self.likely_by_seconds

    @property
    def ratio(self) -> float:
        """Time taken over time expected: above 1 it took longer."""
        return self.taken_seconds / self.expected_seconds if self.expected_seconds > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """`held` of `count` likely-by times held; in the middle of all, `ratio` of the expected time was taken."""

    count: int
    held: int
    within_expected: int
    ratio: float

    @property
    def share_held(self) -> float:
        return self.held / self.count


def calibrate(kept: Iterable[Kept]) -> Calibration | None:
    """What forecasts were worth; None as long as none has come to its end."""
    rows = list(kept)
    if not rows:
        return None
    ratios = sorted(row.ratio for row in rows)
    return Calibration(
        count=len(rows),
        held=sum(row.has_held for row in rows),
        within_expected=sum(row.taken_seconds <= row.expected_seconds for row in rows),
        ratio=ratios[len(ratios) // 2],
    )
