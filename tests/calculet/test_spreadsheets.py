"""CSV is no formula in any spreadsheet, and is read back to exactly what was written."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calculet.spreadsheets import cell_safe, cell_true, csv_read, csv_rows

TEXTS = st.text(
    st.sampled_from("=+-@'＝＋－＠\t\r\n;,\" 1.a\u00a0\\|") | st.characters(exclude_categories=["Cs"]), max_size=12
)


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://x","y")', "+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\tplain", "\rplain",
        "-1+cmd|' /C calc'!A0",
        " \n", "\u00a0\t=1", '" \r@',
        "-a", "--1", "- 1", "=", "＝1+1", "＋1", "－1＋1", "＠SUM(A1)", " =1", '"=1', "\u00a0=1", "'=1", "'", "-1e5",
    ],
)  # fmt: skip
def test_what_begins_like_a_formula_is_led_by_an_apostrophe(text: str) -> None:
    assert cell_safe(text) == f"'{text}" or cell_safe(text).startswith("'")
    assert cell_true(cell_safe(text)) == text


@pytest.mark.parametrize("text", ["-12", "-3.5", "0", "12.75", "a=b", "weights-1", "1+1", "mail@host", "", "it's"])
def test_numbers_and_plain_words_stay_as_they_are(text: str) -> None:
    assert cell_safe(text) == text == cell_true(text)


@pytest.mark.parametrize("text", ["a;=1", "a\t=1", "a\n=1", "a\r\n@SUM(A1)", 'x; "=1', "-1;-2", "a;'=1"])
def test_a_spreadsheet_with_another_separator_finds_no_formula_either(text: str) -> None:
    line = "".join(csv_rows([["first", text]]))
    for part in re.split(r"[;\t\r\n]", line.removeprefix("\ufeff").removeprefix('"first",')):
        assert not re.match(r'[\s"]*[=+@＝＋－＠]|[\s"]*-(?![0-9.]+"?$)', part), line


@settings(deadline=None)
@given(TEXTS)
@example(" \n")
@example("\u00a0\r=1")
@example('" \t@')
def test_every_cell_is_safe_and_comes_back(text: str) -> None:
    safe = cell_safe(text)
    assert cell_true(safe) == text
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", safe) or not re.match(r'[^\S\t\r\n"]*[=+\-@＝＋－＠\t\r\n]', safe)


@settings(deadline=None)
@given(st.lists(st.lists(TEXTS, min_size=1, max_size=3), max_size=4))
def test_rows_come_back_from_a_file(rows: list[list[str]]) -> None:
    assert list(csv_read(io.StringIO("".join(csv_rows(rows)), newline=""))) == rows
