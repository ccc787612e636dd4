"""Plans for pages: what is in force, what is drafted or proposed, and what differs between two revisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from inventory.models import Host, Resource
from inventory.remote.names import escape
from transfers.models import Item, Mode, PackingSample, Plan, Revision, RevisionState, SampleState
from transfers.selectors.board import items_for_pages
from transfers.selectors.lists import first_files
from transfers.selectors.samples import share_of

SAMPLE_NAMES = 20
ADDED, REMOVED, CHANGED, SAME = "added", "removed", "changed", "same"


@dataclass(frozen=True, slots=True)
class PlanState:
    """A host and how far its plan is."""

    host: Host
    in_force: Revision | None
    draft: Revision | None
    proposed: tuple[Revision, ...]


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item with what its list comes to."""

    item: Item
    resources: tuple[Resource, ...]
    sample: PackingSample | None = None  # of what the list comes to when it is packed

    @property
    def packed_about(self) -> int | None:
        """What a sample says that the pack comes to; None when none was taken."""
        if self.sample is None or self.sample.state != SampleState.FINISHED or self.total_bytes is None:
            return None
        return int(self.total_bytes * share_of(self.sample.raw_bytes, self.sample.packed_bytes))

    @property
    def may_sample(self) -> bool:
        """True when a sample of the list can be asked for."""
        is_open = self.sample is None or self.sample.state == SampleState.FAILED
        return is_open and self.item.mode == Mode.ARCHIVE and bool(self.total_bytes)

    @property
    def file_count(self) -> int | None:
        return self.item.entry_list.file_count if self.item.entry_list is not None else None

    @property
    def total_bytes(self) -> int | None:
        return self.item.entry_list.total_bytes if self.item.entry_list is not None else None


@dataclass(frozen=True, slots=True)
class ItemChange:
    """What a revision does to one pack, beside the revision in force. `fields` names what differs."""

    what: str
    pack_name: str
    before: ItemRow | None
    after: ItemRow | None
    fields: tuple[str, ...]


def plan_states() -> list[PlanState]:
    """Every host, with or without a plan, by name."""
    open_states = [RevisionState.APPROVED, RevisionState.DRAFT, RevisionState.PROPOSED]
    by_host: dict[int, list[Revision]] = {}
    for revision in revisions_for_pages().filter(state__in=open_states):
        by_host.setdefault(revision.plan.host_id, []).append(revision)
    states = []
    for host in Host.objects.order_by("name"):
        rows = by_host.get(host.pk, [])
        states.append(
            PlanState(
                host=host,
                in_force=_first(rows, RevisionState.APPROVED),
                draft=_first(rows, RevisionState.DRAFT),
                proposed=tuple(row for row in rows if row.state == RevisionState.PROPOSED),
            )
        )
    return states


def _first(rows: Iterable[Revision], state: RevisionState) -> Revision | None:
    return next((row for row in rows if row.state == state), None)


def revisions_for_pages() -> QuerySet[Revision, Revision]:
    """Revisions with author and host; `item_count` is added to each."""
    return (
        Revision.objects.select_related("plan__host", "author")
        .prefetch_related("approvals__person")
        .annotate(item_count=Count("items"))
        .order_by("plan", "-number")
    )


def revision_in_force(plan: Plan | None) -> Revision | None:
    """The newest approved revision."""
    return revisions_for_pages().filter(plan=plan, state=RevisionState.APPROVED).first() if plan is not None else None


def item_rows(revision: Revision | None) -> list[ItemRow]:
    """The items of a revision in their order."""
    if revision is None:
        return []
    items = items_for_pages().filter(revision=revision).prefetch_related("resources").order_by("position", "pack__name")
    items = items.select_related("drift", "delta_of").defer("drift__names")
    rows = list(items)
    samples = {one.entry_list_id: one for one in PackingSample.objects.filter(entry_list__items__in=rows)}
    return [ItemRow(item, tuple(item.resources.all()), samples.get(item.entry_list_id or 0)) for item in rows]


def totals_of(rows: Iterable[ItemRow]) -> tuple[int, int]:
    """(files, bytes) of items that were previewed."""
    found = list(rows)
    return sum(row.file_count or 0 for row in found), sum(row.total_bytes or 0 for row in found)


def changes_between(before: Revision | None, after: Revision) -> list[ItemChange]:
    """What `after` changes beside `before` (None: everything is new), in the order of `after`, removed packs last."""
    old = {row.item.pack_id: row for row in item_rows(before)}
    changes = []
    for row in item_rows(after):
        earlier = old.pop(row.item.pack_id, None)
        fields = _differing(earlier, row) if earlier is not None else ()
        what = ADDED if earlier is None else CHANGED if fields else SAME
        changes.append(ItemChange(what, row.item.pack.name, earlier, row, fields))
    changes += [ItemChange(REMOVED, row.item.pack.name, row, None, ()) for row in old.values()]
    return changes


def _differing(before: ItemRow, after: ItemRow) -> tuple[str, ...]:
    old, new = before.item, after.item
    pairs = {
        "mode": (old.mode, new.mode),
        "resources": ({row.pk for row in before.resources}, {row.pk for row in after.resources}),
        "include rules": (old.include_rules, new.include_rules),
        "exclude rules": (old.exclude_rules, new.exclude_rules),
        "chunk size": (old.chunk_bytes, new.chunk_bytes),
        "names": (old.stretch, new.stretch),
        "list of files": (old.entry_list_id, new.entry_list_id),
        "left to others": (old.satisfied_list_id, new.satisfied_list_id),
        "already here": (old.here_list_id, new.here_list_id),
    }
    return tuple(name for name, (one, other) in pairs.items() if one != other)


def list_sample(item: Item, limit: int = SAMPLE_NAMES) -> list[str]:
    """The first names of the list that was previewed, escaped, as paths on the host."""
    if item.entry_list is None:
        return []
    return [escape(b"/" + member.name) for member in first_files(item.entry_list, limit)]


def items_before(item: Item) -> list[Item]:
    """The items that stand before one in its revision, in their order."""
    rows = item.revision.items.select_related("pack", "entry_list").order_by("position", "pack__name")
    return [other for other in rows if (other.position, other.pack.name) < (item.position, item.pack.name)]
