"""CSV that no spreadsheet takes for formulas, and that can be read back to exactly what was written. Plain Python.

The rule. A cell that is a plain number (`-12`, `3.5`) stays as it is. In any other cell an apostrophe is put

* before the whole, when it begins (after blanks and quotation marks, if any) with one of `= + - @ '`, one of their wide
  forms `＝ ＋ － ＠`, TAB, CR or LF;
* inside, before such a character that follows `;`, TAB, CR or LF (and blanks and quotation marks after it): a
  spreadsheet that takes another separator than the comma begins a cell there.

The reverse takes one apostrophe from each of these places; `cell_true(cell_safe(text)) == text` for every text. Files
are UTF-8 with a byte order mark, commas between cells, every cell in quotation marks, CR LF at the end of a row.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

BYTE_ORDER_MARK = "\ufeff"
_CELL_CHARACTERS = 2**27  # the longest that is read; Python's own limit is 131,072

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_LEADS = "=+\\-@'＝＋－＠"
_SKIPPED = r'[^\S\t\r\n]*(?:"[^\S\t\r\n]*)*'  # blanks and quotation marks, but nothing that parts cells
_TO_LOOK_AT = re.compile(f"[{_LEADS}\\t\\r\\n]")  # most cells hold none of these
_BEGINS = re.compile(f"{_SKIPPED}[{_LEADS}\\t\\r\\n]")
_INSIDE = re.compile(f"([;\\t\\r\\n]{_SKIPPED})(?=[{_LEADS}])")
_INSIDE_SAFE = re.compile(f"([;\\t\\r\\n]{_SKIPPED})'")


def cell_safe(text: str) -> str:
    """The text as a cell that shows it, and is no formula wherever it is opened."""
    if not _TO_LOOK_AT.search(text) or _NUMBER.fullmatch(text):
        return text
    inside = _INSIDE.sub(r"\1'", text)
    return f"'{inside}" if _BEGINS.match(inside) else inside


def cell_true(cell: str) -> str:
    """The text that `cell_safe` was given."""
    return _INSIDE_SAFE.sub(r"\1", cell.removeprefix("'"))


def csv_rows(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows as the lines of a CSV file, the byte order mark before the first. Memory stays flat."""
    target = io.StringIO(newline="")
    writer = csv.writer(target, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    target.write(BYTE_ORDER_MARK)
    for row in rows:
        writer.writerow([cell_safe(cell) for cell in row])
        yield target.getvalue()
        target.seek(0)
        target.truncate()


def csv_read(lines: Iterable[str]) -> Iterator[list[str]]:
    """The rows of such a file, as they were given to `csv_rows`. The file is to be opened with `newline=""`.

    Raises csv.Error for what is no CSV.
    """
    csv.field_size_limit(_CELL_CHARACTERS)
    for row in csv.reader(_without_mark(lines), strict=True):
        yield [cell_true(cell) for cell in row]


def _without_mark(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix(BYTE_ORDER_MARK)
