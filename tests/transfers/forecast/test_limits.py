"""Bandwidth limits in forecasts: no future brings more than they allow, hour by hour."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transfers.forecast.futures import Paces, draw_futures
from transfers.forecast.goodput import Goodput, Reading, measured_goodput
from transfers.forecast.limits import WEEK_SECONDS, Limits
from transfers.forecast.simulate import Job, simulate

HOUR = 3600.0
RATES = st.one_of(st.just(math.inf), st.just(0.0), st.floats(1e3, 1e6))
LIMITS = st.lists(st.tuples(st.integers(1, 167), RATES), max_size=6, unique_by=lambda row: row[0]).flatmap(
    lambda rows: st.builds(
        lambda first: Limits(
            (0.0, *(hour * HOUR for hour, _ in sorted(rows))), (first, *(rate for _, rate in sorted(rows)))
        ),
        RATES,
    )
)


def steady(bytes_per_second: int) -> Goodput:
    found = measured_goodput(Reading(at, 60.0, bytes_per_second * 60, 4) for at in range(360))
    assert found is not None
    return found


def done_after(limits: Limits | None, size: float) -> float:
    paces = Paces(steady(100_000), proof_rates=(1e15,), limits=limits)
    return simulate([Job("a", size)], paces).jobs["a"].expected_seconds


def test_a_link_that_rests_at_night_is_later_by_its_nights() -> None:
    nights = [(day * 24 + hour, rate) for day in range(7) for hour, rate in ((10, 0.0), (18, math.inf))]
    quiet = Limits((0.0, *(hour * HOUR for hour, _ in nights)), (math.inf, *(rate for _, rate in nights)))
    assert done_after(quiet, 8 * HOUR * 1e5) == pytest.approx(8 * HOUR, rel=0.02)
    assert done_after(quiet, 20 * HOUR * 1e5) == pytest.approx(28 * HOUR, rel=0.02)
    assert done_after(quiet, 10 * 7 * 16 * HOUR * 1e5) == pytest.approx(10 * WEEK_SECONDS, rel=0.02)


def test_a_limit_for_all_hours_is_the_fastest_that_a_link_gets() -> None:
    assert done_after(Limits((0.0,), (20_000.0,)), 1e9) == pytest.approx(50_000, rel=1e-6)
    assert done_after(Limits((0.0,), (1e9,)), 1e9) == pytest.approx(done_after(None, 1e9), rel=1e-9)


def test_where_nothing_is_ever_allowed_a_forecast_still_ends() -> None:
    assert done_after(Limits((0.0,), (0.0,)), 1e9) > WEEK_SECONDS * 52


@given(LIMITS, st.integers(10_000, 500_000))
@settings(deadline=None, max_examples=40)
def test_no_future_brings_more_than_is_allowed_or_than_it_would_without_limits(limits: Limits, rate: int) -> None:
    free = draw_futures(Paces(steady(rate)), 20, 5)
    bound = draw_futures(Paces(steady(rate), limits=limits), 20, 5)
    hours = np.tile(np.arange(0.0, 3 * WEEK_SECONDS, HOUR), (20, 1))
    brought, could = bound.bytes_by(hours), free.bytes_by(hours)
    assert (brought <= could * (1 + 1e-9)).all()
    allowed = limits.allowed(hours[0, :-1])
    assert (np.diff(brought, axis=1) <= allowed * HOUR * (1 + 1e-9) + 1e-3).all()
    assert (np.diff(brought, axis=1) >= -1e-3).all()
