"""Whether an item's list is still what its rules would give, so that proposing does not evaluate everything anew.

A list is made anew when its item is changed, since `item_set` takes it away. What else it rests on is kept with it:
the scans (`bases`), how many of their files had digests, and the lists of the packs before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inventory.models import Entry, Scan
from transfers.models import Item
from transfers.selectors.revisions import items_before
from transfers.services.bases import bases_now
from transfers.services.entry_lists import Preview


def looked_at(rests_on: dict[str, Any], preview: Preview) -> dict[str, Any]:
    """What is kept beside a list: what it rests on, and what pages show of it that its rows do not say."""
    return {
        **rests_on,
        "largest_in": list(preview.largest_in),
        "largest_out": list(preview.largest_out),
    }


def list_is_fresh(item: Item) -> bool:
    """True when evaluating the item's rules now would give the list that it has."""
    if item.entry_list is None or item.leaves_out_carried or item.leaves_out_here or item.delta_of_id is not None:
        return False
    now = list_rests_on(item, bases_now(item))
    return all(item.looked_at.get(name) == told for name, told in now.items())


def list_rests_on(item: Item, scans: Iterable[Scan]) -> dict[str, Any]:
    """What a list that is evaluated now rests on, besides its item. Ask before: what changes meanwhile is later."""
    listings = []
    for scan in sorted(scans, key=lambda scan: scan.pk):
        bare = scan.entries.filter(kind=Entry.Kind.FILE, sha256__isnull=True).count()
        listings.append([scan.key.hex, bare])
    before = [other.entry_list.digest for other in items_before(item) if other.entry_list is not None]
    return {"listings": listings, "before": before}
