"""Futures of one link, drawn with a fixed seed: what it brings by when, and how fast packs are made and proven.

A future is a level that the link may have, rates drawn window by window from what was measured, and paces of packing
and proving. It is drawn without a look at the packs, so that two orders are compared in the same futures, and a pack
that is added behind another one changes nothing for it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from transfers.forecast.goodput import MINUTE, WINDOW_MINUTES, Goodput
from transfers.forecast.limits import Limits

Floats = NDArray[np.float64]

_SINGLE_WINDOWS = 12  # the first hour is drawn window by window, later steps grow: their noise evens out
_STEP_GROWTH = 1.3
_STEPS = 48  # reaches beyond a hundred years
_SLOWEST_SHARE = 0.05  # of the mean, for a step of several windows: it makes every future end
_PACE_SPREAD = 0.25


@dataclass(frozen=True, slots=True)
class Paces:
    """What futures are drawn from: `shares` of their size that packs shrank to, and bytes a second for the rest."""

    goodput: Goodput
    shares: tuple[float, ...] = (1.0,)
    packing_rates: tuple[float, ...] = (20e6,)
    proof_rates: tuple[float, ...] = (100e6,)
    limits: Limits | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Futures:
    """A row each. `sums` are the bytes that can have come by the `ends` of the steps, in seconds from now."""

    ends: Floats
    sums: Floats
    last_rates: Floats
    shares: Floats
    packing_rates: Floats
    proof_rates: Floats

    def rates_from(self, seconds: Floats) -> Floats:
        """Bytes a second from each of these times on, until the next step: a row for each future."""
        rates = np.diff(self.sums, axis=1) / np.diff(self.ends)
        places = np.searchsorted(self.ends, seconds, side="right") - 1
        found: Floats = rates[:, np.minimum(places, rates.shape[1] - 1)]
        return found

    def bytes_by(self, seconds: Floats) -> Floats:
        """Bytes that the link can bring by then: a row of times for each future."""
        return np.stack([_along(self.ends, *row) for row in zip(self.sums, self.last_rates, seconds, strict=True)])

    def seconds_of(self, counts: Floats) -> Floats:
        """When so many bytes have come: a row of counts for each future."""
        slopes = 1 / self.last_rates
        return np.stack([_along(sums, self.ends, *row) for sums, *row in zip(self.sums, slopes, counts, strict=True)])


def _along(given: Floats, wanted: Floats, last_slope: float, values: Floats) -> Floats:
    """Read values off a line that rises from knot to knot, and goes on with `last_slope`."""
    found: Floats = np.interp(values, given, wanted)
    beyond = values > given[-1]
    if beyond.any():
        found[beyond] = wanted[-1] + (values[beyond] - given[-1]) * last_slope
    return found


@lru_cache(maxsize=8)
def draw_futures(paces: Paces, runs: int, seed: int) -> Futures:
    """So many futures; the same arguments give the same ones. What limits allow is never exceeded in any."""
    free = _draw(replace(paces, limits=None), runs, seed)
    return free if paces.limits is None else _within(free, paces.limits)


def _within(free: Futures, limits: Limits) -> Futures:
    """The same futures of a link that is kept to what limits allow at each time."""
    ends = limits.borders(free.ends)
    steps = np.diff(ends)
    rates = free.rates_from(ends[:-1])
    allowed = np.minimum(rates, limits.allowed(ends[:-1]))
    far = ends[:-1] >= limits.horizon  # from there on by the mean of a week
    allowed[:, far] = limits.mean_of_week(rates[:, far])
    sums = np.zeros((len(rates), len(ends)))
    np.cumsum(allowed * steps, axis=1, out=sums[:, 1:])
    return replace(free, ends=ends, sums=sums, last_rates=allowed[:, -1])


@lru_cache(maxsize=8)
def _draw(paces: Paces, runs: int, seed: int) -> Futures:
    draw = random.Random(seed)  # noqa: S311 - futures, not secrets; and the same ones with every release of numpy
    goodput, window = paces.goodput, float(MINUTE * WINDOW_MINUTES)
    levels = _levels(draw, goodput.spread, runs)
    lengths = [1.0] * _SINGLE_WINDOWS + [_STEP_GROWTH**step for step in range(1, _STEPS - _SINGLE_WINDOWS + 1)]
    rates = levels[:, None] * _shapes(draw, goodput, np.array(lengths[_SINGLE_WINDOWS:]), runs)
    np.minimum(rates, goodput.fastest, out=rates)
    sums = np.zeros((runs, len(lengths) + 1))
    np.cumsum(rates * (np.array(lengths) * window), axis=1, out=sums[:, 1:])
    return Futures(
        ends=np.array([0.0, *accumulate(length * window for length in lengths)]),
        sums=sums,
        last_rates=rates[:, -1],
        shares=np.array(draw.choices(paces.shares, k=runs)),
        packing_rates=_drawn_paces(draw, paces.packing_rates, runs),
        proof_rates=_drawn_paces(draw, paces.proof_rates, runs),
    )


def _levels(draw: random.Random, spread: float, runs: int) -> Floats:
    normal = NormalDist()
    levels = [spread * normal.inv_cdf((run + 0.5) / runs) for run in range(runs)]
    draw.shuffle(levels)
    return np.exp(levels)


def _shapes(draw: random.Random, goodput: Goodput, lengths: Floats, runs: int) -> Floats:
    """Rates at the level that was measured: single windows first, then steps of so many windows."""
    mean, variation = goodput.mean, goodput.variation
    windows = draw.choices(goodput.rates, goodput.weights, k=runs * _SINGLE_WINDOWS)
    noise = np.array([draw.gauss(0, 1) for _ in range(runs * len(lengths))]).reshape(runs, len(lengths))
    steps = mean * np.maximum(1 + variation / np.sqrt(lengths) * noise, _SLOWEST_SHARE)
    return np.hstack([np.array(windows).reshape(runs, _SINGLE_WINDOWS), steps])


def _drawn_paces(draw: random.Random, rates: tuple[float, ...], runs: int) -> Floats:
    chosen = np.array(draw.choices(rates, k=runs))
    return chosen * np.exp(_PACE_SPREAD * np.array([draw.gauss(0, 1) for _ in range(runs)]))
