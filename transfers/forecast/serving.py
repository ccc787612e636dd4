"""Which pack each byte of a link goes to: to the first one in order that lies packed on the host by then.

Rows are futures and columns are jobs in execution order. Jobs are released in the same order in every future, though at
other times; so the stretches between two releases are the same slots for all, and each job fills the free slots behind
its release, in all futures at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

_STEPS_ONE_BY_ONE = 3  # a job that goes through more slots leaps over those that are free
_ALMOST = 1 - 1e-9


def served_by(released: Floats, sizes: Floats, slots: Places) -> Floats:
    """Where in the link's bytes each job ends, for each future.

    `released` has a column for each slot, in rising order: bytes that the link could have brought by the release that
    the slot begins with. `sizes` has a column for each job; `slots` names the slot that begins with its release.
    """
    if np.all(slots[1:] >= slots[:-1]):
        return _in_order(released[:, slots], sizes)
    return _through_slots(released, sizes, slots)


def _in_order(released: Floats, sizes: Floats) -> Floats:
    """No job is released before one that goes first, so none ever fills a stretch that another one left."""
    through = np.cumsum(sizes, axis=1)
    begun = released.copy()
    begun[:, 1:] -= through[:, :-1]
    return np.maximum.accumulate(begun, axis=1) + through


def _through_slots(released: Floats, sizes: Floats, slots: Places) -> Floats:
    link, found, lefts = _Slots(released), np.empty(sizes.shape[::-1]), np.ascontiguousarray(sizes.T)
    lowest = np.minimum.accumulate(slots[::-1])[::-1].tolist()
    for job, first in enumerate(slots.tolist()):
        found[job] = link.fill(first, lefts[job])
        behind = job + 1
        if behind < len(lefts) and link.is_full_from(lowest[behind]):
            found[behind:] = link.filled[link.last] + np.cumsum(lefts[behind:], axis=0)
            break
    return found.T


class _Slots:
    """What is free of each slot, in every future: flat arrays, in which the slots of a future are neighbours."""

    def __init__(self, released: Floats) -> None:
        count, width = released.shape
        self.starts = released.ravel()
        self.filled = self.starts.copy()  # up to where each slot is taken
        self.borders = np.append(released[:, 1:], np.full((count, 1), np.inf), axis=1).ravel()
        self.onward = np.arange(count * width, dtype=np.intp)  # itself, or a later slot when it is full
        self.base = self.onward[::width].copy()
        self.last = self.base + width - 1
        self.furthest = self.base.copy()  # no slot behind it was touched
        self._scale = float(released.max()) * 2 + 1
        self._keys = (released / self._scale + np.arange(count)[:, None]).ravel()  # rising through all futures

    def is_full_from(self, first: int) -> bool:
        """True when nothing is free from a slot on but in the last one, which has no end."""
        return bool((self.furthest == self.last).all() and (self._free(self.base + first) == self.last).all())

    def fill(self, first: int, left: Floats) -> Floats:
        """Take so much of what is free from a slot on; returns where the last byte of each future ends."""
        begin = self.base + first
        slot = self._free(begin)
        ends = self.filled[slot] + left
        over = np.flatnonzero(ends > self.borders[slot])
        self.filled[slot] = np.minimum(ends, self.borders[slot])
        if over.size:
            self._go_on(over, slot, ends)
        self.onward[begin] = slot
        np.maximum(self.furthest, slot, out=self.furthest)
        return ends

    def _go_on(self, over: Places, slot: Places, ends: Floats) -> None:
        """Futures in which the slot is full: the rest goes to the next ones. Changes `slot` and `ends`."""
        crossed, steps = [], 0
        while over.size:
            if steps >= _STEPS_ONE_BY_ONE:
                over = self._leap(over, slot, ends)
            full = slot[over]
            crossed.append((over, full))
            rest = ends[over] - self.borders[full]
            self.onward[full] = full + 1
            slot[over] = here = self._free(full + 1)
            ends[over] = end = self.filled[here] + rest
            self.filled[here] = np.minimum(end, self.borders[here])
            over = over[end > self.borders[here]]
            steps += 1
        for which, full in crossed:
            self.onward[full] = slot[which]

    def _leap(self, over: Places, slot: Places, ends: Floats) -> Places:
        """Behind the furthest slot everything is free, so the rest ends where it would on an idle link."""
        is_furthest = slot[over] >= self.furthest[over]
        which = over[is_furthest]
        low, end = slot[which], ends[which]
        to = np.searchsorted(self._keys, which + np.minimum(end / self._scale, _ALMOST), side="right") - 1
        to -= self.starts[to] > end  # what the last bits of a key cannot tell
        to += end > self.borders[to]
        lengths = to - low
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        full = np.repeat(low, lengths) + within
        self.filled[full], self.onward[full] = self.borders[full], np.repeat(to, lengths)
        self.filled[to], slot[which] = end, to
        return over[~is_furthest]

    def _free(self, slot: Places) -> Places:
        """The first slot from there on that is not full; what was walked is halved for the next walk."""
        onward = self.onward
        while True:
            found = onward[slot]
            beyond = onward[found]
            if (beyond == found).all():
                return found
            onward[slot] = slot = beyond
