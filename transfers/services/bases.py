"""Which scans an item's list was made from: kept with it, so that later scans can be told apart from them."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils import timezone

from inventory.models import Scan
from transfers.models import Item, ItemBasis, Revision
from transfers.selectors.drifting import scans_now


def bases_now(item: Item) -> list[Scan]:
    """The scans that an item's rules are evaluated on now. Ask before: one that finishes meanwhile counts as later."""
    return scans_now(item.resources.all())


def bases_set(item: Item, scans: Iterable[Scan]) -> None:
    """Keep what an item's list was made from; part of the transaction that keeps the list.

    It is compared anew: a build of the same list may be older, and rest on an earlier scan.
    """
    item.bases.all().delete()
    rows = [
        ItemBasis(item=item, resource_id=scan.resource_id, scan=scan, scanned_at=scan.finished_at or timezone.now())
        for scan in scans
    ]
    ItemBasis.objects.bulk_create(rows)


def bases_copy(bases: Iterable[ItemBasis], item: Item) -> None:
    """Give a copied item what its list was made from; it is compared anew, beside the packs of its own revision."""
    rows = [
        ItemBasis(item=item, resource_id=one.resource_id, scan_id=one.scan_id, scanned_at=one.scanned_at)
        for one in bases
    ]
    ItemBasis.objects.bulk_create(rows)


def lists_let_go(draft: Revision) -> None:
    """In a new draft lists are made anew when it is proposed, but for packs that have delta packs, and these."""
    with_deltas = draft.items.exclude(delta_of=None).values("delta_of")
    draft.items.filter(delta_of=None).exclude(pack__in=with_deltas).update(keeps_list=False)
    draft.items.exclude(delta_of=None).update(keeps_list=True)
    draft.items.filter(pack__in=with_deltas).update(keeps_list=True)
