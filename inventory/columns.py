"""A listing in columns: what searching, sorting and rules ask of a million entries, ready to be looked through.

The rows of a finished listing do not change but for digests, so their names, kinds, sizes and times are written once
into a file beside the data (DATA_DIR/columns, one file a listing, named by the listing's key) and mapped into memory.
Several processes share it, a search reads it at the speed of memory, and it is the same on every database. The rows
are the truth: a file that is not there is made again from them, which takes some seconds for a million.

An entry is meant by its number in the order of names (0, 1, 2 …): its row's position, but where rows are missing.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import struct
import tempfile
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from inventory.models import Entry, Scan
from inventory.rawrows import rows_raw

NOWHERE = 2**32 - 1  # the parent of what lies in no folder
KIND_LETTERS = {
    Entry.Kind.FILE.value: b"f",
    Entry.Kind.FOLDER.value: b"d",
    Entry.Kind.LINK.value: b"l",
    Entry.Kind.SOCKET.value: b"s",
    Entry.Kind.PIPE.value: b"p",
    Entry.Kind.DEVICE.value: b"c",
    Entry.Kind.UNREADABLE.value: b"u",
}
FILE, FOLDER, LINK = ord("f"), ord("d"), ord("l")
_MAGIC = b"CALCOL01"
_TYPES = "QqIIIIIIHB"  # of the columns, in their order in the file; the last is followed by the two heaps of bytes
_HEAD = struct.Struct("<8sQQQ")  # magic, entries, bytes of names, bytes of link targets
_KEPT_OPEN = 48

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Columns:
    """One listing. Every column has one value an entry, unless told otherwise.

    sums: bytes of the files before each entry, and of all at the end: what a run of entries holds is a difference.
    times: of the last change, in nanoseconds. positions: of the rows. parents: the number of the folder that an entry
    lies in, NOWHERE for none. below: how many entries lie below it. ends: where its tail ends in `tails`.
    by_size, by_time: numbers in the order of pages, largest and newest first. modes: permission bits. kinds: letters.
    tails: of each name the part below its folder's name, each behind a NUL. targets: of each link, each behind a NUL.
    """

    sums: Sequence[int]
    times: Sequence[int]
    positions: Sequence[int]
    parents: Sequence[int]
    below: Sequence[int]
    ends: Sequence[int]
    by_size: Sequence[int]
    by_time: Sequence[int]
    modes: Sequence[int]
    kinds: bytes | memoryview
    tails: bytes | mmap.mmap
    tails_at: int  # where they begin: a mapped file has the other columns before them
    targets: bytes

    @property
    def count(self) -> int:
        return len(self.positions)

    @property
    def has_line_feeds(self) -> bool:
        """True when any name holds one."""
        return self.tails.find(b"\n", self.tails_at) >= 0

    def tail(self, number: int) -> bytes:
        """An entry's name below its folder's."""
        begin = self.ends[number - 1] if number else 0
        return self.tails[self.tails_at + begin + 1 : self.tails_at + self.ends[number]]

    def base(self, number: int) -> bytes:
        """The last part of an entry's name."""
        return self.tail(number).rpartition(b"/")[2]

    def name(self, number: int) -> bytes:
        """An entry's whole name, as its row has it."""
        parts = []
        while number != NOWHERE:
            if tail := self.tail(number):
                parts.append(tail)
            number = self.parents[number]
        return b"/".join(reversed(parts))

    def namer(self, top: bytes = b"") -> Callable[[int], bytes]:
        """Whole names, below `top`, for a pass over many entries: folders' names are remembered on the way."""
        above = {NOWHERE: top}

        def name(number: int) -> bytes:
            parent = self.parents[number]
            held = above.get(parent)
            if held is None:
                held = above[parent] = b"/".join(part for part in (top, self.name(parent)) if part)
            tail = self.tail(number)
            return held + b"/" + tail if held and tail else held or tail

        return name

    def weight(self, number: int) -> int:
        """Bytes of a file, or of the files below a folder."""
        return self.sums[number + self.below[number] + 1] - self.sums[number]

    def number_at(self, position: int) -> int:
        """The first entry whose row stands at a position or behind it; `count` when there is none."""
        return bisect_left(self.positions, position)

    def number_of(self, name: bytes) -> int | None:
        """The entry with exactly this name; None when there is none."""
        number = self.first_from(name)
        return number if number < self.count and self.name(number) == name else None

    def first_from(self, name: bytes) -> int:
        """The first entry whose name is this one, or comes behind it in the order of names."""
        return self._first_from(name.replace(b"/", b"\0"))

    def run_of(self, name: bytes) -> tuple[int, int]:
        """The first entry that has this name or lies below it, and the first one behind them."""
        if not name:
            return 0, self.count
        key = name.replace(b"/", b"\0")
        return self._first_from(key), self._first_from(key + b"\1")  # a NUL, which stands for a slash, comes before

    def _first_from(self, key: bytes) -> int:
        return bisect_left(range(self.count), key, key=lambda number: self.name(number).replace(b"/", b"\0"))

    def with_piece(self, piece: bytes, first: int, end: int) -> Iterator[int]:
        """Entries of a run, from `first` to before `end`, whose tail holds these bytes."""
        begin, find, ends = self.tails_at, self.tails.find, self.ends
        stop = begin + (ends[end - 1] if end else 0)
        at = find(piece, begin + (ends[first - 1] if first else 0), stop)
        while at >= 0:
            number = bisect_right(ends, at - begin)
            yield number
            at = find(piece, begin + ends[number], stop)


_open: OrderedDict[str, Columns] = OrderedDict()
_lock = threading.Lock()


def columns_of(scan: Scan) -> Columns:
    """A listing's columns, from its file; made from the rows when there is none yet."""
    return columns_made(scan) or _keep_open(scan.key.hex, columns_make(scan))


def columns_made(scan: Scan) -> Columns | None:
    """A listing's columns when they were made before; None when making them would take a while."""
    key = scan.key.hex
    with _lock:
        if key in _open:
            _open.move_to_end(key)
            return _open[key]
    found = _mapped(_path(key))
    return None if found is None else _keep_open(key, found)


def _keep_open(key: str, columns: Columns) -> Columns:
    with _lock:
        _open[key] = columns
        while len(_open) > _KEPT_OPEN:
            _open.popitem(last=False)
    return columns


def columns_make(scan: Scan) -> Columns:
    """Write a listing's columns from its rows. On a disk that takes no file they are held in memory, and that is
    logged."""
    fields = ("position", "name", "kind", "size_bytes", "mtime_ns", "mode", "link_target")
    content = _content(rows_raw(scan.entries.order_by("position"), *fields))
    path = _path(scan.key.hex)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_removed(path.parent)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".columns-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(content)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        logger.warning("The columns of %s could not be kept and are made again when needed: %s", scan, error)
    whole = b"" if (found := _mapped(path)) else b"".join(content)
    return found or _read(memoryview(whole), whole)


def columns_forget(scan: Scan) -> None:
    """Remove the file of a listing whose rows go."""
    with contextlib.suppress(OSError):
        _path(scan.key.hex).unlink(missing_ok=True)
    with _lock:
        _open.pop(scan.key.hex, None)


def _path(key: str) -> Path:
    return Path(settings.DATA_DIR) / "columns" / key


def _forget_removed(folder: Path) -> None:
    """Remove the files of listings that are no longer there."""
    names = [path.name for path in folder.iterdir() if len(path.name) == 32]
    known = {key.hex for key in Scan.objects.filter(key__in=names).values_list("key", flat=True)}
    for name in set(names) - known:
        (folder / name).unlink(missing_ok=True)


def _mapped(path: Path) -> Columns | None:
    """The columns in a file; None when there is none, or only one of another version."""
    try:
        with path.open("rb") as file:
            held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # ValueError: an empty file
        return None
    try:
        return _read(memoryview(held), held)
    except (ValueError, struct.error):
        return None


def _read(view: memoryview, whole: bytes | mmap.mmap) -> Columns:
    """Raises ValueError and struct.error when these are no columns."""
    magic, count, names_bytes, targets_bytes = _HEAD.unpack_from(view)
    sizes = [struct.calcsize(letter) * (count + (letter == "Q")) for letter in _TYPES]
    if magic != _MAGIC or _HEAD.size + sum(sizes) + names_bytes + targets_bytes != len(view):
        raise ValueError("not the columns of a listing")
    at, parts = _HEAD.size, []
    for letter, size in zip(_TYPES, sizes, strict=True):
        parts.append(view[at : at + size].cast(letter))  # type: ignore[call-overload]
        at += size
    kinds = bytes(parts.pop())
    return Columns(*parts, kinds, whole, at, bytes(view[at + names_bytes :]))  # type: ignore[call-arg]


def columns_from(rows: Iterable[tuple[int, bytes, str, int, int, int, bytes]]) -> Columns:
    """The columns of (position, name, kind, bytes, time, mode, link target), in the order of names; kept nowhere."""
    whole = b"".join(_content(rows))
    return _read(memoryview(whole), whole)


def _content(rows: Iterable[tuple[int, bytes, str, int, int, int, bytes]]) -> list[Any]:
    """The pieces of a listing's file."""
    sums, times, positions, parents, ends = array("Q", [0]), array("q"), array("I"), array("I"), array("I")
    modes, kinds, tails, targets = array("H"), bytearray(), bytearray(), bytearray()
    below, total = array("I"), 0
    folders: list[tuple[int, bytes]] = []  # on the way down, each with its number

    def leave(number: int) -> None:
        folder, _name = folders.pop()
        below[folder] = number - folder - 1  # what lies below a folder follows it directly

    for number, (position, name, kind, size, mtime, mode, target) in enumerate(rows):
        while folders and folders[-1][1] and not name.startswith(folders[-1][1] + b"/"):
            leave(number)
        parent, above = folders[-1] if folders else (NOWHERE, b"")
        if kind == Entry.Kind.FOLDER:
            folders.append((number, name))
        elif kind == Entry.Kind.FILE:
            total += size
        elif kind == Entry.Kind.LINK:
            targets += b"\0" + target
        tails += b"\0" + (name[len(above) + 1 :] if above else name)
        ends.append(len(tails))
        parents.append(parent)
        below.append(0)
        sums.append(total)
        times.append(mtime)
        positions.append(position)
        modes.append(mode & 0xFFFF)
        kinds += KIND_LETTERS[kind]
    count = len(positions)
    while folders:
        leave(count)
    weights = array("Q", (sums[number + below[number] + 1] - sums[number] for number in range(count)))
    by_size = array("I", sorted(range(count), key=weights.__getitem__, reverse=True))  # sorting keeps equals in order
    by_time = array("I", sorted(range(count), key=times.__getitem__, reverse=True))
    head = _HEAD.pack(_MAGIC, count, len(tails), len(targets))
    return [head, sums, times, positions, parents, below, ends, by_size, by_time, modes, kinds, tails, targets]
