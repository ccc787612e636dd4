"""NUL-ended lists of find: names alone (`find -print0`, also `--files-from0`), or with figures before the name:

find . -printf '%y %s %T@ %p\\0'       kind, size in bytes, time in seconds, name
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from inventory.manifests.lists import Collector, FileList, ListedEntry
from inventory.manifests.said import _
from inventory.remote.base import EntryKind

PRINTF = "find . -printf '%y %s %T@ %p\\0'"
_FIGURES = re.compile(rb"([fdlspbc]) (\d{1,20}) (-?\d{1,19})(?:\.(\d{1,10}))? (.+)", re.DOTALL)
_KINDS: dict[bytes, EntryKind] = {
    b"f": "file", b"d": "folder", b"l": "link", b"s": "socket", b"p": "pipe", b"b": "device", b"c": "device",
}  # fmt: skip
_LETTERS = {"file": b"f", "folder": b"d", "link": b"l", "socket": b"s", "pipe": b"p", "device": b"b"}


def read(content: bytes) -> FileList:
    """Read a NUL-ended list. Raises ListError."""
    found = Collector("find")
    records = content.split(b"\0")
    if records[-1] == b"":
        records.pop()
    elif records:
        found.wrong(len(records), _("has no NUL at its end, so the list was cut off."))
        records.pop()
    is_figured = bool(records) and all(_FIGURES.fullmatch(record) for record in records[:20])
    for number, record in enumerate(records, start=1):
        match = _FIGURES.fullmatch(record) if is_figured else None
        if is_figured and match is None:
            found.wrong(number, _("is not as `%(printf)s` prints it, unlike the records before.", printf=PRINTF))
            continue
        raw = match.group(5) if match else record
        if raw in (b".", b"./"):
            continue
        name = found.name(raw, number)
        if name is not None:
            found.add(_entry(name, number, match))
    return found.done()


def _entry(name: bytes, number: int, match: re.Match[bytes] | None) -> ListedEntry:
    if match is None:
        return ListedEntry(name, number)
    letter, size, seconds, fraction, _raw = match.groups()
    kind = _KINDS[letter]
    mtime_ns = int(seconds) * 10**9 + int((fraction or b"0")[:9].ljust(9, b"0"))
    return ListedEntry(name, number, kind, int(size) if kind == "file" else None, mtime_ns)


def write(entries: Iterable[ListedEntry]) -> Iterator[bytes]:
    """With figures, as `PRINTF` prints them."""
    for entry in entries:
        seconds, rest = divmod(entry.mtime_ns or 0, 10**9)
        letter = _LETTERS.get(entry.kind, b"f")
        yield b"%b %d %d.%09d0 %b\0" % (letter, entry.size_bytes or 0, seconds, rest, entry.name)


def write_names(entries: Iterable[ListedEntry]) -> Iterator[bytes]:
    """Names of files alone, as `--files-from0` and `xargs -0` take them."""
    for entry in entries:
        if entry.kind == "file":
            yield entry.name + b"\0"
