"""Times by simulation: what each pack's time is in many futures of one link (see `transfers.forecast.futures`).

In a future, the link gives all it has to the first pack in the order that lies packed on the host; a pack that is
still being made lets those behind it go ahead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace

import numpy as np
from numpy.typing import NDArray

from transfers.forecast.futures import Futures, Paces, draw_futures
from transfers.forecast.serving import served_by

RUNS = 1000
SEED = 5
EXPECTED, LIKELY_BY = 0.5, 0.9
PACKING_AT_ONCE = 2

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Job:
    """What is left to do for one pack, in bytes.

    `fetch_bytes` are known to be left; `unpacked_bytes` are left as well and shrink by packing to a share that is
    drawn; `packing_bytes` are to be read on the host before anything of the pack can be fetched; `proof_bytes` are here
    and yet to be read back and opened (what is fetched is added to them).
    """

    key: str
    fetch_bytes: float
    unpacked_bytes: float = 0.0
    packing_bytes: float = 0.0
    proof_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from now: in half of the futures it is done by `expected_seconds`, in nine of ten by the other."""

    expected_seconds: float
    likely_by_seconds: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """Times of every job, of every need that the jobs can meet, and of all jobs together (None when there is none)."""

    jobs: Mapping[str, Times]
    needs: Mapping[str, Times]
    everything: Times | None


def simulate(
    jobs: Sequence[Job],
    paces: Paces,
    *,
    needs: Mapping[str, Sequence[Sequence[str]]] | None = None,
    runs: int = RUNS,
    seed: int = SEED,
) -> Outlook:
    """Times of jobs in execution order. The same arguments give the same answer.

    `needs` are groups of keys: met when of each group any one job is done. A need with a group of which no job is given
    has no time.
    """
    if not jobs:
        return Outlook({}, {}, None)
    seconds = _seconds(jobs, draw_futures(paces, runs, seed))
    columns = {job.key: at for at, job in enumerate(jobs)}
    met = {name: _met(groups, columns, seconds) for name, groups in (needs or {}).items()}
    given = {name: column for name, column in met.items() if column is not None}
    others = [*given.values(), seconds.max(axis=1)]
    *times, everything = _times(np.hstack([seconds, np.stack(others, axis=1)]))
    return Outlook(
        jobs={job.key: one for job, one in zip(jobs, times, strict=False)},
        needs=dict(zip(given, times[len(jobs) :], strict=True)),
        everything=everything,
    )


def _met(groups: Sequence[Sequence[str]], columns: Mapping[str, int], seconds: Floats) -> Floats | None:
    """When the first of each group and so the last of all groups is done, for each future."""
    known = [[columns[key] for key in group if key in columns] for group in groups]
    if not known or not all(known):
        return None
    firsts = [seconds[:, group].min(axis=1) for group in known]
    found: Floats = np.max(firsts, axis=0)
    return found


def _times(seconds: Floats) -> list[Times]:
    """The values of each column that so many of its values do not exceed."""
    count = len(seconds)
    places = [max(math.ceil(share * count) - 1, 0) for share in (EXPECTED, LIKELY_BY)]
    ordered = np.partition(seconds.T, places, axis=1)
    return [Times(expected, likely) for expected, likely in ordered[:, places].tolist()]


def _seconds(jobs: Sequence[Job], futures: Futures) -> Floats:
    """When each job is done: a row for each future, a column for each job."""
    table = np.array([[job.fetch_bytes, job.unpacked_bytes, job.proof_bytes] for job in jobs])
    fetched = np.flatnonzero(table[:, 0] + table[:, 1] > 0)
    sizes = table[fetched, 0] + np.outer(futures.shares, table[fetched, 1])
    found = np.outer(1 / futures.proof_rates, table[:, 2])
    if fetched.size:
        ready = np.array(_ready(jobs))[fetched]
        found[:, fetched] += _arrivals(futures, sizes, ready) + sizes / futures.proof_rates[:, None]
    return found


def _arrivals(futures: Futures, sizes: Floats, ready: Floats) -> Floats:
    if not ready.any():
        return futures.seconds_of(np.cumsum(sizes, axis=1))
    releases, slots = np.unique(ready, return_inverse=True)
    released = futures.bytes_by(np.outer(1 / futures.packing_rates, releases))
    return futures.seconds_of(served_by(released, sizes, slots))


def _ready(jobs: Sequence[Job]) -> list[float]:
    """How far the host must have read when each job is packed: the next one begins where a place becomes free."""
    places, found = [0.0] * PACKING_AT_ONCE, []
    for job in jobs:
        found.append(places[0] + job.packing_bytes if job.packing_bytes else 0.0)
        if job.packing_bytes:
            heapreplace(places, found[-1])
    return found
