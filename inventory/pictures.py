"""Treemaps of folders and of the whole inventory, as boxes for a page to draw. The tables beside them say the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from inventory.browsing import folder_key
from inventory.columns import columns_made, columns_of
from inventory.models import Entry, Resource, Scan, Tier
from inventory.owning import runs_of
from inventory.remote.names import escape
from inventory.treemap import Box, treemap

WIDTH, HEIGHT = 1000.0, 320.0
BOXES = 40
SORTED_HERE = 2000
_LETTER_WIDTH, _LINE_HEIGHT = 7.0, 16.0


@dataclass(frozen=True, slots=True)
class Tile:
    """One box: what it is, its bytes, and where a click leads (a folder's key, a resource's id; empty for none)."""

    box: Box
    words: str
    size_bytes: int
    key: str = ""
    resource: int | None = None
    shade: str = "none"  # t1 … t9 of tiers, or folder, file, rest

    @property
    def label(self) -> str:
        """The words as far as they fit into the box; empty when none would be readable."""
        room = int((self.box.width - 8) / _LETTER_WIDTH)
        if room < 3 or self.box.height < _LINE_HEIGHT + 2:
            return ""
        return self.words if len(self.words) <= room else self.words[: room - 1] + "…"


def folder_picture(scan: Scan, folder: Entry) -> list[Tile]:
    """What lies in a folder by its bytes; the small ones as one. Empty when nothing has any."""
    if not folder.bytes_below:
        return []
    rows = [(entry, _weight(entry)) for entry in _heaviest(scan, folder)]
    things = [(entry, weight) for entry, weight in rows if weight]
    rest = folder.bytes_below - sum(weight for _entry, weight in things)
    sizes = [weight for _entry, weight in things] + ([rest] if rest > 0 else [])
    boxes = treemap(sizes, WIDTH, HEIGHT)
    tiles, runs = [], _owned(scan)
    for (entry, weight), box in zip(things, boxes, strict=False):
        is_folder = entry.kind == Entry.Kind.FOLDER
        words = escape(entry.name.raw.rpartition(b"/")[2]) + ("/" if is_folder else "")
        key = folder_key(entry.name.raw) if is_folder else ""
        tier = next(owner.tier for begin, end, owner in reversed(runs) if begin <= entry.position < end)
        shade = _shade(tier) if tier is not None else "folder" if is_folder else "file"
        tiles.append(Tile(box, words, weight, key, shade=shade))
    if rest > 0 and len(boxes) > len(things):
        tiles.append(Tile(boxes[-1], "…", rest, shade="rest"))
    return tiles


def _owned(scan: Scan) -> list[tuple[int, int, Resource]]:
    """Runs of positions with the resource that they belong to; of two, the later one counts."""
    columns = columns_made(scan)
    inside = [] if columns is None else runs_of(scan, columns)[1:]
    if columns is not None:
        inside = [(columns.positions[begin], columns.positions[end - 1] + 1, one) for begin, end, one in inside]
    return [(0, sys.maxsize, scan.resource), *inside]


def _shade(tier: Tier) -> str:
    return f"t{min(tier.position, 9)}"


def _heaviest(scan: Scan, folder: Entry) -> list[Entry]:
    """What lies directly in a folder, the largest of it, largest first."""
    inside = scan.entries.filter(parent=folder.position).order_by("position")
    rows = list(inside[: SORTED_HERE + 1])
    if len(rows) > SORTED_HERE:  # a folder of a million: its listing knows the largest without reading all rows
        columns = columns_of(scan)
        own = columns.number_at(folder.position)
        largest = islice((number for number in columns.by_size if columns.parents[number] == own), BOXES)
        rows = list(inside.filter(position__in=[columns.positions[number] for number in largest]))
    return sorted(rows, key=lambda entry: (-_weight(entry), entry.position))[:BOXES]


def _weight(entry: Entry) -> int:
    if entry.kind == Entry.Kind.FOLDER:
        return entry.bytes_below or 0
    return entry.size_bytes if entry.kind == Entry.Kind.FILE else 0


def inventory_picture(resources: Sequence[Resource]) -> list[Tile]:
    """Every resource with a size, coloured by tier. What lies inside another is drawn for itself as well."""
    sized = sorted((one for one in resources if one.size_bytes), key=lambda one: -(one.size_bytes or 0))[:BOXES]
    boxes = treemap([one.size_bytes or 0 for one in sized], WIDTH, HEIGHT)
    return [
        Tile(
            box,
            one.name,
            one.size_bytes or 0,
            resource=one.pk,
            shade=_shade(one.tier) if one.tier is not None else "none",
        )
        for one, box in zip(sized, boxes, strict=True)
    ]
