"""How figures, digests, times and states are shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from calculet.pages.templatetags import shown


@pytest.mark.parametrize(
    ("count", "short", "exact"),
    [
        (None, "–", "–"),
        (0, "0 B", "0 bytes"),
        (1, "1 B", "1 byte"),
        (999, "999 B", "999 bytes"),
        (1_000, "1.00 kB", "1,000 bytes"),
        (9_994, "9.99 kB", "9,994 bytes"),
        (9_995, "10.0 kB", "9,995 bytes"),
        (99_949, "99.9 kB", "99,949 bytes"),
        (99_950, "100 kB", "99,950 bytes"),
        (999_499, "999 kB", "999,499 bytes"),
        (999_500, "1.00 MB", "999,500 bytes"),
        (67_108_864, "67.1 MB", "67,108,864 bytes"),
        (16_312_044_121, "16.3 GB", "16,312,044,121 bytes"),
        (10**21, "1000 EB", "1,000,000,000,000,000,000,000 bytes"),
    ],
)
def test_bytes(count: int | None, short: str, exact: str) -> None:
    assert shown.bytes_short(count).replace("\u00a0", " ") == short
    assert shown.bytes_exact(count) == exact


def test_a_rate() -> None:
    assert shown.bytes_rate(211_000.4).replace("\u00a0", " ") == "211 kB/s"
    assert shown.bytes_rate(None) == "–"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (-3, "0 s"),
        (0, "0 s"),
        (59.6, "1 min 0 s"),
        (61, "1 min 1 s"),
        (3_599, "59 min 59 s"),
        (4_320, "1 h 12 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations(seconds: float | None, words: str) -> None:
    assert shown.duration(seconds) == words


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [(None, 5, "–"), (0, 0, "–"), (1, 3, "33 %"), (999_999, 1_000_000, "99 %"), (3, 3, "100 %")],
)
def test_all_of_it_alone_is_a_hundred_per_cent(part: int | None, whole: int, words: str) -> None:
    assert shown.percent(part, whole).replace("\u00a0", " ") == words


def test_a_digest_is_shortened_and_copied_whole() -> None:
    raw = bytes(range(32))
    html = shown.digest(raw)
    assert ">00010203…1e1f<" in html
    assert f'data-copy="{raw.hex()}"' in html
    assert shown.digest(raw.hex()) == html
    assert shown.digest(None) == shown.digest("") == "–"
    assert "<b>" not in shown.digest("<b>")


def test_a_moment_is_utc_until_the_browser_makes_it_local() -> None:
    at = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=8)))
    assert shown.moment(at) == '<time datetime="2026-02-28T17:30:00+00:00">2026-02-28 17:30 UTC</time>'
    assert shown.moment(None, "never") == "never"
    assert "17:30" in shown.moment(at.astimezone(UTC))


def test_a_state_and_a_tier_have_words() -> None:
    assert shown.state("needs_decision") == '<span class="state needs_decision">needs decision</span>'
    assert shown.state("opened", "<i>") == '<span class="state opened">&lt;i&gt;</span>'
    assert 'aria-label="tier 2: runtime"' in shown.tier(2, "runtime")
    assert "no tier yet" in shown.tier(None)


def test_each_form_gets_a_key_of_its_own() -> None:
    assert shown.act_key() != shown.act_key()
