"""Weekly limits: read as people write them, in one time zone, clock changes included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transfers.windows import (
    DAYS,
    WeeklyLimit,
    Window,
    WindowWrong,
    rate_text,
    read_rate,
    read_windows,
    write_windows,
)

BERLIN = ZoneInfo("Europe/Berlin")
MEGABIT = 125_000

windows = st.builds(
    Window,
    st.lists(st.integers(0, 6), min_size=1, unique=True).map(lambda days: tuple(sorted(days))),
    st.integers(0, 1439),
    st.integers(1, 1440),
    st.one_of(st.just(0), st.integers(8_000, 10**10)),
).filter(lambda window: window.begins != window.ends)


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


def _limit(text: str, base: int | None = None) -> WeeklyLimit:
    return WeeklyLimit(base, read_windows(text), BERLIN)


def test_working_hours_and_nights_are_told_apart() -> None:
    limit = _limit("mon-fri 08:00-18:00 2 Mbit/s\n\ndaily 22:00-06:00 none", 10 * MEGABIT)
    assert limit.allowed(_at("2026-03-02T08:00")) == 2 * MEGABIT  # a Monday
    assert limit.allowed(_at("2026-03-02T07:59")) == 10 * MEGABIT
    assert limit.allowed(_at("2026-03-02T18:00")) == 10 * MEGABIT
    assert limit.allowed(_at("2026-03-07T12:00")) == 10 * MEGABIT  # a Saturday
    assert limit.allowed(_at("2026-03-02T23:00")) == 0
    assert limit.allowed(_at("2026-03-03T05:59")) == 0
    assert limit.allowed(_at("2026-03-02T07:00").astimezone(UTC)) == 10 * MEGABIT
    assert limit.next_change(_at("2026-03-02T12:00")) == _at("2026-03-02T18:00")


def test_of_two_windows_the_lower_counts_and_without_any_there_is_no_limit() -> None:
    assert (
        _limit("daily 00:00-24:00 5 Mbit/s\nsun 10:00-12:00 9 Mbit/s").allowed(_at("2026-03-01T11:00")) == 5 * MEGABIT
    )
    assert _limit("").allowed(_at("2026-03-01T11:00")) is None
    assert _limit("").next_change(_at("2026-03-01T11:00")) is None


def test_a_night_that_begins_on_the_last_day_ends_on_the_first() -> None:
    limit = _limit("sun 22:00-04:00 none")
    assert limit.allowed(_at("2026-03-02T03:59")) == 0 and limit.allowed(_at("2026-03-01T03:59")) is None


def test_clock_changes_keep_local_hours() -> None:
    limit = _limit("daily 01:00-03:30 none")
    spring, autumn = _at("2026-03-29T00:30"), _at("2026-10-25T00:30")
    assert limit.next_change(spring) == _at("2026-03-29T01:00")
    end = limit.next_change(_at("2026-03-29T01:30"))
    assert end is not None and end.astimezone(UTC) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    end = limit.next_change(autumn + timedelta(hours=1))
    assert end is not None and end.astimezone(UTC) == datetime(2026, 10, 25, 2, 30, tzinfo=UTC)


@given(st.lists(windows, max_size=6))
def test_what_is_written_is_read_again(some: list[Window]) -> None:
    assert read_windows(write_windows(some)) == tuple(some)
    assert tuple(Window.from_json(window.as_json()) for window in some) == tuple(some)


@given(st.lists(windows, max_size=4), st.integers(0, 366 * 24 * 60))
def test_until_the_next_change_nothing_changes(some: list[Window], minutes: int) -> None:
    limit = WeeklyLimit(None, tuple(some), BERLIN)
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    change = limit.next_change(at)
    until = change if change is not None else at + timedelta(days=8)
    assert change is None or limit.allowed(change) != limit.allowed(at)
    step = max(1, int((until - at).total_seconds() // 60 // 200))
    assert all(
        limit.allowed(moment) == limit.allowed(at)
        for moment in (at + timedelta(minutes=later) for later in range(0, 12_000, step))
        if moment < until
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("mon 8-18 2 Mbit/s", "is no window"),
        ("man 08:00-18:00 2 Mbit/s", "is no day"),
        ("mon 08:00-08:00 none", "no length"),
        ("mon 08:00-25:00 none", "no time of day"),
        ("mon 08:61-09:00 none", "no time of day"),
        ("mon 08:00-09:00 2 Mb", "is no rate"),
        ("mon 08:00-09:00 1 kbit/s", "64 kbit/s or more"),
        ("mon 08:00-09:00 -1 Mbit/s", "is no rate"),
    ],
)
def test_a_line_that_says_no_window_is_named(line: str, why: str) -> None:
    with pytest.raises(WindowWrong) as caught:
        read_windows(f"daily 00:00-01:00 none\n{line}")
    assert "Line 2" in str(caught.value) and why in str(caught.value)


def test_rates_are_read_in_the_units_that_people_use() -> None:
    assert read_rate("2 Mbit/s") == read_rate("250 kB/s") == 250_000
    assert read_rate(" 0.5 MB/s ") == 500_000 and read_rate("None") == 0
    assert rate_text(250_000) == "2 Mbit/s" and rate_text(0) == "none"
    assert [window.days for window in read_windows("sat-mon 00:00-24:00 none")] == [(0, 5, 6)]
    assert len(DAYS) == 7
