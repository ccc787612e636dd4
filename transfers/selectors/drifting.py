"""What packs hold and what the latest scans found otherwise: reads for drift, for delta packs and for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from inventory.models import Entry, ListedBy, Resource, Scan, ScanChange, ScanState
from inventory.rawrows import rows_raw
from inventory.selectors import latest_scan
from transfers.engine.types import Member
from transfers.models import Build, BuildState, Item, ItemBasis, ItemDrift, Pack, RevisionState
from transfers.selectors.lists import members_stream

_HOME = (BuildState.VERIFIED, BuildState.OPENED, BuildState.PERMITTED)


@dataclass(frozen=True, slots=True)
class Held:
    """What a pack and its delta packs hold together, by name."""

    members: Mapping[bytes, Member]
    touched: frozenset[bytes]  # names whose inode was written since
    is_whole: bool  # False when a scan found more changes than are kept, so that `touched` may lack some


def build_of(item: Item) -> Build | None:
    """The newest build of exactly this item's content; None when there is none."""
    same = item.pack.builds.exclude(state=BuildState.REPLACED).filter(entry_list=item.entry_list_id)
    return same.select_related("member_list", "item").order_by("-number").first()


def deltas_of(pack: Pack, revision_id: int, *, before: int | None = None) -> list[Item]:
    """The delta packs of a pack in a revision, in order; `before`: only those that stand before that position."""
    rows = Item.objects.filter(revision_id=revision_id, delta_of=pack).exclude(entry_list=None)
    rows = rows if before is None else rows.filter(position__lt=before)
    return list(rows.select_related("pack", "entry_list", "satisfied_list", "here_list").order_by("position", "pk"))


def held_by(item: Item, deltas: Iterable[Item]) -> Held:
    """What an item's pack holds, with what its delta packs hold in place of it."""
    members: dict[bytes, Member] = {}
    touched: set[bytes] = set()
    is_whole = True
    for one in (item, *deltas):
        build = build_of(one)
        names, is_told = _touched_since(build.item if build is not None else one, build)
        own = _members(one, build)
        touched -= own.keys()
        touched |= names & own.keys()
        is_whole = is_whole and is_told
        members |= own
    return Held(members, frozenset(touched), is_whole)


def _members(item: Item, build: Build | None) -> dict[bytes, Member]:
    lists = [item.here_list, item.satisfied_list, (build.member_list if build is not None else None) or item.entry_list]
    return {member.name: member for one in lists if one is not None for member in members_stream(one)}


def _touched_since(item: Item, build: Build | None) -> tuple[frozenset[bytes], bool]:
    """Names that scans found written to since the list was made, or since the host began to pack it."""
    found: set[bytes] = set()
    is_whole = True
    packed_at = build.packing_began_at if build is not None and build.packed_at is not None else None
    for basis in item.bases.all():
        since = basis.scanned_at if packed_at is None else max(basis.scanned_at, packed_at)
        later = Scan.objects.filter(resource=basis.resource_id, state=ScanState.FINISHED, finished_at__gt=since)
        for scan in later.exclude(added=None):
            top = scan.root.raw.strip(b"/")
            changes = scan.changes.filter(kind=ScanChange.Kind.CHANGED, reason__in=["time", "content", "replaced"])
            found.update(b"/".join(filter(None, (top, name.raw))) for name in changes.values_list("name", flat=True))
            is_whole = is_whole and scan.knows_identity and scan.changes.count() == scan.drifted
    return frozenset(found), is_whole


def digests_now(resources: Iterable[Resource]) -> dict[bytes, bytes]:
    """SHA-256 of files as the latest scans found them, as far as they are taken, by root-relative name."""
    found: dict[bytes, bytes] = {}
    for resource in resources:
        scan = latest_scan(resource)
        if scan is None:
            continue
        top = scan.root.raw.strip(b"/")
        rows = scan.entries.filter(kind=Entry.Kind.FILE, sha256__isnull=False).order_by()
        for name, sha256 in rows_raw(rows, "name", "sha256"):
            found[b"/".join(part for part in (top, bytes(name)) if part)] = bytes(sha256)
    return found


def scans_now(resources: Iterable[Resource]) -> list[Scan]:
    """The latest scans of resources, as far as there are any."""
    return [scan for resource in resources if (scan := latest_scan(resource)) is not None]


def is_coarse(resources: Iterable[Resource]) -> bool:
    """True when a latest scan tells times in whole seconds."""
    return any(scan.listed_by == ListedBy.SFTP for scan in scans_now(resources))


# -- what is to be compared --------------------------------------------------------------------------------------------


def items_resting() -> QuerySet[Item]:
    """Items whose lists a plan that counts rests on, or that are at home though no plan names them any more."""
    in_force = Item.objects.filter(pack=OuterRef("pack"), revision__state=RevisionState.APPROVED)
    at_home = Q(~Exists(in_force), builds__state__in=_HOME)
    counting = Q(revision__state__in=[RevisionState.APPROVED, RevisionState.PROPOSED])
    return Item.objects.filter(counting | at_home, delta_of=None, entry_list__isnull=False)


def items_to_compare() -> list[int]:
    """Items that rest on a scan which is not the latest one that they were compared with."""
    finished = Scan.objects.filter(resource=OuterRef("resource"), state=ScanState.FINISHED)
    latest = Subquery(finished.order_by("-finished_at", "-pk").values("pk")[:1])
    rows = ItemBasis.objects.filter(item__in=items_resting().values("pk")).annotate(latest_id=latest)
    rows = rows.filter(latest_id__isnull=False).filter(Q(compared=None) | ~Q(compared=F("latest_id")))
    return sorted(set(rows.values_list("item_id", flat=True)))


# -- what pages show ---------------------------------------------------------------------------------------------------


def item_shown(pack: Pack) -> Item | None:
    """The item that a pack's page is about: in force, else proposed, else the one of its newest build."""
    rows = Item.objects.filter(pack=pack).select_related("revision", "delta_of").order_by("-revision__number")
    for state in (RevisionState.APPROVED, RevisionState.PROPOSED):
        found = rows.filter(revision__state=state).first()
        if found is not None:
            return found
    return rows.filter(builds__isnull=False).first()


@dataclass(frozen=True, slots=True)
class DeltaShown:
    """A delta pack with its newest build."""

    pack: Pack
    item: Item
    build: Build | None


def deltas_shown(pack: Pack) -> list[DeltaShown]:
    """The delta packs of a pack, oldest first, each by its newest item that was not declined or withdrawn."""
    gone = [RevisionState.DECLINED, RevisionState.WITHDRAWN]
    rows = pack.delta_items.exclude(revision__state__in=gone).select_related("pack", "revision", "entry_list")
    newest: dict[int, Item] = {item.pack_id: item for item in rows.order_by("pack__position", "revision__number")}
    return [DeltaShown(item.pack, item, build_of(item)) for item in newest.values()]


def drifts_of_plans() -> QuerySet[ItemDrift]:
    """Packs of plans in force that are not at home and whose files are not as they were listed; names are not read."""
    rows = ItemDrift.objects.filter(Q(added__gt=0) | Q(changed__gt=0), item__revision__state=RevisionState.APPROVED)
    rows = rows.exclude(Exists(Build.objects.filter(pack=OuterRef("item__pack"), state__in=_HOME)))
    return rows.select_related("item__pack__plan__host").defer("names").order_by("item__pack__position")


def drift_of(item: Item | None) -> ItemDrift | None:
    """What the latest scans found otherwise than an item's pack holds; None when nothing is known."""
    return ItemDrift.objects.filter(item=item).first() if item is not None else None
