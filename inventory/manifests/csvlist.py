"""CSV with a line of column names. Ours, and those of others that name a path.

Ours begins with `escaped_path`: names as pages show them (`\\xNN` for a byte that is no text), so that any name
survives; one that a spreadsheet would take for a formula has a `'` before it, which is taken away again. In others, a
column `path`, `name`, `file` or `filename` holds names taken literally; `size`, `bytes` or `size_bytes` sizes in bytes;
`kind` or `type` what it is; `md5`, `sha1`, `sha256`, `sha512` digests; `mtime_ns` a time. Others are passed over.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from inventory.manifests.lists import Collector, FileList, ListedEntry, ListError, ListProblem, decoded
from inventory.manifests.said import _
from inventory.remote.base import EntryKind
from inventory.remote.names import escape, unescape

COLUMNS = ("escaped_path", "kind", "size_bytes", "mtime_ns", "sha256", "escaped_target")
_NAMES = ("escaped_path", "path", "name", "file", "filename")
_SIZES = ("size_bytes", "size", "bytes")
_DIGESTS = ("md5", "sha1", "sha256", "sha512")
_KINDS: dict[str, EntryKind] = {
    "": "file", "file": "file", "f": "file", "folder": "folder", "dir": "folder", "directory": "folder", "d": "folder",
    "link": "link", "symlink": "link", "l": "link", "socket": "socket", "pipe": "pipe", "fifo": "pipe",
    "device": "device", "unreadable": "unreadable",
}  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
_FIELD_CHARACTERS = 20_000


def read(content: bytes) -> FileList:
    """Read a CSV list, with commas, semicolons or tabs between its columns. Raises ListError."""
    found = Collector("CSV")
    text = decoded(content).decode("utf-8", "surrogateescape")
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    csv.field_size_limit(_FIELD_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        place = next((header.index(name) for name in _NAMES if name in header), None)
        if place is None:
            found.wrong(
                1,
                _("no column is called %(listed)s, so nothing says what the names are.", listed=", ".join(_NAMES[1:])),
            )
            raise ListError(found.problems)
        begin = reader.line_num + 1
        for row in reader:
            if any(cell.strip() for cell in row):
                _entry(found, begin, header, row, place)
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ListError(
            [*found.problems, ListProblem(max(reader.line_num, 1), _("is no CSV: %(error)s.", error=error))]
        ) from error
    return found.done()


def _entry(found: Collector, number: int, header: list[str], row: list[str], place: int) -> None:
    if len(row) != len(header):
        found.wrong(
            number,
            _("has %(count)s columns, and the first line names %(count_2)s.", count=len(row), count_2=len(header)),
        )
        return
    values = dict(zip(header, row, strict=True))
    is_ours = header[place] == "escaped_path"
    raw = _raw(found, number, row[place], is_ours=is_ours)
    target = _raw(found, number, values.get("escaped_target", ""), is_ours=True)
    name = None if raw is None else found.name(raw, number)
    kind = _KINDS.get(values.get("kind", values.get("type", "")).strip().lower())
    if kind is None:
        found.wrong(
            number,
            _("“%(name)s” is no kind of entry.", name=escape(values.get("kind", values.get("type", "")).encode()[:40])),
        )
    size_text = next((values[column].strip() for column in _SIZES if column in values), "")
    size = found.size(size_text.encode(), number) if size_text else None
    digests = []
    for algorithm in _DIGESTS:
        value = values.get(algorithm, "").strip()
        digest = found.digest(value.encode("utf-8", "surrogateescape"), number, algorithm) if value else None
        digests += [digest] if digest is not None else []
    mtime_text = values.get("mtime_ns", "").strip()
    if mtime_text and not mtime_text.removeprefix("-").isdecimal():
        found.wrong(number, _("“mtime_ns” is no whole number of nanoseconds."))
        mtime_text = ""
    if name is not None and kind is not None and target is not None:
        mtime = int(mtime_text) if mtime_text else None
        found.add(ListedEntry(name, number, kind, size, mtime, tuple(sorted(digests)), target))


def _raw(found: Collector, number: int, cell: str, *, is_ours: bool) -> bytes | None:
    if not is_ours:
        return cell.encode("utf-8", "surrogateescape")
    try:
        return unescape(cell.removeprefix("'"))
    except (ValueError, UnicodeEncodeError):
        found.wrong(number, _("the escaped path holds a backslash that starts no escape."))
        return None


def write(entries: Iterable[ListedEntry]) -> Iterator[bytes]:
    """Our own columns; nothing in it is a formula to a spreadsheet."""
    yield (",".join(COLUMNS) + "\r\n").encode()
    for entry in entries:
        held = io.StringIO(newline="")
        row = (
            shielded(escape(entry.name)),
            entry.kind,
            "" if entry.size_bytes is None else entry.size_bytes,
            "" if entry.mtime_ns is None else entry.mtime_ns,
            entry.digest("sha256"),
            shielded(escape(entry.link_target)),
        )
        csv.writer(held).writerow(row)
        yield held.getvalue().encode()


def shielded(text: str) -> str:
    """A text that no spreadsheet takes for a formula; one `'` at its beginning is taken away by `read`."""
    return "'" + text if text.startswith(_FORMULA) else text
