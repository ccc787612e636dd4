"""Times by simulation: many futures of one link, drawn with a fixed seed, and what each pack's time is in them.

A future is a level that the link may have, rates drawn window by window from what was measured, and paces of packing
and proving. It is drawn without a look at the packs, so that two orders are compared in the same futures, and a pack
that is added behind another one changes nothing for it. In a future, the link gives all it has to the first pack in
the order that lies packed on the host; a pack that is still being made lets those behind it go ahead.
"""

from __future__ import annotations

import math
import operator
import random
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapreplace
from itertools import accumulate
from statistics import NormalDist

from transfers.forecast.goodput import MINUTE, WINDOW_MINUTES, Goodput

RUNS = 1000
SEED = 5
EXPECTED, LIKELY_BY = 0.5, 0.9
PACKING_AT_ONCE = 2
_SINGLE_WINDOWS = 12  # the first hour is drawn window by window, later steps grow: their noise evens out
_STEP_GROWTH = 1.3
_STEPS = 48  # reaches beyond a hundred years
_SLOWEST_SHARE = 0.05  # of the mean, for a step of several windows: it makes every future end
_PACE_SPREAD = 0.25


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
class Paces:
    """What futures are drawn from: `shares` of their size that packs shrank to, and bytes a second for the rest."""

    goodput: Goodput
    shares: tuple[float, ...] = (1.0,)
    packing_rates: tuple[float, ...] = (20e6,)
    proof_rates: tuple[float, ...] = (100e6,)


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


@dataclass(frozen=True, slots=True)
class _Future:
    """`ends` are the seconds at which each step ends, `sums` the bytes that can have come by then."""

    ends: Sequence[float]
    sums: Sequence[float]
    last_rate: float
    share: float
    packing_rate: float
    proof_rate: float

    def bytes_by(self, seconds: Sequence[float]) -> list[float]:
        """Bytes that the link can bring by then, for several times in rising order."""
        return _along(self.ends, self.sums, self.last_rate, seconds)

    def seconds_of(self, counts: Sequence[float]) -> list[float]:
        """When so many bytes have come, for several counts in rising order."""
        return _along(self.sums, self.ends, 1 / self.last_rate, counts)


def _along(given: Sequence[float], wanted: Sequence[float], last_slope: float, values: Sequence[float]) -> list[float]:
    """Read values in rising order off a line that rises from knot to knot, and goes on with `last_slope`."""
    found: list[float] = []
    low, count, at = 0, len(values), 1
    while low < count:
        at = max(bisect_left(given, values[low]), at)
        if at >= len(given):
            start, base = given[-1], wanted[-1]
            return found + [base + (one - start) * last_slope for one in values[low:]]
        high = max(bisect_right(values, given[at], low), low + 1)
        start, base = given[at - 1], wanted[at - 1]
        slope = (wanted[at] - base) / (given[at] - start) if given[at] > start else 0.0
        found += [base + (one - start) * slope for one in values[low:high]]
        low, at = high, at + 1
    return found


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
    plan = _Plan.of(jobs)
    rows = [plan.times(one) for one in _futures(paces, runs, seed)]
    columns = dict(zip(plan.keys, zip(*rows, strict=True), strict=True))
    found = {name: _met(groups, columns) for name, groups in (needs or {}).items()}
    return Outlook(
        jobs={key: _times(column) for key, column in columns.items()},
        needs={name: _times(column) for name, column in found.items() if column is not None},
        everything=_times([max(row) for row in rows]),
    )


def _met(groups: Sequence[Sequence[str]], columns: Mapping[str, Sequence[float]]) -> Sequence[float] | None:
    firsts = []
    for group in groups:
        known = [columns[key] for key in group if key in columns]
        if not known:
            return None
        firsts.append([min(row) for row in zip(*known, strict=True)])
    return [max(row) for row in zip(*firsts, strict=True)] if firsts else None


def _times(column: Sequence[float]) -> Times:
    ordered = sorted(column)
    return Times(_share_of(ordered, EXPECTED), _share_of(ordered, LIKELY_BY))


def _share_of(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of the values do not exceed."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


@lru_cache(maxsize=8)
def _futures(paces: Paces, runs: int, seed: int) -> tuple[_Future, ...]:
    draw = random.Random(seed)  # noqa: S311 - futures, not secrets
    goodput, window = paces.goodput, float(MINUTE * WINDOW_MINUTES)
    mean, variation, fastest = goodput.mean, goodput.variation, goodput.fastest
    normal = NormalDist()
    levels = [math.exp(goodput.spread * normal.inv_cdf((run + 0.5) / runs)) for run in range(runs)]
    draw.shuffle(levels)
    lengths = [1.0] * _SINGLE_WINDOWS + [_STEP_GROWTH**step for step in range(1, _STEPS - _SINGLE_WINDOWS + 1)]
    ends = [0.0, *accumulate(length * window for length in lengths)]
    limits = list(accumulate(goodput.weights))
    noises = [variation / math.sqrt(length) for length in lengths[_SINGLE_WINDOWS:]]
    steps = [length * window for length in lengths]
    low, futures = mean * _SLOWEST_SHARE, []
    for level in levels:
        windows = draw.choices(goodput.rates, cum_weights=limits, k=_SINGLE_WINDOWS)
        rates = [min(rate * level, fastest) for rate in windows]
        rates += [min(max(mean * level * (1 + noise * draw.gauss(0, 1)), low), fastest) for noise in noises]
        sums = [0.0, *accumulate(rate * step for rate, step in zip(rates, steps, strict=True))]
        futures.append(
            _Future(
                ends,
                sums,
                rates[-1],
                draw.choice(paces.shares),
                draw.choice(paces.packing_rates) * math.exp(_PACE_SPREAD * draw.gauss(0, 1)),
                draw.choice(paces.proof_rates) * math.exp(_PACE_SPREAD * draw.gauss(0, 1)),
            )
        )
    return tuple(futures)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Jobs apart by what they need of the link; what concerns the link alone stands in the order of those jobs."""

    keys: tuple[str, ...]
    proof: tuple[float, ...]  # of every job, without what is to be fetched
    fetched: tuple[int, ...]  # places of the jobs that need the link
    known: tuple[float, ...]
    unpacked: tuple[float, ...]
    ready: tuple[float, ...]  # bytes that the host must have read before the job is packed; in rising order
    ready_places: tuple[int, ...]  # where in `ready` each job stands

    @classmethod
    def of(cls, jobs: Sequence[Job]) -> _Plan:
        ready = _ready(jobs)
        fetched = tuple(at for at, job in enumerate(jobs) if job.fetch_bytes + job.unpacked_bytes > 0)
        rising = sorted(range(len(fetched)), key=lambda place: ready[fetched[place]])
        places = {place: at for at, place in enumerate(rising)}
        return cls(
            keys=tuple(job.key for job in jobs),
            proof=tuple(job.proof_bytes for job in jobs),
            fetched=fetched,
            known=tuple(jobs[at].fetch_bytes for at in fetched),
            unpacked=tuple(jobs[at].unpacked_bytes for at in fetched),
            ready=tuple(ready[fetched[place]] for place in rising),
            ready_places=tuple(places[place] for place in range(len(fetched))),
        )

    def times(self, future: _Future) -> Sequence[float]:
        """When each job is done in one future, in the order of the jobs."""
        sizes, slow = self.known, 1 / future.proof_rate
        if any(self.unpacked):
            share = future.share
            sizes = tuple([one + other * share for one, other in zip(self.known, self.unpacked, strict=True)])
        ends = self._arrivals(future, sizes)
        if len(ends) == len(self.proof) and not any(self.proof):
            return [end + size * slow for end, size in zip(ends, sizes, strict=True)]
        found = [count * slow for count in self.proof]
        for at, size, end in zip(self.fetched, sizes, ends, strict=True):
            found[at] += end + size * slow
        return found

    def _arrivals(self, future: _Future, sizes: Sequence[float]) -> list[float]:
        if not self.ready or not self.ready[-1]:
            return future.seconds_of(list(accumulate(sizes)))
        slow = 1 / future.packing_rate
        rising = future.bytes_by([count * slow for count in self.ready])
        served = served_by(tuple([rising[at] for at in self.ready_places]), sizes)
        if all(map(operator.le, served, served[1:])):
            return future.seconds_of(served)
        order = sorted(range(len(served)), key=served.__getitem__)
        seconds = future.seconds_of([served[at] for at in order])
        found = [0.0] * len(served)
        for at, one in zip(order, seconds, strict=True):
            found[at] = one
        return found


def _ready(jobs: Sequence[Job]) -> list[float]:
    """How far the host must have read when each job is packed: the next one begins where a place becomes free."""
    places, found = [0.0] * PACKING_AT_ONCE, []
    for job in jobs:
        found.append(places[0] + job.packing_bytes if job.packing_bytes else 0.0)
        if job.packing_bytes:
            heapreplace(places, found[-1])
    return found


def served_by(released: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Where in the link's bytes each job ends: each byte goes to the first job in order that is released by then.

    `released` are counts of bytes that the link could have brought by the time of a job's release.
    """
    earliest = list(accumulate(reversed(released), min))[::-1]
    latest = list(accumulate(reversed(released), max))[::-1]
    ends: list[float] = []
    firsts: list[float] = []  # stretches that nobody took, which a later job may have been there for
    lasts: list[float] = []
    frontier = 0.0
    for at, (start, left) in enumerate(zip(released, sizes, strict=True)):
        if latest[at] <= frontier and (not lasts or lasts[-1] <= earliest[at]):
            ends += list(accumulate(sizes[at:], initial=frontier))[1:]
            return ends
        end, low = 0.0, bisect_right(lasts, start)
        high, kept = low, []
        while left > 0 and high < len(lasts):
            first, last = firsts[high], lasts[high]
            begin = max(first, start)
            end = min(begin + left, last)
            left = left - (last - begin) if end == last else 0.0
            kept += [pair for pair in ((first, begin), (end, last)) if pair[0] < pair[1]]
            high += 1
        if high > low:
            firsts[low:high], lasts[low:high] = [one for one, _ in kept], [one for _, one in kept]
        if left > 0:
            if start > frontier:
                firsts.append(frontier)
                lasts.append(start)
                frontier = start
            frontier = end = frontier + left
        ends.append(end)
    return ends
