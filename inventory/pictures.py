"""Treemaps of folders and of the whole inventory, as boxes for a page to draw. The tables beside them say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Case, F, QuerySet, Value, When
from django.db.models.functions import Coalesce

from inventory.browsing import folder_key
from inventory.models import Entry, Resource, Scan
from inventory.remote.names import escape
from inventory.treemap import Box, treemap

WIDTH, HEIGHT = 1000.0, 320.0
BOXES = 40
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
    rows = list(_weighed(scan, folder)[:BOXES])
    things = [(entry, int(entry.weight)) for entry in rows if entry.weight]  # type: ignore[attr-defined]
    rest = folder.bytes_below - sum(weight for _entry, weight in things)
    sizes = [weight for _entry, weight in things] + ([rest] if rest > 0 else [])
    boxes = treemap(sizes, WIDTH, HEIGHT)
    tiles = []
    for (entry, weight), box in zip(things, boxes, strict=False):
        is_folder = entry.kind == Entry.Kind.FOLDER
        words = escape(entry.name.raw.rpartition(b"/")[2]) + ("/" if is_folder else "")
        key = folder_key(entry.name.raw) if is_folder else ""
        tiles.append(Tile(box, words, weight, key, shade="folder" if is_folder else "file"))
    if rest > 0 and len(boxes) > len(things):
        tiles.append(Tile(boxes[-1], "…", rest, shade="rest"))
    return tiles


def _weighed(scan: Scan, folder: Entry) -> QuerySet[Entry]:
    weight = Case(
        When(kind=Entry.Kind.FOLDER, then=Coalesce(F("bytes_below"), Value(0))),
        When(kind=Entry.Kind.FILE, then=F("size_bytes")),
        default=Value(0),
    )
    return scan.entries.filter(parent=folder.position).annotate(weight=weight).order_by("-weight", "position")


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
            shade=f"t{min(one.tier.position, 9)}" if one.tier is not None else "none",
        )
        for one, box in zip(sized, boxes, strict=True)
    ]
