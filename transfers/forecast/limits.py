"""What bandwidth limits allow a link in the time to come, as a forecast sees it: a week that repeats itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WEEK_SECONDS = 7 * 86_400.0
_WEEKS = 4  # drawn change by change; behind that a week's mean stands for all
_SLOWEST = 1.0  # byte a second, where limits allow nothing in a whole week: every future ends


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes a second that are allowed (infinite: no limit, 0: nothing) from each of `begins` on.

    `begins` are seconds from now, rising from 0, within the first week; then the week begins anew.
    """

    begins: tuple[float, ...]
    rates: tuple[float, ...]

    @property
    def horizon(self) -> float:
        """Seconds from now behind which the mean of a week stands for each change of it."""
        return _WEEKS * WEEK_SECONDS

    def borders(self, ends: Floats) -> Floats:
        """The times at which anything may change: those given, and every change of a limit before the horizon."""
        weeks = np.arange(_WEEKS)[:, None] * WEEK_SECONDS + np.array(self.begins)
        return np.unique(np.concatenate([ends, weeks.ravel(), [self.horizon]]))

    def allowed(self, seconds: Floats) -> Floats:
        """The rate that is allowed from each of these times on."""
        places = np.searchsorted(self.begins, np.mod(seconds, WEEK_SECONDS), side="right") - 1
        found: Floats = np.array(self.rates)[places]
        return found

    def mean_of_week(self, rates: Floats) -> Floats:
        """What a link of these rates brings within the limits, on the mean of a week."""
        lengths = np.diff([*self.begins, WEEK_SECONDS])
        found = np.zeros_like(rates)
        for allowed, length in zip(self.rates, lengths, strict=True):
            found += np.minimum(rates, allowed) * (length / WEEK_SECONDS)
        return np.maximum(found, _SLOWEST)
