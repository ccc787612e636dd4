"""A bandwidth limit: a bucket of bytes that all lanes of a link draw from before they ask the host for more.

What is asked for is what comes, so a limit on asking holds the link itself, not only its reader: nothing queues up on
the way, and others on the link feel it. Bytes may be owed for a moment (a range is asked for whole); they are waited
for before the next one. Plain data, a clock passed in; every method may be called from any thread.
"""

from __future__ import annotations

import threading

from transfers.engine.types import CELL_BYTES, Clock

SAVED_SECONDS = 0.25  # an unused allowance is kept for no longer than this
BIT_SECONDS = 0.2  # a range asked for under a limit holds about this much of a second


class Pacer:
    """See the module's docstring. Without a rate everything is allowed at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rate: float | None = None
        self._bytes = 0.0
        self._at = clock.monotonic()

    @property
    def bytes_per_second(self) -> float | None:
        """The limit in force; None when there is none."""
        return self._rate

    def set_rate(self, bytes_per_second: float | None) -> None:
        """A new limit, in force at once; None lifts it. Raises ValueError unless it is above zero."""
        if bytes_per_second is not None and bytes_per_second <= 0:
            raise ValueError("a limit is above zero; what may bring nothing is not started")
        with self._lock:
            if bytes_per_second != self._rate:
                self._fill()
                self._rate = bytes_per_second
                self._bytes = min(self._bytes, 0.0) if bytes_per_second is not None else 0.0

    def is_open(self) -> bool:
        """True when something may be asked for now."""
        with self._lock:
            if self._rate is None:
                return True
            self._fill()
            return self._bytes > 0

    def spend(self, count: int) -> None:
        """So many bytes were asked for."""
        with self._lock:
            if self._rate is not None:
                self._bytes -= count

    def largest_range(self, wanted: int) -> int:
        """How much to ask for in one go, in bytes: small enough that lanes take turns under a limit."""
        rate = self._rate
        return wanted if rate is None else max(CELL_BYTES, min(wanted, int(rate * BIT_SECONDS)))

    def _fill(self) -> None:
        now = self._clock.monotonic()
        if self._rate is not None:
            saved = max(self._rate * SAVED_SECONDS, 1.0)
            self._bytes = min(saved, self._bytes + self._rate * (now - self._at))
        self._at = now


def fair_share(total: float, others: list[float | None]) -> float:
    """This link's part of a limit over several links, in bytes a second.

    `others` holds what each other running link takes when it wants less than its part, and None for one that takes all
    it gets. What one leaves is divided among the rest; every link does this by itself, from the same figures.
    """
    left, count = total, len(others) + 1
    for modest in sorted(wish for wish in others if wish is not None):
        if modest >= left / count:
            break
        left -= modest
        count -= 1
    return left / count
