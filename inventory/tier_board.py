"""The tiers as columns with their resources, as they would be with a host's open draft applied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calculet.audit.chain import canonical_json
from inventory.models import Host, Proposal, ProposalState, Resource, Tier
from inventory.selectors import Sums

ADDED, ORDER = "added", "order"  # fields of changes about tiers beside their name and note

Change = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Card:
    """A resource on the board; `from_tier` is the position of its tier in force when the draft moves it."""

    resource: Resource
    is_moved: bool
    from_tier: int | None


@dataclass(slots=True)
class Column:
    """A tier, or (position None) the resources without one. `before` is its name in force when the draft changes it."""

    position: int | None
    name: str
    note: str = ""
    is_new: bool = False
    before: str = ""
    cards: list[Card] = field(default_factory=list)
    left: int | None = None  # the columns beside it, for moving by buttons; 0 is “no tier”
    right: int | None = None

    @property
    def key(self) -> int:
        """What a form sends: a tier's position, 0 for none."""
        return self.position or 0

    @property
    def sums(self) -> list[tuple[str, int]]:
        """Bytes by how far they can be trusted."""
        sums = Sums()
        for card in self.cards:
            sums.add(card.resource)
        return sums.by_basis()


@dataclass(frozen=True, slots=True)
class TierBoard:
    """The board that a person sees. `seen` names exactly this content; an edit says which one it was made on."""

    columns: list[Column]
    draft: Proposal | None
    seen: str

    @property
    def changes(self) -> list[dict[str, Any]]:
        return [] if self.draft is None else list(self.draft.changes)


def draft_of(host: Host) -> Proposal | None:
    """The host's open draft of tier changes; None when nobody began one."""
    return Proposal.objects.filter(host=host, state=ProposalState.DRAFT).first()


def board_of(host: Host) -> TierBoard:
    """The tiers in force with the draft's changes applied in memory."""
    draft = draft_of(host)
    changes: Sequence[Change] = [] if draft is None else draft.changes
    tiers = list(Tier.objects.order_by("position"))
    resources = list(Resource.objects.filter(host=host).select_related("tier", "host").order_by("position", "name"))
    columns = {tier.position: Column(tier.position, tier.name, tier.note) for tier in tiers}
    columns |= {change["tier"]: Column(change["tier"], change["to"], is_new=True) for change in _of(changes, ADDED)}
    for change in _of(changes, "name"):
        column = columns.get(change["tier"])
        if column is not None:
            column.before, column.name = column.name, change["to"]
    order = next((list(change["to"]) for change in _of(changes, ORDER)), sorted(columns))
    order += [position for position in sorted(columns) if position not in order]
    shown = [columns[position] for position in order if position in columns]
    none = Column(None, "")
    moves = {change["resource"]: change["to"] for change in changes if change.get("field") == "tier"}
    for resource in resources:
        now = resource.tier.position if resource.tier is not None else None
        wanted = moves.get(resource.name, now)
        is_moved = resource.name in moves and wanted != now
        column = columns.get(wanted, none) if wanted is not None else none
        column.cards.append(Card(resource, is_moved, now))
    shown.append(none)
    for number, column in enumerate(shown):
        column.left = shown[number - 1].key if number else None
        column.right = shown[number + 1].key if number + 1 < len(shown) else None
    return TierBoard(shown, draft, _seen(host, changes, tiers, resources))


def positions_of(changes: Sequence[Change]) -> list[int]:
    """Every tier's position, with those that changes add, in the order that changes give them."""
    known = list(Tier.objects.order_by("position").values_list("position", flat=True))
    known += [change["tier"] for change in _of(changes, ADDED) if change["tier"] not in known]
    order = next((list(change["to"]) for change in _of(changes, ORDER)), [])
    return [position for position in order if position in known] + [one for one in known if one not in order]


def in_order(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Changes in the order in which they can be applied: new tiers, then words and moves, then the order of tiers."""
    ranks = {ADDED: 0, "name": 1, "note": 1, ORDER: 3}
    return sorted(
        (dict(change) for change in changes),
        key=lambda change: (ranks.get(change["field"], 2), change.get("tier", 0), change.get("resource", "")),
    )


def _of(changes: Sequence[Change], name: str) -> list[Change]:
    """The changes of tiers that are about one field."""
    return [change for change in changes if "tier" in change and change["field"] == name]


def _seen(host: Host, changes: Sequence[Change], tiers: Sequence[Tier], resources: Sequence[Resource]) -> str:
    content = {
        "host": host.name,
        "changes": [dict(change) for change in changes],
        "tiers": [[tier.position, tier.name] for tier in tiers],
        "resources": sorted([one.name, one.tier.position if one.tier is not None else 0] for one in resources),
    }
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()
