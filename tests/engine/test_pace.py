"""Bandwidth limits: what is asked for stays within them, whoever asks; changes act at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.books import MIB, Books, RunningLink, noise, one_file, wait_until
from tests.fakes import MemoryRemote
from transfers.engine.pace import Pacer, fair_share
from transfers.engine.types import CELL_BYTES


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[MemoryRemote]:
    (tmp_path / "home").mkdir()
    memory = MemoryRemote(tmp_path / "home")
    yield memory
    memory.close()


@given(
    st.floats(1e3, 1e9),
    st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(1, 4 * MIB)), min_size=1, max_size=60),
)
def test_what_is_spent_never_exceeds_the_limit_by_more_than_one_range_and_a_quarter_second(
    rate: float, tries: list[tuple[float, int]]
) -> None:
    clock = _Clock()
    pacer = Pacer(clock)
    pacer.set_rate(rate)
    spent = largest = 0
    for wait, count in tries:
        clock.sleep(wait)
        if pacer.is_open():
            pacer.spend(count)
            spent, largest = spent + count, max(largest, count)
        assert spent <= rate * (clock.now - 100.0 + 0.25) + largest + 1


def test_without_a_limit_everything_is_open_and_a_debt_is_forgotten_when_it_is_lifted() -> None:
    clock = _Clock()
    pacer = Pacer(clock)
    pacer.spend(10**9)
    assert pacer.is_open() and pacer.largest_range(4 * MIB) == 4 * MIB
    pacer.set_rate(1000.0)
    clock.sleep(1)
    pacer.spend(10**6)
    assert not pacer.is_open() and pacer.largest_range(4 * MIB) == CELL_BYTES
    pacer.set_rate(None)
    assert pacer.is_open()
    with pytest.raises(ValueError, match="above zero"):
        pacer.set_rate(0)


def test_a_share_is_what_modest_links_leave() -> None:
    assert fair_share(90.0, []) == 90
    assert fair_share(90.0, [None, None]) == 30
    assert fair_share(90.0, [10.0, None]) == 40
    assert fair_share(90.0, [10.0, 80.0]) == 40  # who wants more than its part is no modest one
    assert fair_share(90.0, [0.0, 0.0]) == 90


@given(st.floats(1.0, 1e9), st.lists(st.one_of(st.none(), st.floats(0, 1e9)), max_size=6))
def test_shares_never_exceed_the_whole_and_starve_nobody(total: float, others: list[float | None]) -> None:
    share = fair_share(total, others)
    assert total / (len(others) + 1) - 1e-6 * total <= share <= total


def test_a_limit_holds_within_a_tenth_is_changed_while_it_runs_and_lifted_at_once(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    spec = one_file(tmp_path / "landing", tmp_path / "source", noise(48 * MIB))
    books = Books([spec], bytes_per_second=2e6)

    def rate_over(seconds: float) -> float:
        first = len(books.samples)
        wait_until(lambda: len(books.samples) > first, what="a sample")
        begun, before = books.samples[-1][0], link.here()
        time.sleep(seconds)
        wait_until(lambda: books.samples[-1][0] - begun > seconds - 0.5, what="samples")
        return (link.here() - before) / (books.samples[-1][0] - begun)

    with RunningLink(remote, books) as link:
        wait_until(lambda: link.here() > 0, what="the first bytes")
        assert rate_over(3.0) == pytest.approx(2e6, rel=0.1)
        books.bytes_per_second = 6e6
        time.sleep(1.0)
        assert rate_over(2.0) == pytest.approx(6e6, rel=0.1)
        books.bytes_per_second = None
        lifted, here = time.monotonic(), link.here()
        summary = link.finish(15)
        assert time.monotonic() - lifted < (48 * MIB - here) / 6e6 / 2
    assert summary.new_bytes == 48 * MIB and summary.refetched_bytes < MIB
