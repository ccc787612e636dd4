"""The lanes of one link: more or fewer of them while it runs, and cutting those that cost the others."""

from __future__ import annotations

import statistics

from transfers.engine.lane import Lane
from transfers.engine.linkstate import LinkState
from transfers.engine.types import LaneReading


class LanePool:
    """See the module's docstring. `most` is the largest number of lanes that was wanted."""

    def __init__(self, link: LinkState) -> None:
        self._link = link
        self._lanes: dict[int, Lane] = {}
        self._next = 0
        self._useless_since: dict[int, float] = {}
        self.most = 0

    def set_count(self, wanted: int) -> None:
        """Start lanes, or retire some, until `wanted` serve."""
        self._link.lane_count = max(1, wanted)
        serving = [lane for lane in self._lanes.values() if lane.retired_at is None]
        for _ in range(wanted - len(serving)):
            lane = Lane(self._next, self._link)
            self._lanes[self._next] = lane
            self._next += 1
            lane.start()
        for lane in serving[wanted:] if wanted < len(serving) else ():
            lane.retire()
        self.most = max(self.most, wanted)

    def watch(self, now: float) -> None:
        """Forget lanes that ended; cut those that take too long to end, or that stream what nobody needs."""
        for number, lane in list(self._lanes.items()):
            if not lane.is_alive():
                del self._lanes[number]
                self._useless_since.pop(number, None)
            elif lane.retired_at is not None and now - lane.retired_at > self._link.limits.cut_seconds:
                lane.cut()
            else:
                self._cut_useless(number, lane, now)

    def _cut_useless(self, number: int, lane: Lane, now: float) -> None:
        """A lane that streams a paused build, or only bytes that are here already, is cut: it costs the others."""
        queue = self._link.queue
        if not (queue.holds_only_inactive(number) or queue.holds_only_done(number)):
            self._useless_since.pop(number, None)
        elif now - self._useless_since.setdefault(number, now) > self._link.limits.cut_seconds:
            del self._useless_since[number]
            lane.cut()

    def judge(self, missing_bytes: int) -> None:
        """Work out what lanes are measured by: their median rate, and when all that is missing will be here."""
        rates = [lane.meter.bytes_per_second for lane in self._lanes.values() if lane.state == "working"]
        self._link.median_rate = statistics.median(rates) if rates else 0.0
        self._link.end_seconds = missing_bytes / sum(rates) if sum(rates) else float("inf")

    def readings(self) -> tuple[LaneReading, ...]:
        """Each lane at this moment."""
        return tuple(lane.reading() for lane in self._lanes.values())

    def end(self, deadline: float) -> None:
        """Cut every lane and wait until `deadline` at most; one caught in a connection attempt is left to its own."""
        for lane in self._lanes.values():
            lane.cut()
        for lane in self._lanes.values():
            lane.join(max(0.0, deadline - self._link.clock.monotonic()))
