"""How many lanes a one-off fetch uses: what was asked for, or a choice that follows what more lanes brought."""

from __future__ import annotations

from transfers.engine.types import Clock

LANES_TO_BEGIN_WITH = 8


class LaneChooser:
    """Called at each direction; returns the lanes to use now."""

    def __init__(self, asked: int | None, clock: Clock) -> None:
        self.lanes = asked or LANES_TO_BEGIN_WITH
        self._clock = clock

    def __call__(self) -> int:
        """The lanes to use now."""
        return self.lanes
