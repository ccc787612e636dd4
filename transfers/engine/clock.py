"""The real clock, for whoever starts a link; tests may pass another."""

from __future__ import annotations

import time


class SystemClock:
    """Monotonic seconds and real sleep."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for about that long."""
        time.sleep(seconds)
