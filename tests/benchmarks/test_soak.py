"""The soak's judgement: on made-up seconds of a link that kept its bars, and of links that broke one each."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.beds import PROFILES
from benchmarks.soak import Row, Silence, judge

SILENCES = [Silence(100.0, 160.0), Silence(300.0, 360.0)]


def seconds(**changes: Any) -> list[Row]:
    """Ten minutes of 19 Mbit/s; `changes` name what breaks."""
    rows = []
    for at in range(600):
        is_silent = any(one.begun <= at <= one.ended + changes.get("late", 2) for one in SILENCES)
        new = 0 if is_silent else changes.get("new_bytes", 19_000_000 // 8)
        again = changes.get("again", 10_000) if at in (162, 362) else 0
        rows.append(
            {
                "event": "sample",
                "at": float(at),
                "seconds": 1.0,
                "new_bytes": new,
                "wire_bytes": new + again,
                "lanes": 32,
                "resident_bytes": 60 * 2**20 + at * changes.get("leak", 0),
                "handles": 80 + at * changes.get("handles", 0),
                "matched": at,
                "differed": changes.get("differed", 0),
            }
        )
    return rows


def test_a_link_that_keeps_its_bars_is_told_so() -> None:
    bars = judge(seconds(), SILENCES, PROFILES["vpn"])
    assert len(bars) == 9 and all(bar.holds for bar in bars), bars


@pytest.mark.parametrize(
    ("changes", "bar"),
    [
        ({"new_bytes": 15_000_000 // 8}, "goodput"),
        ({"late": 25}, "silence 1: rate"),
        ({"again": 30 * 2**20}, "silence 2: fetched again"),
        ({"differed": 1}, "chunks"),
        ({"leak": 400_000}, "memory"),
        ({"leak": 100_000}, "memory gained"),
        ({"handles": 1}, "open files"),
    ],
)
def test_each_bar_can_fail(changes: dict[str, Any], bar: str) -> None:
    failed = [one.name for one in judge(seconds(**changes), SILENCES, PROFILES["vpn"]) if not one.holds]
    assert any(name.startswith(bar) for name in failed), failed


def test_a_link_that_did_not_run_holds_nothing() -> None:
    assert [bar.holds for bar in judge([], [], PROFILES["vpn"])] == [False]
