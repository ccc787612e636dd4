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
    count, width = released.shape
    filled = released.ravel().copy()  # up to where each slot is taken
    borders = np.append(released[:, 1:], np.full((count, 1), np.inf), axis=1).ravel()
    onward = np.arange(count * width, dtype=np.intp)  # itself, or a later slot when it is full
    base = onward[::width].copy()
    end = base + width - 1
    found, lefts = np.empty(sizes.shape[::-1]), np.ascontiguousarray(sizes.T)
    lowest = np.minimum.accumulate(slots[::-1])[::-1].tolist()
    for job, first in enumerate(slots.tolist()):
        begin = base + first
        found[job], onward[begin] = _fill(begin, lefts[job], filled, borders, onward)
        behind = job + 1
        if behind < len(lefts) and (onward[begin] == end).all() and (_free(base + lowest[behind], onward) == end).all():
            found[behind:] = filled[end] + np.cumsum(lefts[behind:], axis=0)  # no free stretch is left to any of them
            break
    return found.T


def _fill(begin: Places, left: Floats, filled: Floats, borders: Floats, onward: Places) -> tuple[Floats, Places]:
    """Fill free slots from `begin` on; returns where each future's last byte ends, and in which slot."""
    slot = _free(begin, onward)
    ends = filled[slot] + left
    over = np.flatnonzero(ends > borders[slot])
    if not over.size:
        filled[slot] = ends
        return ends, slot
    filled[slot], crossed = np.minimum(ends, borders[slot]), []
    rest = ends[over] - borders[slot[over]]
    while over.size:
        crossed.append((over, slot[over]))
        onward[slot[over]] += 1
        slot[over] = here = _free(slot[over] + 1, onward)
        end, border = filled[here] + rest, borders[here]
        ends[over], filled[here] = end, np.minimum(end, border)
        more = end > border
        over, rest = over[more], (end - border)[more]
    for which, full in crossed:
        onward[full] = slot[which]
    return ends, slot


def _free(slot: Places, onward: Places) -> Places:
    """The first slot from there on that is not full; what was walked is halved for the next walk."""
    while True:
        found = onward[slot]
        beyond = onward[found]
        if (beyond == found).all():
            return found
        onward[slot] = slot = beyond
