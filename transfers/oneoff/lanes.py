"""How many lanes a one-off fetch uses: what was asked for, or a choice that follows what more lanes brought.

One connection over a long, lossy link carries a small part of it, and twice the connections carry twice that, until
the link is full. So the choice begins with eight lanes (32 when round trips are long: the rate of a connection that
loses packets falls with them, and over the 180 ms and one lost packet in a hundred of a usual bad link 32 bring
20 Mbit/s) and doubles them as long as that brings clearly more bytes; the first step that does not is taken back or
ends the search. Judged are distinct bytes on the disk, once the lanes are connected.
"""

from __future__ import annotations

from dataclasses import dataclass

from transfers.engine.types import Sample

LANES_TO_BEGIN_WITH = 8
LANES_ON_A_LONG_LINK = 32
LONG_ROUND_TRIP_SECONDS = 0.1
LANES_AT_MOST = 48
LANES_AT_LEAST = 4
BYTES_A_LANE = 512 * 1024
SETTLE_SECONDS = 2.0  # for the first round trips, before a number of lanes is judged
DIAL_SECONDS = 15.0  # lanes that do not connect in this time are no reason to wait
JUDGE_SECONDS = 3.0
CLEAR_GAIN = 1.12  # go on from here
NO_LOSS = 0.92  # keep, and stay: connections are at their fastest when new, and the more of them, the less that shows
LEFT_SECONDS = 4.0  # with less than this to go, more lanes come too late


@dataclass(frozen=True, slots=True)
class Trial:
    """What a number of lanes brought."""

    lanes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Choice:
    """How many lanes to use from now on, whether the search goes on, and why, in words."""

    lanes: int
    is_final: bool
    reason: str


def _last(lanes: int, reason: str) -> Choice:
    return Choice(lanes=lanes, is_final=True, reason=reason)


def choose(before: Trial | None, now: Trial, *, refusals: int) -> Choice:
    """Judge the lanes in use by what they and the last number of lanes brought."""
    rate = f"{now.bytes_per_second * 8 / 1e6:,.1f} Mbit/s"
    if refusals:
        return _last(now.lanes, f"The server turns connections away; {now.lanes} lanes ({rate}) are kept.")
    if before is not None:
        gain = now.bytes_per_second / max(1.0, before.bytes_per_second)
        if gain < NO_LOSS:
            reason = f"{now.lanes} lanes bring less than {before.lanes} did ({rate}); back to {before.lanes}."
            return _last(before.lanes, reason)
        if gain < CLEAR_GAIN:
            return _last(now.lanes, f"{now.lanes} lanes bring about what {before.lanes} did ({rate}); kept.")
    if now.lanes >= LANES_AT_MOST:
        return _last(now.lanes, f"{now.lanes} lanes bring {rate}; there are no more to try.")
    more = min(now.lanes * 2, LANES_AT_MOST)
    return Choice(lanes=more, is_final=False, reason=f"{now.lanes} lanes bring {rate}; {more} are tried.")


class LaneChooser:
    """Keeps the number asked for; without one, searches by trials while the fetch runs."""

    def __init__(self, asked: int | None) -> None:
        self.lanes = asked or LANES_TO_BEGIN_WITH
        self.choices: list[Choice] = []
        self._is_searching = asked is None
        self._before: Trial | None = None
        self._seconds = self._bytes = self._dialling = 0.0
        self._refusals = 0

    def note_round_trip(self, seconds: float) -> int:
        """How long the host is away, 0 if that is not known; returns the lanes to begin with."""
        if self._is_searching and seconds >= LONG_ROUND_TRIP_SECONDS:
            self.lanes = LANES_ON_A_LONG_LINK
        return self.lanes

    def note_size(self, size_bytes: int) -> None:
        """How much there is to fetch: for little, many connections take longer than they save."""
        if self._is_searching:
            self.lanes = min(self.lanes, max(LANES_AT_LEAST, size_bytes // BYTES_A_LANE))

    def observe(self, sample: Sample, left_bytes: int) -> None:
        """Take a sample of the link into account."""
        if not self._is_searching:
            return
        self._refusals += sample.refusals
        if any(lane.state == "dialling" for lane in sample.lanes) and self._dialling < DIAL_SECONDS:
            self._dialling += sample.seconds
            return
        self._seconds += sample.seconds
        if self._seconds <= SETTLE_SECONDS:
            self._bytes = 0.0
            return
        self._bytes += sample.new_bytes
        judged = self._seconds - SETTLE_SECONDS
        rate = self._bytes / judged
        if judged < JUDGE_SECONDS or not rate or left_bytes / rate < LEFT_SECONDS:
            return
        trial = Trial(self.lanes, rate)
        choice = choose(self._before, trial, refusals=self._refusals)
        self.choices.append(choice)
        self._before, self._seconds, self._bytes, self._dialling, self._refusals = trial, 0.0, 0.0, 0.0, 0
        self.lanes, self._is_searching = choice.lanes, not choice.is_final
