"""Which lane fetches what: a thread-safe queue of ranges over builds in execution order. Plain data, no clock, no I/O.

A cell is *missing*, *writing* (its first complete copy is being put on the disk) or *done*. Missing cells that no lane
holds are free; a free lane gets the next run of them at once, from the first build in order that has any. When nothing
is free, a free lane doubles the end of the range that would be finished last; the first copy to arrive wins, later
ones are dropped unwritten. What a lost lane held is free again, except for cells that another lane still holds.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from transfers.engine.geometry import Geometry
from transfers.engine.types import CELL_BYTES, MEBIBYTE

LARGEST_RANGE_BYTES = 4 * MEBIBYTE
COPIES_AT_MOST = 3
SLOWEST_RATE = 16.0 * 1024  # bytes a second assumed of a lane that brings nothing
GAIN_SECONDS = 0.3  # a copy that would come this much earlier, or less, is not worth its bytes
_MISSING, _WRITING, _DONE = 0, 1, 2


@dataclass(eq=False, slots=True)
class Range:
    """Cells of one chunk of one build, promised to one lane."""

    key: str
    chunk: int
    first: int
    count: int
    lane: int
    is_double: bool = False


@dataclass(eq=False, slots=True)
class _Work:
    geometry: Geometry
    states: bytearray
    holders: bytearray  # by cell: how many ranges hold it
    free: list[tuple[int, int]] = field(default_factory=list)  # runs (first, one past last), sorted, disjoint
    left: dict[int, int] = field(default_factory=dict)  # chunk -> cells not done; absent when full

    def put_back(self, first: int, stop: int) -> None:
        at = bisect_left(self.free, (first, stop))
        if at > 0 and self.free[at - 1][1] == first:
            at -= 1
            first = self.free.pop(at)[0]
        if at < len(self.free) and self.free[at][0] == stop:
            stop = self.free.pop(at)[1]
        self.free.insert(at, (first, stop))


class RangeQueue:
    """The ranges of a link. Every method may be called from any thread."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._work: dict[str, _Work] = {}
        self._order: tuple[str, ...] = ()
        self._held: dict[int, list[Range]] = {}
        self._rates: dict[int, float] = {}
        self._filled: list[tuple[str, int]] = []

    def add(self, key: str, geometry: Geometry, missing: Iterable[tuple[int, int]]) -> None:
        """Take up a build of which the given runs (first cell, count; in order) are not here yet."""
        work = _Work(geometry, bytearray([_DONE]) * geometry.cell_count, bytearray(geometry.cell_count))
        for first, count in missing:
            stop = first + count
            work.states[first:stop] = bytes(count)
            work.free.append((first, stop))
            for chunk in range(geometry.cell_chunk(first), geometry.cell_chunk(stop - 1) + 1):
                cells = geometry.chunk_cells(chunk)
                overlap = min(stop, cells.stop) - max(first, cells.start)
                work.left[chunk] = work.left.get(chunk, 0) + overlap
        with self.changed:
            self._work[key] = work
            self.changed.notify_all()

    def reopen(self, key: str, runs: Iterable[tuple[int, int]]) -> None:
        """Cells that were done are missing again (proven wrong); they are given out anew."""
        with self.changed:
            if key in self._work:
                self._open(self._work[key], runs)
                self.changed.notify_all()

    def _open(self, work: _Work, runs: Iterable[tuple[int, int]]) -> None:
        for first, count in runs:
            for cell in range(first, first + count):
                if work.states[cell] != _DONE:
                    continue
                work.states[cell] = _MISSING
                chunk = work.geometry.cell_chunk(cell)
                work.left[chunk] = work.left.get(chunk, 0) + 1
                if not work.holders[cell]:
                    work.put_back(cell, cell + 1)

    def drop(self, key: str) -> None:
        """Forget a build. Ranges that lanes still hold of it are refused when they arrive."""
        with self.changed:
            self._work.pop(key, None)
            for ranges in self._held.values():
                ranges[:] = [held for held in ranges if held.key != key]

    def let_go(self, key: str) -> bool:
        """Forget a build that is out of order, unless a lane still holds a range of it; True when it is forgotten."""
        with self.changed:
            if key in self._order or any(held.key == key for ranges in self._held.values() for held in ranges):
                return False
            self._work.pop(key, None)
            return True

    def set_order(self, keys: Sequence[str]) -> None:
        """Builds to give ranges of, first one first. What is not named gets no new range."""
        with self.changed:
            self._order = tuple(keys)
            self.changed.notify_all()

    def note_rate(self, lane: int, bytes_per_second: float) -> None:
        """What a lane achieves, for judging who will be last."""
        self._rates[lane] = bytes_per_second

    def forget_rate(self, lane: int) -> None:
        """A lane begins anew: until it has a figure, it is taken to be as fast as who asks."""
        self._rates.pop(lane, None)

    def free_bytes(self) -> int:
        """About how many bytes of the builds in order nobody holds yet (cells counted whole)."""
        with self.changed:
            return sum(
                (stop - first) * CELL_BYTES
                for key in self._order
                if key in self._work
                for first, stop in self._work[key].free
            )

    def has_work(self) -> bool:
        """True when a build in order has cells that are not done."""
        with self.changed:
            return any(key in self._work and self._work[key].left for key in self._order)

    def take(self, lane: int, wanted_bytes: int) -> Range | None:
        """The next free range for a lane: at most `wanted_bytes` (a cell to 4 MiB), inside one chunk; None if none."""
        wanted = max(1, min(wanted_bytes, LARGEST_RANGE_BYTES) // CELL_BYTES)
        with self.changed:
            for key in self._order:
                work = self._work.get(key)
                if work is None or not work.free:
                    continue
                first, stop = work.free[0]
                chunk = work.geometry.cell_chunk(first)
                count = min(wanted, stop - first, work.geometry.chunk_cells(chunk).stop - first)
                work.free[:1] = [(first + count, stop)] if first + count < stop else []
                return self._hold(work, Range(key, chunk, first, count, lane))
        return None

    def take_double(self, lane: int, latency_seconds: float) -> Range | None:
        """For a lane without work when nothing is free: the end of the range that would be finished last.

        None when the lane has no figure yet, or could not bring it clearly sooner than its holder.
        """
        rate = self._rates.get(lane, 0.0)
        if not rate:
            return None
        with self.changed:
            best: tuple[float, Range, list[int]] | None = None
            for holder, ranges in self._held.items():
                if holder == lane:
                    continue
                waiting = 0
                for held in ranges:
                    open_cells = self._open_cells(held)
                    waiting += len(open_cells)
                    seconds = waiting * CELL_BYTES / max(SLOWEST_RATE, self._rates.get(holder, rate))
                    work = self._work.get(held.key)
                    if work is None or held.key not in self._order or (best is not None and seconds <= best[0]):
                        continue
                    cells = [cell for cell in open_cells if self._may_copy(work, cell, lane, held.key)]
                    if cells:
                        best = (seconds, held, cells)
            if best is None:
                return None
            seconds, held, cells = best
            gained = (seconds - latency_seconds - GAIN_SECONDS) * 0.8
            count = min(len(cells) - len(cells) // 2, int(gained * rate // CELL_BYTES))
            if count < 1:
                return None
            tail = cells[-count:]
            while tail[-1] - tail[0] != len(tail) - 1:  # keep one unbroken run at the end
                tail.pop(0)
            return self._hold(
                self._work[held.key], Range(held.key, held.chunk, tail[0], len(tail), lane, is_double=True)
            )

    def _may_copy(self, work: _Work, cell: int, lane: int, key: str) -> bool:
        if work.holders[cell] >= COPIES_AT_MOST:
            return False
        return not any(
            mine.key == key and mine.first <= cell < mine.first + mine.count for mine in self._held.get(lane, ())
        )

    def _open_cells(self, held: Range) -> list[int]:
        work = self._work.get(held.key)
        if work is None:
            return []
        return [cell for cell in range(held.first, held.first + held.count) if work.states[cell] == _MISSING]

    def _hold(self, work: _Work, taken: Range) -> Range:
        span = slice(taken.first, taken.first + taken.count)
        work.holders[span] = bytes(count + 1 for count in work.holders[span])
        self._held.setdefault(taken.lane, []).append(taken)
        return taken

    def begin_write(self, held: Range, first: int, count: int) -> list[tuple[int, int]]:
        """Claim complete cells for writing. Returns the runs (first, count) to write; others were done before.

        Each run must be followed by `finish_write` or `fail_write`.
        """
        runs: list[tuple[int, int]] = []
        with self.changed:
            work = self._work.get(held.key)
            if work is None or held not in self._held.get(held.lane, ()):
                return []
            if 0 < count == work.states.count(_MISSING, first, first + count):
                work.states[first : first + count] = bytes([_WRITING]) * count
                return [(first, count)]
            for cell in range(first, first + count):
                if work.states[cell] != _MISSING:
                    continue
                work.states[cell] = _WRITING
                if runs and sum(runs[-1]) == cell:
                    runs[-1] = (runs[-1][0], runs[-1][1] + 1)
                else:
                    runs.append((cell, 1))
        return runs

    def finish_write(self, held: Range, first: int, count: int) -> None:
        """The cells are on the disk and marked."""
        with self.changed:
            work = self._work.get(held.key)
            if work is None:
                return
            work.states[first : first + count] = bytes([_DONE]) * count
            work.left[held.chunk] -= count
            if not work.left[held.chunk]:
                del work.left[held.chunk]
                self._filled.append((held.key, held.chunk))
                self.changed.notify_all()

    def fail_write(self, held: Range, first: int, count: int) -> None:
        """The cells could not be written; they are missing again, and free once their holders let go."""
        with self.changed:
            work = self._work.get(held.key)
            if work is None:
                return
            for cell in range(first, first + count):
                work.states[cell] = _MISSING
                if not work.holders[cell]:
                    work.put_back(cell, cell + 1)

    def release(self, held: Range) -> None:
        """A lane is through with a range, whole or not: what is missing of it and held by nobody is free again."""
        with self.changed:
            ranges = self._held.get(held.lane, [])
            if held not in ranges:
                return
            ranges.remove(held)
            work = self._work[held.key]
            first, stop = held.first, held.first + held.count
            work.holders[first:stop] = bytes(count - 1 for count in work.holders[first:stop])
            if work.states.count(_MISSING, first, stop):
                for cell in range(first, stop):
                    if work.states[cell] == _MISSING and not work.holders[cell]:
                        work.put_back(cell, cell + 1)
            self.changed.notify_all()

    def pop_filled(self) -> list[tuple[str, int]]:
        """Chunks (build, number) whose last cell was written since the last call."""
        with self.changed:
            filled, self._filled = self._filled, []
            return filled

    def is_full(self, key: str) -> bool:
        """True when every cell of the build is done."""
        with self.changed:
            work = self._work.get(key)
            return work is not None and not work.left

    def holds_only_done(self, lane: int) -> bool:
        """True when a lane still has ranges to come, and all of their cells are here already."""
        with self.changed:
            ranges = self._held.get(lane, [])
            return bool(ranges) and not any(self._open_cells(held) for held in ranges)

    def holds_only_inactive(self, lane: int) -> bool:
        """True when a lane holds ranges, and the next one it will bring is of a build that is not in order."""
        with self.changed:
            ranges = self._held.get(lane, [])
            return bool(ranges) and ranges[0].key not in self._order

    def unheld_missing(self, key: str) -> int:
        """Cells of a build that are missing (for tests and statements)."""
        with self.changed:
            return sum(self._work[key].left.values())
