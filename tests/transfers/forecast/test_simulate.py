"""Forecasts: what must hold in every case, and in the futures that are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transfers.forecast.futures import Paces
from transfers.forecast.goodput import Goodput, Reading, measured_goodput, stated_goodput
from transfers.forecast.serving import served_by
from transfers.forecast.simulate import Job, Times, simulate

RUNS = 40
SIZES = st.floats(0, 1e9)
JOBS = st.lists(st.tuples(SIZES, SIZES, SIZES, SIZES), min_size=1, max_size=8).map(
    lambda rows: [Job(str(at), *row) for at, row in enumerate(rows)]
)
MINUTES = st.lists(st.integers(0, 50_000_000), min_size=2, max_size=60).filter(any)


def goodput(counts: Sequence[int]) -> Goodput:
    found = measured_goodput(Reading(at, 60.0, count, 4) for at, count in enumerate(counts))
    assert found is not None
    return found


def paces(counts: Sequence[int]) -> Paces:
    return Paces(goodput(counts), shares=(0.3, 0.7), packing_rates=(5e6,), proof_rates=(50e6, 80e6))


@given(JOBS, MINUTES)
@settings(deadline=None)
def test_no_forecast_ends_before_the_bytes_left_at_the_fastest_rate_seen(jobs: list[Job], counts: list[int]) -> None:
    fastest = max(max(one.rates) for one in [goodput(counts)])
    outlook = simulate(jobs, paces(counts), runs=RUNS)
    assert outlook.everything is not None
    least = sum(job.fetch_bytes + 0.3 * job.unpacked_bytes for job in jobs) / fastest
    assert outlook.everything.expected_seconds >= least * (1 - 1e-9)
    for job in jobs:
        assert outlook.jobs[job.key].expected_seconds >= job.fetch_bytes / fastest * (1 - 1e-9)
        assert outlook.jobs[job.key].likely_by_seconds >= outlook.jobs[job.key].expected_seconds


@given(JOBS, JOBS, MINUTES)
@settings(deadline=None)
def test_packs_behind_the_last_need_leave_its_time_as_it_was(
    jobs: list[Job], more: list[Job], counts: list[int]
) -> None:
    needs = {"work": [[job.key] for job in jobs]}
    behind = [Job(f"behind {job.key}", job.fetch_bytes, job.unpacked_bytes, job.packing_bytes) for job in more]
    alone = simulate(jobs, paces(counts), needs=needs, runs=RUNS)
    followed = simulate([*jobs, *behind], paces(counts), needs=needs, runs=RUNS)
    assert_alike(followed.needs["work"], alone.needs["work"])
    for key, times in alone.jobs.items():
        assert_alike(followed.jobs[key], times)


def assert_alike(one: Times, other: Times) -> None:
    """The same times but for the last bits of a float."""
    assert one.expected_seconds == pytest.approx(other.expected_seconds, rel=1e-9)
    assert one.likely_by_seconds == pytest.approx(other.likely_by_seconds, rel=1e-9)


@given(JOBS, MINUTES)
@settings(deadline=None)
def test_the_same_question_gets_the_same_answer(jobs: list[Job], counts: list[int]) -> None:
    assert simulate(jobs, paces(counts), runs=RUNS) == simulate(jobs, paces(counts), runs=RUNS)


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.lists(st.integers(1, 60), min_size=2, max_size=2)), min_size=1, max_size=12
    ),
    st.lists(st.lists(st.integers(0, 25), min_size=12, max_size=12), min_size=2, max_size=2),
)
@settings(deadline=None)
def test_the_link_gives_each_byte_to_the_first_pack_in_order_that_is_packed(
    rows: list[tuple[int, list[int]]], steps: list[list[int]]
) -> None:
    released = [[0, *accumulate(row)] for row in steps]  # in two futures, the same releases at other times
    slots = [slot for slot, _sizes in rows]
    sizes = [[both[future] for _slot, both in rows] for future in range(2)]
    found = served_by(np.array(released, float), np.array(sizes, float), np.array(slots))
    for future in range(2):
        starts = [released[future][slot] for slot in slots]
        assert found[future].tolist() == byte_by_byte(starts, sizes[future])


def byte_by_byte(released: Sequence[int], sizes: Sequence[int]) -> list[int]:
    left, ends, at = list(sizes), [0] * len(sizes), 0
    while any(left):
        for place, start in enumerate(released):
            if left[place] and start <= at:
                left[place] -= 1
                ends[place] = at + 1
                break
        at += 1
    return ends


def test_at_a_steady_rate_the_expected_time_is_bytes_over_rate() -> None:
    outlook = simulate([Job("a", 6e6), Job("b", 12e6)], Paces(goodput([6_000_000] * 30), proof_rates=(1e15,)))
    assert outlook.jobs["a"].expected_seconds == pytest.approx(60, rel=0.02)
    assert outlook.jobs["b"].expected_seconds == pytest.approx(180, rel=0.02)
    assert 190 < outlook.jobs["b"].likely_by_seconds < 300


def test_a_need_takes_the_first_of_any_and_the_last_of_all() -> None:
    jobs = [Job("a", 1e6), Job("b", 1e6), Job("c", 1e6)]
    needs = {"any": [["c", "a"]], "all": [["a"], ["b"]], "never": [["a"], ["paused"]], "nothing": []}
    outlook = simulate(jobs, Paces(stated_goodput(1e5)), needs=needs)
    assert outlook.needs == {"any": outlook.jobs["a"], "all": outlook.jobs["b"]}


def test_a_pack_that_is_being_made_lets_those_behind_it_go_ahead() -> None:
    link = Paces(stated_goodput(1e5), packing_rates=(1e6,), proof_rates=(1e15,))
    slow, packed = Job("slow", 0, 1e6, 1e9), Job("packed", 1e6)
    outlook = simulate([slow, packed], link)
    assert outlook.jobs["packed"] == simulate([packed], link).jobs["packed"]
    assert outlook.jobs["slow"].expected_seconds == pytest.approx(1010, rel=0.1)


def test_what_is_here_already_waits_for_nobody() -> None:
    outlook = simulate([Job("big", 1e9), Job("here", 0, proof_bytes=1e8)], Paces(stated_goodput(1e5)))
    assert outlook.jobs["here"].expected_seconds < 2


def test_no_jobs_have_no_times() -> None:
    outlook = simulate([], Paces(stated_goodput(1e5)), needs={"work": [["a"]]})
    assert (outlook.jobs, outlook.needs, outlook.everything) == ({}, {}, None)
