"""What the demonstration shows in the terminal: a line for each step, and a table of packs while they move."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table

from calculet.pages.templatetags.shown import bytes_short
from transfers.models import Build, BuildState

_LINE_SECONDS = 10.0  # without a terminal: how often the sum is told
_BAR_CELLS = 24


class Progress:
    """Use it as a context manager; `show` may be called as often as one likes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._told: dict[int, str] = {}
        self._next_line_at = 0.0

    def done(self, line: str) -> None:
        """A step is over."""
        self.end_table()
        self._console.print(f"[green]✓[/green] {line}", highlight=False)

    def say(self, line: str) -> None:
        """A line as it is."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, builds: Sequence[Build]) -> None:
        """Where each pack is now."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, refresh_per_second=4, transient=True)
                self._live.start()
            self._live.update(_table(builds))
            return
        for build in builds:
            if self._told.get(build.pk) != build.state:
                self._told[build.pk] = build.state
                self.say(f"  {build.pack.name}: {build.get_state_display()}")
        now = time.monotonic()
        if now >= self._next_line_at:
            self._next_line_at = now + _LINE_SECONDS
            here, whole = sum(map(_here, builds)), sum(one.size_bytes or 0 for one in builds)
            self.say(f"  {bytes_short(here)} of {bytes_short(whole)} are here")

    def end_table(self) -> None:
        """Take the table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _here(build: Build) -> int:
    arrived = (BuildState.RECEIVED, BuildState.VERIFIED, BuildState.OPENED)
    return (build.size_bytes or 0) if build.state in arrived else build.received_bytes


def _table(builds: Sequence[Build]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("pack", "state", "", "here", "of"):
        table.add_column(heading, justify="right" if heading in ("here", "of") else "left")
    for build in builds:
        here, whole = _here(build), build.size_bytes or 0
        filled = int(_BAR_CELLS * here / whole) if whole else 0
        bar = "█" * filled + "░" * (_BAR_CELLS - filled)
        table.add_row(
            build.pack.name, str(build.get_state_display()), bar, bytes_short(here), bytes_short(build.size_bytes)
        )
    return table
