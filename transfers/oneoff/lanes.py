"""How many lanes a one-off fetch uses: what was asked for, or what steering finds while it runs.

The steering is the product's (`transfers.engine.control`). Here is what a single file knows besides: how much there is
to fetch, since for little many connections take longer than they save, and when more lanes would come too late. Over a
long link it begins with all lanes that it may have: connections are at their fastest before they lose a packet, so that
fewer seem to do, and a single file is often home before that shows.
"""

from __future__ import annotations

from dataclasses import replace

from transfers.engine.control import LONG_ROUND_TRIP_SECONDS, Decision, Steering, begin, step
from transfers.engine.types import Sample

LANES_TO_BEGIN_WITH = 8
LANES_AT_MOST = 48
LANES_AT_LEAST = 4
BYTES_A_LANE = 512 * 1024
LEFT_SECONDS = 4.0  # with less than this to go, more lanes come too late


class LaneChooser:
    """Keeps the number asked for; without one, lets steering find it while the fetch runs."""

    def __init__(self, asked: int | None) -> None:
        self.decisions: list[Decision] = []
        self._is_asked = asked is not None
        self._steering = _begin(asked or LANES_TO_BEGIN_WITH)

    @property
    def lanes(self) -> int:
        """The number of lanes to use now."""
        return self._steering.lanes

    def note_round_trip(self, seconds: float) -> int:
        """How long the host is away, 0 if that is not known; returns the lanes to begin with."""
        if not self._is_asked and seconds >= LONG_ROUND_TRIP_SECONDS:
            self._steering = _begin(LANES_AT_MOST)
        return self.lanes

    def note_size(self, size_bytes: int) -> None:
        """How much there is to fetch."""
        if not self._is_asked:
            self._steering = _begin(min(self.lanes, max(LANES_AT_LEAST, size_bytes // BYTES_A_LANE)))

    def observe(self, sample: Sample, left_bytes: int) -> None:
        """Take a sample of the link into account."""
        if self._is_asked or left_bytes * sample.seconds < LEFT_SECONDS * sample.new_bytes:
            return
        self._steering, decision = step(self._steering, sample, most=LANES_AT_MOST)
        if decision is not None:
            self.decisions.append(decision)


def _begin(lanes: int) -> Steering:
    """What a round trip says was taken into account when lanes began, before there are samples."""
    return replace(begin(lanes), is_placed=True)
