"""Which pack of a revision carries which content, so that no byte is brought home twice.

Digests are those that were taken at the source and are remembered by the identity of each file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from inventory.models import Entry, Resource
from inventory.rawrows import rows_raw
from inventory.selectors import latest_scan
from transfers.engine.satisfied import Carrier, Known, Shared, share
from transfers.engine.types import Member
from transfers.models import Item, Mode, Revision
from transfers.selectors.lists import members_stream

CARRYING_MODES = (Mode.ARCHIVE, Mode.FILES, Mode.EXISTING)  # parts are joined: none of them is a file at home
LEAVING_MODES = (Mode.ARCHIVE, Mode.FILES)


class CarrierIndex:
    """What the items that were added carry. Add them in their order: the first one that carries a digest keeps it."""

    def __init__(self) -> None:
        self._places: dict[bytes, Carrier] = {}
        self._lists: dict[str, str] = {}  # pack → digest of its list

    @classmethod
    def before(cls, item: Item) -> CarrierIndex:
        """Of the items that stand before one in its revision and were previewed."""
        found = cls()
        for other in items_in_order(item.revision):
            if (other.position, other.pack.name) >= (item.position, item.pack.name):
                break
            found.add(other)
        return found

    def add(self, item: Item) -> None:
        """Take in what an item carries; one that was not previewed carries nothing yet."""
        if item.entry_list is None or item.mode not in CARRYING_MODES:
            return
        name = item.pack.name
        self._lists[name] = item.entry_list.digest
        known = _known(item.resources.all())
        if not known:
            return
        for member in members_stream(item.entry_list):
            told = known.get(member.name) if member.kind == "file" else None
            if told is not None:
                self._places.setdefault(told.sha256, Carrier(name, member.name))

    def share(self, item: Item, members: Iterable[Member]) -> Shared:
        """Take an item's list apart into what it carries itself and what is carried elsewhere."""
        known = _known(item.resources.all()) if item.mode in LEAVING_MODES else {}
        is_archive = item.mode == Mode.ARCHIVE
        return share(item.pack.name, members, known, self._places, links_are_free=is_archive)

    def told(self, item: Item, shared: Shared) -> list[dict[str, Any]]:
        """What is kept with the item: who carries how much of it, and by which list."""
        return [
            {
                "pack": pack,
                "list": "" if pack == item.pack.name else self._lists[pack],
                "files": amount.files,
                "bytes": amount.size_bytes,
            }
            for pack, amount in sorted(shared.by_pack.items())
        ]


def items_in_order(revision: Revision) -> list[Item]:
    """A revision's items in the order in which they carry."""
    rows = revision.items.select_related("pack", "entry_list").prefetch_related("resources")
    return list(rows.order_by("position", "pack__name"))


def _known(resources: Iterable[Resource]) -> Mapping[bytes, Known]:
    """What the latest scans know of files with a digest, by root-relative name."""
    found: dict[bytes, Known] = {}
    for resource in resources:
        scan = latest_scan(resource)
        if scan is None:
            continue
        top = scan.root.raw.strip(b"/")
        rows = scan.entries.filter(kind=Entry.Kind.FILE, sha256__isnull=False, size_bytes__gt=0).order_by()
        for name, sha256, device, inode, links in rows_raw(rows, "name", "sha256", "device", "inode", "link_count"):
            full = b"/".join(part for part in (top, bytes(name)) if part)
            file = (device, inode) if links > 1 and inode else None
            found.setdefault(full, Known(bytes(sha256), file))
    return found


def unknown_words(item: Item, shared: Shared) -> list[str]:
    """What is said of files that may be carried elsewhere and whose digest nobody knows."""
    count = shared.unknown.files
    if not count or not item.leaves_out_carried:
        return []
    words = ngettext(
        "%(count)s file has no digest from the source yet, so nobody knows whether another pack carries it. Take the "
        "digests of the resources to leave out more.",
        "%(count)s files have no digest from the source yet, so nobody knows whether another pack carries them. Take "
        "the digests of the resources to leave out more.",
        count,
    )
    return [words % {"count": f"{count:,}"}]


def need_content(item: Item, members: list[Member]) -> None:
    """See that a pack that leaves things out still carries something. Raises ValidationError."""
    if not members or (item.mode == Mode.FILES and not any(member.kind == "file" for member in members)):
        raise ValidationError(
            _(
                "Other packs carry everything that is in pack “%(pack)s”, so nothing would be left of it. Take it out "
                "of the draft, let it carry its files itself, or choose the mode “archive”, which keeps its folders."
            )
            % {"pack": item.pack.name}
        )


def need_carriers(item: Item, told: Iterable[Mapping[str, Any]]) -> None:
    """See that what an item leaves out is still carried by the lists that it was previewed with.

    Call it in the transaction that keeps the item's list. Raises ValidationError.
    """
    now = dict(item.revision.items.exclude(entry_list=None).values_list("pack__name", "entry_list__digest"))
    for one in told:
        if one["list"] and now.get(one["pack"]) != one["list"]:
            raise ValidationError(
                _(
                    "Pack “%(pack)s” leaves out files that pack “%(carrier)s” carries, and somebody changed "
                    "“%(carrier)s” at the same moment. Nothing was kept of this; preview it again."
                )
                % {"pack": item.pack.name, "carrier": one["pack"]}
            )


def carried_forget(revision: Revision, pack_name: str, *, list_digest: str = "") -> None:
    """Let items of a draft be previewed anew that leave content to a pack which does not carry that list any more."""
    for item in revision.items.exclude(satisfied_list=None).exclude(pack__name=pack_name):
        if any(one["pack"] == pack_name and one["list"] != list_digest for one in item.carriers):
            Item.objects.filter(pk=item.pk).update(entry_list=None, satisfied_list=None, carriers=[])
