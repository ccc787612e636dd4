"""Two revisions side by side: which packs differ in what, and which members of their lists came, went or changed."""

from __future__ import annotations

from dataclasses import dataclass

from inventory.remote.names import escape
from transfers.engine.types import Member
from transfers.models import EntryList, Mode, Revision
from transfers.selectors.lists import members_stream
from transfers.selectors.revisions import CHANGED, ItemChange, ItemRow, changes_between

LISTED_NAMES = 20
MOST_ENTRIES = 400_000  # of two lists together: more would keep the page waiting


@dataclass(frozen=True, slots=True)
class ListChange:
    """How a list differs from another one: counts, and the first names of each kind, escaped, as paths on the host."""

    added: int
    removed: int
    changed: int
    first_added: tuple[str, ...]
    first_removed: tuple[str, ...]
    first_changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackChange:
    """One pack in two revisions. `members` is None where the lists are the same, or were not compared."""

    change: ItemChange
    members: ListChange | None
    is_too_long: bool


def compare_revisions(before: Revision, after: Revision) -> list[PackChange]:
    """Every pack of either revision, in the order of `after`; packs that it does not hold come last."""
    return [_pack_change(change) for change in changes_between(before, after)]


def _pack_change(change: ItemChange) -> PackChange:
    before, after = change.before, change.after
    if change.what != CHANGED or before is None or after is None or not _are_sorted(before, after):
        return PackChange(change, None, is_too_long=False)
    old, new = before.item.entry_list, after.item.entry_list
    if old is None or new is None or old.pk == new.pk:
        return PackChange(change, None, is_too_long=False)
    if old.entry_count + new.entry_count > MOST_ENTRIES:
        return PackChange(change, None, is_too_long=True)
    return PackChange(change, list_change(old, new), is_too_long=False)


def _are_sorted(before: ItemRow, after: ItemRow) -> bool:
    return {before.item.mode, after.item.mode} <= {Mode.ARCHIVE, Mode.FILES}


def list_change(before: EntryList, after: EntryList) -> ListChange:
    """Compare two lists that are sorted by name, in flat memory. Raises ValueError when one is damaged."""
    counts = {"added": 0, "removed": 0, "changed": 0}
    names: dict[str, list[str]] = {what: [] for what in counts}

    def note(what: str, member: Member) -> None:
        counts[what] += 1
        if len(names[what]) < LISTED_NAMES:
            names[what].append(escape(b"/" + member.name))

    olds, news = members_stream(before), members_stream(after)
    old, new = next(olds, None), next(news, None)
    while old is not None or new is not None:
        if new is None or (old is not None and old.name < new.name):
            assert old is not None
            note("removed", old)
            old = next(olds, None)
        elif old is None or new.name < old.name:
            note("added", new)
            new = next(news, None)
        else:
            if old != new:
                note("changed", new)
            old, new = next(olds, None), next(news, None)
    return ListChange(
        counts["added"],
        counts["removed"],
        counts["changed"],
        tuple(names["added"]),
        tuple(names["removed"]),
        tuple(names["changed"]),
    )
