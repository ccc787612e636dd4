"""What the lanes of one link share: the queue, the open builds, counters, and whether the host answers."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inventory.remote.base import PermanentError, Remote, TransientError
from transfers.engine.active import ActiveBuild
from transfers.engine.landing import LandingError
from transfers.engine.pace import Pacer
from transfers.engine.queue import RangeQueue
from transfers.engine.source import PieceFault
from transfers.engine.types import Clock


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Times of a link, in seconds. The defaults are those of the product; tests shorten them."""

    no_data_seconds: float = 600.0  # nothing at all for so long: this attempt is given up
    silent_seconds: float = 8.0  # a lane without a byte while others get some: it redials
    quiet_seconds: float = 5.0  # no lane gets a byte: two of them try a new connection
    dial_seconds: float = 60.0  # to connect and log in
    scout_seconds: float = 8.0  # the same, while it is not known whether the host answers at all
    redial_pause_seconds: float = 5.0  # at most this long between two tries
    cut_seconds: float = 2.0  # a paused build is streamed on for no longer than this


@dataclass(slots=True)
class Counters:
    """Totals of a link. Written under `LinkState.lock`."""

    wire_bytes: int = 0  # data bytes received, doubled and lost ones included
    new_bytes: int = 0  # of these, bytes that were put on the disk as the first complete copy of their cell
    reconnects: int = 0
    refusals: int = 0


class LinkState:
    """Shared by lanes and runner. Methods may be called from any thread."""

    def __init__(self, remote: Remote, clock: Clock, limits: LinkLimits) -> None:
        self.remote, self.clock, self.limits = remote, clock, limits
        self.queue = RangeQueue()
        self.pacer = Pacer(clock)
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.woken = threading.Event()  # the runner has something to look at
        self.counters = Counters()
        self.builds: dict[str, ActiveBuild] = {}
        self.last_data_at = clock.monotonic()
        self.answered_at = clock.monotonic()
        self.answered_once = False
        self.end_seconds = float("inf")  # about when everything known will be here, at the present rate
        self.lane_count = 1
        self.median_rate = 0.0
        self.last_slow_redial_at = clock.monotonic()
        self._scouts: set[int] = set()
        self.down: TransientError | None = None
        self.fatal: PermanentError | None = None
        self._faults: list[tuple[str, PieceFault | LandingError]] = []
        self._suspended: set[str] = set()

    def note_data(self, received: int) -> None:
        """Bytes of ranges came in on some lane."""
        with self.lock:
            self.counters.wire_bytes += received
            self.last_data_at = self.clock.monotonic()

    def note_new(self, written: int) -> None:
        """Distinct bytes were put on the disk."""
        with self.lock:
            self.counters.new_bytes += written

    def note_answer(self, *, is_reconnect: bool) -> None:
        """A lane was let in."""
        with self.lock:
            self.counters.reconnects += is_reconnect
            self.answered_at = self.clock.monotonic()
            self.answered_once = True
            self.down = None

    def note_refusal(self) -> None:
        """The server turned a connection away: it is there, and wants fewer."""
        with self.lock:
            self.counters.refusals += 1
            self.answered_at = self.clock.monotonic()
            self.down = None

    def note_down(self, error: TransientError) -> None:
        """A lane could not reach the host."""
        with self.lock:
            if self.clock.monotonic() - self.last_data_at > self.limits.quiet_seconds or not self.answered_once:
                self.down = self.down or error

    def note_fatal(self, error: PermanentError) -> None:
        """Trying again is useless: the link ends with this error."""
        with self.lock:
            self.fatal = self.fatal or error
        self.woken.set()

    def note_fault(self, key: str, fault: PieceFault | LandingError) -> None:
        """A build cannot go on; its ranges are held back until the runner decides."""
        with self.lock:
            if key not in self._suspended:
                self._suspended.add(key)
                self._faults.append((key, fault))
        self.woken.set()

    def take_faults(self) -> list[tuple[str, PieceFault | LandingError]]:
        """Faults since the last call."""
        with self.lock:
            faults, self._faults = self._faults, []
        return faults

    def resume(self, key: str) -> None:
        """A suspended build goes on."""
        with self.lock:
            self._suspended.discard(key)

    def is_suspended(self, key: str) -> bool:
        """True while a build waits for the runner's decision on a fault."""
        return key in self._suspended

    def let_go(self, keys: Iterable[str]) -> None:
        """Close builds that nobody asks for any more, once no lane holds a range of them: another act may need them."""
        for key in keys:
            build = self.builds[key]
            if not build.proving and self.queue.let_go(key):
                self.resume(key)
                build.close()
                del self.builds[key]

    def enter_scout(self, lane: int) -> bool:
        """While nothing comes from the host, only two lanes at a time try new connections. True: this one may."""
        with self.lock:
            if lane in self._scouts or len(self._scouts) < 2:
                self._scouts.add(lane)
                return True
            return False

    def leave_scout(self, lane: int) -> None:
        """The try is over."""
        with self.lock:
            self._scouts.discard(lane)

    def may_redial_slow(self) -> bool:
        """One slow lane redials at a time, at most every ten seconds."""
        with self.lock:
            now = self.clock.monotonic()
            if now - self.last_slow_redial_at < 10.0:
                return False
            self.last_slow_redial_at = now
            return True

    def received_bytes(self) -> Mapping[str, int]:
        """Bytes here for each open build, proven or not."""
        return {key: build.cells.here_bytes for key, build in self.builds.items()}
