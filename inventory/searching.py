"""Searching entries by name, kind, size, tier and state: below one folder of a listing, or in those of all resources.

The columns of a listing say which entries are wanted (`matching`); only those of the page are read from rows. A search
ends after a page of findings, or after some seconds; then it says where it goes on.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice

from django.db.models import F

from inventory.browsing import folder_key
from inventory.columns import Columns, columns_of
from inventory.matching import Matching, OutOfTime, Pattern, Search, mask_of
from inventory.models import Entry, Host, Resource, Scan
from inventory.owning import runs_of_tier
from inventory.selectors import listing_of
from inventory.states import states_of

__all__ = ["Found", "Match", "Pattern", "Search", "search_below", "search_everywhere"]

PAGE_FOUND = 100
SEARCH_SECONDS = 3.0
_WITHOUT_DIGEST = 20_000  # entries that are asked for at once; of more, candidates are looked at one page after another
_LOOKED_AT = 2000


@dataclass(frozen=True, slots=True)
class Match:
    """One entry that was found. `folder` is the key of the folder that it lies in."""

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


def search_below(
    scan: Scan, folder: Entry, wanted: Search, *, start: int | None = None, limit: int = PAGE_FOUND
) -> Found:
    """Entries below a folder. `start` is the position from which an earlier page said that it goes on."""
    columns = columns_of(scan)
    first = columns.number_at(folder.position)
    end = first + columns.below[first] + 1 if first < columns.count else first
    found = Found()
    begin = None if start is None else columns.number_at(start)
    numbers = _page(scan, columns, wanted, first + 1, end, begin, limit, time.monotonic() + SEARCH_SECONDS, found)
    found.matches = _matches(scan, columns, numbers)
    return found


def search_everywhere(wanted: Search, *, host: Host | None = None, limit: int = PAGE_FOUND) -> Found:
    """Entries of the best listing of every resource; the first page of them. In the order of names, resources come
    in the order of their tiers; by size and time, all findings stand in one order."""
    resources = Resource.objects.select_related("host", "tier").order_by(
        F("tier__position").asc(nulls_last=True), "position", "name"
    )
    if host is not None:
        resources = resources.filter(host=host)
    found, until = Found(), time.monotonic() + SEARCH_SECONDS
    pages: list[list[tuple[int, Scan, Columns, int]]] = []
    left = limit
    listings = [(resource, scan) for resource in resources if (scan := listing_of(resource)) is not None]
    looked_through = {resource.pk for resource, _scan in listings}
    for resource, scan in listings:
        scan.resource = resource
        columns = columns_of(scan)
        first = 1 if columns.count and not columns.tail(0) else 0  # without the resource's own folder
        numbers = _page(scan, columns, wanted, first, columns.count, None, left, until, found, looked_through)
        pages.append([(_rank(columns, wanted.sort, number), scan, columns, number) for number in numbers])
        if not wanted.sort:
            left -= len(numbers)
            if found.next_start is not None:
                break
    ordered = merge(*pages, key=lambda one: one[0]) if wanted.sort else (one for page in pages for one in page)
    chosen = list(islice(ordered, limit))
    if sum(map(len, pages)) > len(chosen):
        found.next_start = 0
    rows: dict[int, dict[int, Match]] = {}
    for scan, columns in {id(one[1]): (one[1], one[2]) for one in chosen}.values():
        numbers = [one[3] for one in chosen if one[1] is scan]
        rows[id(scan)] = dict(zip(numbers, _matches(scan, columns, numbers), strict=False))
    found.matches = [match for one in chosen if (match := rows[id(one[1])].get(one[3])) is not None]
    return found


def _rank(columns: Columns, sort: str, number: int) -> int:
    """What a finding is sorted by among those of other listings."""
    if sort == "size":
        return -columns.weight(number)
    return -columns.times[number] if sort == "time" else 0


def _page(
    scan: Scan,
    columns: Columns,
    wanted: Search,
    first: int,
    end: int,
    start: int | None,
    limit: int,
    until: float,
    found: Found,
    looked_through: Collection[int] = (),
) -> list[int]:
    """The numbers of one page of one listing; `found` is told where it goes on.

    Where a tier is asked for, what belongs to a resource in `looked_through` is found in that one's own listing.
    """
    states = states_of(scan) if wanted.state else None
    tiers = runs_of_tier(scan, columns, wanted.tier, leave=looked_through) if wanted.tier is not None else []
    mask = mask_of(columns, wanted, states=states, tiers=tiers)
    pattern = Pattern(wanted.name) if wanted.name else None
    matching = Matching(columns, first, end, mask, pattern, until)
    page: list[int] = []
    try:
        numbers = matching.in_order(wanted.sort, start)
        if wanted.has_no_digest:
            numbers = _without_digest(scan, columns, numbers)
        for number in numbers:
            if len(page) == limit:
                found.next_start = columns.positions[number]
                break
            page.append(number)
    except OutOfTime as stopped:
        found.is_cut = True
        found.next_start = None if stopped.number is None else columns.positions[stopped.number]
    return page


def _without_digest(scan: Scan, columns: Columns, numbers: Iterator[int]) -> Iterator[int]:
    """Those of some files whose digest nobody took; rows are asked, since digests come after the columns."""
    bare = scan.entries.filter(kind=Entry.Kind.FILE, sha256__isnull=True)
    few = set(bare.order_by("position").values_list("position", flat=True)[: _WITHOUT_DIGEST + 1])
    if len(few) <= _WITHOUT_DIGEST:
        yield from (number for number in numbers if columns.positions[number] in few)
        return
    size = PAGE_FOUND
    while piece := list(islice(numbers, size)):
        positions = [columns.positions[number] for number in piece]
        held = set(bare.filter(position__in=positions).values_list("position", flat=True))
        yield from (number for number, position in zip(piece, positions, strict=True) if position in held)
        size = min(size * 2, _LOOKED_AT)


def _matches(scan: Scan, columns: Columns, numbers: Sequence[int]) -> list[Match]:
    """The rows of some entries, in their order."""
    rows = {row.position: row for row in scan.entries.filter(position__in=[columns.positions[one] for one in numbers])}
    entries = [row for number in numbers if (row := rows.get(columns.positions[number])) is not None]
    return [Match(entry, scan, folder_key(entry.name.raw.rpartition(b"/")[0])) for entry in entries]
