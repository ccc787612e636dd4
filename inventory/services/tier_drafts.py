"""The board of tiers: edits gather in a host's open draft, which becomes a proposal that another person decides.

Nothing in force changes by an edit. Each edit says which board it was made on; when that is not today's, it is refused
and the person gets the fresh board, so that of two who edit at once nothing is lost or doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit.services import record
from calculet.lifecycle import Actor, advance
from calculet.people.roles import Act, require
from inventory.models import Host, Proposal, ProposalState, Resource, Tier
from inventory.services.errors import BoardStale, ValueWrong
from inventory.services.tiers import changes_digest
from inventory.tier_board import ADDED, ORDER, board_of, draft_of, in_order, positions_of

MOST_TIERS = 50

Changes = list[dict[str, Any]]


def resource_move(*, host: Host, resource_name: str, to: int | None, seen: str, actor: Actor) -> None:
    """Put a resource into another tier's column; None means no tier. Back where it is in force undoes the move.

    Raises NotAllowed, BoardStale, ValueWrong.
    """

    def edit(changes: Changes) -> Changes:
        row = Resource.objects.filter(host=host, name=resource_name).select_related("tier").first()
        if row is None:
            raise ValueWrong("resource", _("“%(name)s” is not there any more.") % {"name": resource_name})
        if to is not None and to not in positions_of(changes):
            raise ValueWrong("to", _("There is no tier %(tier)s.") % {"tier": to})
        now = row.tier.position if row.tier is not None else None
        kept = [change for change in changes if change.get("resource") != resource_name]
        return kept if to == now else [*kept, {"resource": resource_name, "field": "tier", "from": now, "to": to}]

    _edit(host, seen, actor, "tiers.resource_moved", {"resource": resource_name, "to": to}, edit)


def tier_add(*, host: Host, name: str, seen: str, actor: Actor) -> None:
    """Add a tier behind the last one. Raises NotAllowed, BoardStale, ValueWrong."""
    wanted = _tier_name(name)

    def edit(changes: Changes) -> Changes:
        known = positions_of(changes)
        if len(known) >= MOST_TIERS:
            raise ValueWrong("name", _("%(count)s tiers are the most.") % {"count": MOST_TIERS})
        position = max(known, default=0) + 1
        added = {"tier": position, "field": ADDED, "from": None, "to": wanted}
        order = next((change for change in changes if change["field"] == ORDER), None)
        if order is not None:
            order["from"], order["to"] = sorted([*known, position]), [*order["to"], position]
        return [*changes, added]

    _edit(host, seen, actor, "tiers.tier_added", {"name": wanted}, edit)


def tier_rename(*, host: Host, position: int, name: str, seen: str, actor: Actor) -> None:
    """Give a tier another name. Raises NotAllowed, BoardStale, ValueWrong."""
    wanted = _tier_name(name)

    def edit(changes: Changes) -> Changes:
        added = next((one for one in changes if one.get("tier") == position and one["field"] == ADDED), None)
        if added is not None:
            added["to"] = wanted
            return changes
        tier = Tier.objects.filter(position=position).first()
        if tier is None:
            raise ValueWrong("position", _("There is no tier %(tier)s.") % {"tier": position})
        kept = [one for one in changes if not (one.get("tier") == position and one["field"] == "name")]
        if wanted == tier.name:
            return kept
        return [*kept, {"tier": position, "field": "name", "from": tier.name, "to": wanted}]

    _edit(host, seen, actor, "tiers.tier_renamed", {"tier": position, "name": wanted}, edit)


def tier_shift(*, host: Host, position: int, step: int, seen: str, actor: Actor) -> None:
    """Put a tier one place to the left (-1) or right (1); at the edge it stays. Raises as the others."""

    def edit(changes: Changes) -> Changes:
        order = positions_of(changes)
        if position not in order:
            raise ValueWrong("position", _("There is no tier %(tier)s.") % {"tier": position})
        at = order.index(position)
        other = min(max(at + (1 if step > 0 else -1), 0), len(order) - 1)
        order[at], order[other] = order[other], order[at]
        kept = [change for change in changes if change["field"] != ORDER]
        if order == sorted(order):
            return kept
        return [*kept, {"tier": 0, "field": ORDER, "from": sorted(order), "to": order}]

    _edit(host, seen, actor, "tiers.tier_shifted", {"tier": position, "step": step}, edit)


def draft_propose(*, host: Host, title: str, seen: str, actor: Actor) -> Proposal:
    """Propose the draft as it was seen; whoever edited or proposed it can't decide it.

    Raises NotAllowed, BoardStale, ValueWrong, StateConflict.
    """
    require(actor.user, Act.TIER_EDIT)
    with transaction.atomic():
        draft = _draft_seen(host, seen)
        if draft is None or not draft.changes:
            raise ValueWrong("title", _("Nothing was changed on the board, so there is nothing to propose."))
        digest = changes_digest(host, draft.changes)
        fields = {
            "title": title.strip()[:200] or _("Tiers of %(host)s") % {"host": host.name},
            "digest": digest,
            "author": actor.user,
            "editors": _with(draft.editors, actor),
            "created_at": timezone.now(),
        }
        detail = {"digest": digest, "changes": len(draft.changes)}
        advance(draft, ProposalState.PROPOSED, act="proposal.proposed", actor=actor, detail=detail, **fields)
    return draft


def draft_discard(*, host: Host, seen: str, actor: Actor) -> None:
    """Throw the draft away as it was seen; the board is what is in force. Raises NotAllowed, BoardStale."""
    require(actor.user, Act.TIER_EDIT)
    with transaction.atomic():
        draft = _draft_seen(host, seen)
        if draft is not None:
            advance(
                draft,
                ProposalState.WITHDRAWN,
                act="proposal.discarded",
                actor=actor,
                detail={"changes": len(draft.changes)},
                decided_by=actor.user,
                decided_at=timezone.now(),
            )


def _edit(
    host: Host, seen: str, actor: Actor, act: str, detail: dict[str, Any], edit: Callable[[Changes], Changes]
) -> None:
    require(actor.user, Act.TIER_EDIT)
    with transaction.atomic():
        draft = _draft_seen(host, seen)
        before: Changes = [] if draft is None else in_order(draft.changes)
        changes = in_order(edit([dict(change) for change in before]))
        if changes == before:
            return
        digest = changes_digest(host, changes)
        if draft is None:
            draft = Proposal.objects.create(
                host=host,
                state=ProposalState.DRAFT,
                title=_("Tiers of %(host)s") % {"host": host.name},
                changes=changes,
                digest=digest,
                author=actor.user,
                editors=_with([], actor),
            )
        else:
            editors = _with(draft.editors, actor)
            Proposal.objects.filter(pk=draft.pk).update(changes=changes, digest=digest, editors=editors)
        record(act=act, actor=actor, subject=draft, host=host, detail=detail)


def _draft_seen(host: Host, seen: str) -> Proposal | None:
    """The draft, behind the host's lock, when the board is the one that was seen. Raises BoardStale."""
    Host.objects.select_for_update().get(pk=host.pk)
    if board_of(host).seen != seen:
        raise BoardStale(host.name)
    return draft_of(host)


def _tier_name(name: str) -> str:
    wanted = " ".join(name.split())
    if not wanted or len(wanted) > 120 or not wanted.isprintable():
        raise ValueWrong("name", _("A tier needs a name of up to 120 characters. Nothing was changed."))
    return wanted


def _with(editors: list[int], actor: Actor) -> list[int]:
    return sorted({*editors, *([actor.user.pk] if actor.user is not None else [])})
