"""A scan's entries folder by folder, at any size of scan.

Entries' positions follow the order of the names part by part, and each entry names its folder's position, so that

    a folder's content is the run of positions that follows it,
    what lies directly in it is found by one index, and
    a name's place is found by halving: some twenty look-ups in a million entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q, Sum

from inventory.columns import columns_made
from inventory.models import Entry, Scan
from inventory.remote.names import RemoteName, escape, unescape

PAGE_ENTRIES = 100
SUMMED_ENTRIES = 50_000  # whose sizes one page adds up: a folder of a million entries must not keep anybody waiting
_WINDOW = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Crumb:
    """One folder on the way down. `key` is the escaped name that the address carries."""

    shown: str
    key: str


@dataclass(frozen=True, slots=True)
class FolderRow:
    """One entry of a folder. For a folder: how many entries lie below it, and their files' bytes.

    `bytes_below` is None for a folder with more entries than a page adds up.
    """

    entry: Entry
    shown: str
    key: str
    entries_below: int
    bytes_below: int | None

    @property
    def is_folder(self) -> bool:
        return self.entry.kind == Entry.Kind.FOLDER

    @property
    def modified(self) -> datetime | None:
        """The time of the last change; None when it is none that a calendar holds."""
        if self.entry.kind == Entry.Kind.UNREADABLE and not self.entry.mtime_ns:
            return None
        try:
            return _EPOCH + timedelta(microseconds=self.entry.mtime_ns // 1000)
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True)
class FolderPage:
    """Part of a folder. `next_position` begins the next part; None at the end. `first_position` began this one."""

    entry: Entry
    crumbs: list[Crumb]
    rows: list[FolderRow]
    first_position: int
    next_position: int | None
    entries_below: int

    @property
    def is_first(self) -> bool:
        return self.first_position == self.entry.position + 1


def folder_key(name: bytes) -> str:
    """How an address carries a name: escaped, so that it is text whatever the bytes are."""
    return escape(name)


def entry_at_key(scan: Scan, key: str) -> Entry | None:
    """The entry of an address; None when the key is none, or no entry has that name."""
    try:
        name = unescape(key)
    except ValueError:
        return None
    return None if b"\0" in name else entry_find(scan, name)


def entry_find(scan: Scan, name: bytes) -> Entry | None:
    """The entry of a scan with exactly this name; None when there is none.

    A listing that was made into columns knows its place; else it is found by halving.
    """
    columns = columns_made(scan)
    if columns is not None:
        number = columns.number_of(name)
        return None if number is None else scan.entries.filter(position=columns.positions[number]).first()
    wanted, low, high = _parts(name), 0, _last_position(scan)
    while low <= high:
        middle = (low + high) // 2
        there = scan.entries.filter(position=middle).values_list("name", flat=True).first()
        if there is None:
            return None
        found = _parts(there.raw)
        if found == wanted:
            return scan.entries.get(position=middle)
        if found < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return None


def folder_page(scan: Scan, folder: Entry, *, start: int | None = None, limit: int = PAGE_ENTRIES) -> FolderPage:
    """Up to `limit` direct entries of a folder from a position on (from its first when none is given).

    A start outside the folder begins at its first entry.
    """
    last = _last_position(scan)
    end = _end_of(scan, folder, last)
    first = start if start is not None and folder.position < start < end else folder.position + 1
    if folder.entries_below is not None:
        found, position = _children(scan, folder, first, end, limit)
    else:
        found, position = _walked(scan, first, end, limit)
    return FolderPage(
        entry=folder,
        crumbs=_crumbs(folder.name.raw),
        rows=_rows(scan, found),
        first_position=first,
        next_position=position if position < end else None,
        entries_below=end - folder.position - 1,
    )


def _children(scan: Scan, folder: Entry, first: int, end: int, limit: int) -> tuple[list[tuple[Entry, int]], int]:
    """Direct entries of a folder that a scan measured, each with the position behind its content; one look-up."""
    rows = scan.entries.filter(parent=folder.position, position__gte=first).order_by("position")
    children = list(rows[: limit + 1])
    found = [(entry, entry.position + (entry.entries_below or 0) + 1) for entry in children[:limit]]
    return found, children[limit].position if len(children) > limit else end


def _walked(scan: Scan, first: int, end: int, limit: int) -> tuple[list[tuple[Entry, int]], int]:
    """The same of a folder that was not measured, by stepping over each folder's content."""
    found: list[tuple[Entry, int]] = []
    position = first
    window: dict[int, Entry] = {}
    while position < end and len(found) < limit:
        if position not in window:
            rows = scan.entries.filter(position__gte=position, position__lt=min(end, position + _WINDOW))
            window = {row.position: row for row in rows}
            if position not in window:  # a hole: the scan is being removed
                break
        entry = window[position]
        after = _end_of(scan, entry, end - 1, window) if entry.kind == Entry.Kind.FOLDER else position + 1
        found.append((entry, after))
        position = after
    return found, position


def crumbs_of(entry: Entry) -> list[Crumb]:
    """The way down to an entry, itself the last, without the root."""
    return _crumbs(entry.name.raw)


def _rows(scan: Scan, found: list[tuple[Entry, int]]) -> list[FolderRow]:
    rows, left = [], SUMMED_ENTRIES
    for entry, end in found:
        below = end - entry.position - 1
        total = entry.bytes_below
        if total is None and below <= left:
            total = _bytes_inside(scan, entry, end)
            left -= below
        name = entry.name.raw
        rows.append(FolderRow(entry, escape(name.rpartition(b"/")[2]), folder_key(name), below, total))
    return rows


def _bytes_inside(scan: Scan, folder: Entry, end: int) -> int:
    if end == folder.position + 1:
        return 0
    inside = Q(position__gt=folder.position, position__lt=end, kind=Entry.Kind.FILE)
    return scan.entries.filter(inside).aggregate(total=Sum("size_bytes"))["total"] or 0


def _crumbs(name: bytes) -> list[Crumb]:
    """The folders above and the one itself, without the root."""
    parts = name.split(b"/") if name else []
    return [Crumb(escape(part), folder_key(b"/".join(parts[: number + 1]))) for number, part in enumerate(parts)]


def _end_of(scan: Scan, folder: Entry, last: int, window: dict[int, Entry] | None = None) -> int:
    """The first position behind a folder's content: as measured, else by doubling steps and then halving."""
    if folder.entries_below is not None:
        return folder.position + folder.entries_below + 1
    known, step = folder.position, 1
    while known + step <= last and _is_inside(scan, folder, known + step, window):
        known, step = known + step, step * 2
    low, high = known, min(known + step, last + 1)  # low is inside or the folder itself, high is behind it
    while high - low > 1:
        middle = (low + high) // 2
        if _is_inside(scan, folder, middle, window):
            low = middle
        else:
            high = middle
    return high


def _is_inside(scan: Scan, folder: Entry, position: int, window: dict[int, Entry] | None) -> bool:
    entry = window.get(position) if window else None
    if entry is None:
        name = scan.entries.filter(position=position).values_list("name", flat=True).first()
    else:
        name = entry.name
    if name is None:
        return False
    return not folder.name.raw or RemoteName(name.raw).is_below(folder.name)


def _last_position(scan: Scan) -> int:
    last = scan.entries.order_by("-position").values_list("position", flat=True).first()
    return -1 if last is None else last


def _parts(name: bytes) -> list[bytes]:
    return name.split(b"/") if name else []
