"""Searching entries by name, kind and size: below one folder of a listing, or in the listings of all resources.

The database narrows by kind, size and the longest plain piece of a pattern; the pattern itself is decided here, on
bytes. A search ends after a page of findings, or after some seconds; then it says where it goes on.
"""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from django.db.models import F, QuerySet

from inventory.browsing import folder_key
from inventory.models import Entry, Host, Resource, Scan, Tier
from inventory.remote.names import unescape
from inventory.selectors import listing_of

PAGE_FOUND = 100
SEARCH_SECONDS = 3.0
_WINDOW = 1000
_SPECIAL = re.compile(r"[*?\[]")
SORTS = {"": ("position",), "size": ("-size_bytes", "position"), "time": ("-mtime_ns", "position")}


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for. An empty field asks nothing. Sizes in bytes, of files."""

    name: str = ""
    kind: str = ""
    least_bytes: int | None = None
    most_bytes: int | None = None
    sort: str = ""
    has_no_digest: bool = False

    @property
    def is_any(self) -> bool:
        """True when it asks anything at all."""
        return self != Search()


@dataclass(frozen=True, slots=True)
class Match:
    """One entry that was found. `folder` is the key of the folder that it lies in, `below` that folder as shown."""

    entry: Entry
    scan: Scan
    folder: str

    @property
    def key(self) -> str:
        return folder_key(self.entry.name.raw)


@dataclass(slots=True)
class Found:
    """A page of findings. `next_start` is where the search goes on; None when it came to its end."""

    matches: list[Match] = field(default_factory=list)
    next_start: int | None = None
    is_cut: bool = False  # it ended because of its time, not because the page was full


class Pattern:
    """A name's pattern: with `*`, `?` or `[…]` of the whole last part (of the whole name when it holds a slash); other
    text is looked for anywhere in the last part. A backslash escapes as pages show names."""

    def __init__(self, text: str) -> None:
        self.piece = _longest_piece(text)
        self._is_whole = "/" in text
        if _SPECIAL.search(text):
            translated = fnmatch.translate(_bytes_of(text).decode("latin-1"))
            self._match = re.compile(translated.encode("latin-1"), re.DOTALL).match
        else:
            self._match = re.compile(re.escape(_bytes_of(text)), re.DOTALL).search

    def is_in(self, name: bytes) -> bool:
        """True when a name has the pattern."""
        return self._match(name if self._is_whole else name.rpartition(b"/")[2]) is not None


def search_below(scan: Scan, folder: Entry, wanted: Search, *, start: int = 0, limit: int = PAGE_FOUND) -> Found:
    """Entries below a folder. `start` is where an earlier page said that it goes on."""
    rows = _narrowed(scan, wanted).filter(position__gt=folder.position)
    if folder.entries_below is not None:
        rows = rows.filter(position__lte=folder.position + folder.entries_below)
    elif folder.name.raw:  # a listing of an older kind: what lies below is told by names
        rows = rows.filter(name__holds=folder.name.raw + b"/")
    found = Found()
    _search(scan, rows, wanted, found, start, limit, time.monotonic() + SEARCH_SECONDS)
    return found


def search_everywhere(
    wanted: Search, *, host: Host | None = None, tier: Tier | None = None, limit: int = PAGE_FOUND
) -> Found:
    """Entries of the best listing of every resource, in the order of their tiers; the first page of them."""
    resources = Resource.objects.select_related("host", "tier").order_by(
        F("tier__position").asc(nulls_last=True), "position", "name"
    )
    if host is not None:
        resources = resources.filter(host=host)
    if tier is not None:
        resources = resources.filter(tier=tier)
    found, until = Found(), time.monotonic() + SEARCH_SECONDS
    for resource in resources:
        scan = listing_of(resource)
        if scan is None:
            continue
        scan.resource = resource
        _search(scan, _narrowed(scan, wanted), wanted, found, 0, limit, until)
        if found.next_start is not None:
            break
    return found


def _narrowed(scan: Scan, wanted: Search) -> QuerySet[Entry]:
    rows = scan.entries.order_by(*SORTS.get(wanted.sort, SORTS[""]))
    if wanted.kind in Entry.Kind.values:
        rows = rows.filter(kind=wanted.kind)
    if wanted.least_bytes is not None:
        rows = rows.filter(kind=Entry.Kind.FILE, size_bytes__gte=wanted.least_bytes)
    if wanted.most_bytes is not None:
        rows = rows.filter(kind=Entry.Kind.FILE, size_bytes__lte=wanted.most_bytes)
    if wanted.has_no_digest:
        rows = rows.filter(kind=Entry.Kind.FILE, sha256__isnull=True)
    piece = Pattern(wanted.name).piece if wanted.name else b""
    return rows.filter(name__holds=piece) if piece else rows


def _search(
    scan: Scan, rows: QuerySet[Entry], wanted: Search, found: Found, start: int, limit: int, until: float
) -> None:
    """Add matches of one listing. In the order of names a start is a position, in others a number of rows."""
    pattern = Pattern(wanted.name) if wanted.name else None
    for after, entry in _windows(rows, start, is_by_position=not wanted.sort):
        if len(found.matches) >= limit or time.monotonic() > until:
            found.next_start, found.is_cut = after, len(found.matches) < limit
            return
        if entry.name.raw and (pattern is None or pattern.is_in(entry.name.raw)):
            found.matches.append(Match(entry, scan, folder_key(entry.name.raw.rpartition(b"/")[0])))


def _windows(rows: QuerySet[Entry], start: int, *, is_by_position: bool) -> Iterator[tuple[int, Entry]]:
    """Rows one by one, each with the start from which it would come first."""
    while True:
        window: Iterable[Entry]
        if is_by_position:
            window = list(rows.filter(position__gte=start)[:_WINDOW])
        else:
            window = list(rows[start : start + _WINDOW])
        for number, entry in enumerate(window):
            yield (entry.position if is_by_position else start + number), entry
        if len(window) < _WINDOW:
            return
        start = window[-1].position + 1 if is_by_position else start + _WINDOW


def _bytes_of(text: str) -> bytes:
    """A pattern's bytes: escaped as pages show names, else literally."""
    try:
        return unescape(text)
    except (ValueError, UnicodeEncodeError):
        return text.encode("utf-8", "surrogateescape")


def _longest_piece(text: str) -> bytes:
    """The longest run of a pattern that stands for itself; empty when there is none."""
    if "[" in text:  # what stands in brackets is no run; between them it is not worth the care
        text = text.partition("[")[0]
    pieces = re.split(r"[*?]+", text)
    return max((_bytes_of(piece) for piece in pieces), key=len, default=b"")
