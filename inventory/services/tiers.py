"""Proposals to change what the team agreed on: one person proposes, another approves exactly that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit.chain import canonical_json
from calculet.lifecycle import Actor, StateConflict, advance
from calculet.people.roles import Act, require
from inventory.models import Host, Proposal, ProposalState, Resource, SizeBasis, Tier
from inventory.remote.names import RemoteName, unescape
from inventory.services.errors import ApprovalRefused, ProposalStale
from inventory.tier_board import ADDED, ORDER

# The fields that a change may name, in the order in which a page shows them. “size” is bytes and basis in one.
RESOURCE_FIELDS = ("path", "kind", "tier", "position", "size", "value", "recommendation")
TIER_FIELDS = ("name", "note")

Change = Mapping[str, Any]
"""{"resource": name | "tier": position, "field": …, "from": …, "to": …} in values that JSON can say."""


def changes_digest(host: Host, changes: Sequence[Change]) -> str:
    """What an approval binds to: SHA-256, in hex, of the changes in canonical form, with the host's name."""
    text = canonical_json({"host": host.name, "changes": [dict(change) for change in changes]})
    return hashlib.sha256(text.encode()).hexdigest()


def resource_values(resource: Resource) -> dict[str, Any]:
    """A resource's fields as changes and plan files name them, in values that JSON can say."""
    return {
        "path": str(resource.path),
        "kind": str(resource.kind),
        "tier": resource.tier.position if resource.tier is not None else None,
        "position": resource.position,
        "size": [resource.size_bytes, str(resource.size_basis)],
        "value": resource.value,
        "recommendation": resource.recommendation,
    }


def resource_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The other way round: values for the row's columns. Raises Tier.DoesNotExist."""
    fields: dict[str, Any] = {}
    for name, value in values.items():
        if name == "size":
            fields["size_bytes"], fields["size_basis"] = value
        elif name == "path":
            fields["path"] = RemoteName(unescape(value))
        elif name == "tier":
            fields["tier"] = None if value is None else Tier.objects.get(position=value)
        else:
            fields[name] = value
    return fields


def proposal_approve(*, proposal: Proposal, digest: str, actor: Actor, note: str = "") -> None:
    """Apply a proposal's changes, all of them or none. `digest` is that of the content that was looked at.

    Raises NotAllowed, ApprovalRefused (the author), ProposalStale (content or rows have moved on), StateConflict.
    """
    require(actor.user, Act.TIER_APPROVE)
    _refuse_author(proposal, actor)
    with transaction.atomic():
        held = _held(proposal, digest)
        for change in held.changes:
            _apply(held, change)
        _decide(proposal, ProposalState.APPROVED, "proposal.approved", actor, note)


def proposal_decline(*, proposal: Proposal, digest: str, actor: Actor, note: str = "") -> None:
    """Turn a proposal down; nothing else changes. Raises NotAllowed, ApprovalRefused, ProposalStale, StateConflict."""
    require(actor.user, Act.TIER_APPROVE)
    _refuse_author(proposal, actor)
    with transaction.atomic():
        _held(proposal, digest)
        _decide(proposal, ProposalState.DECLINED, "proposal.declined", actor, note)


def proposal_withdraw(*, proposal: Proposal, actor: Actor, note: str = "") -> None:
    """Take one's own proposal back. Raises NotAllowed, ApprovalRefused (another's), StateConflict."""
    require(actor.user, Act.TIER_EDIT)
    if actor.user is None or proposal.author_id != actor.user.pk:
        raise ApprovalRefused(proposal.title, _("only its author can withdraw it."))
    with transaction.atomic():
        _decide(proposal, ProposalState.WITHDRAWN, "proposal.withdrawn", actor, note)


def _refuse_author(proposal: Proposal, actor: Actor) -> None:
    if actor.user is None or proposal.author_id == actor.user.pk or actor.user.pk in proposal.editors:
        raise ApprovalRefused(proposal.title, _("whoever made it cannot decide it. Ask another approver."))


def _held(proposal: Proposal, digest: str) -> Proposal:
    """The stored proposal, locked, with the content that was looked at. Raises ProposalStale."""
    held = Proposal.objects.select_for_update(of=("self",)).select_related("host").get(pk=proposal.pk)
    if held.state != ProposalState.PROPOSED:
        raise StateConflict(str(held), ProposalState.PROPOSED, "decided", held.state)
    if digest != held.digest or changes_digest(held.host, held.changes) != held.digest:
        raise ProposalStale(held.title, _("its content is not the one that was looked at. Look at the page again."))
    return held


def _decide(proposal: Proposal, to: str, act: str, actor: Actor, note: str) -> None:
    advance(
        proposal,
        to,
        act=act,
        actor=actor,
        detail={"digest": proposal.digest, "changes": len(proposal.changes), "note": note},
        decided_by=actor.user,
        decided_at=timezone.now(),
        decision_note=note,
    )


def _apply(proposal: Proposal, change: Change) -> None:
    if "tier" in change:
        _apply_to_tier(proposal, change)
        return
    name, field = str(change["resource"]), str(change["field"])
    row = Resource.objects.select_for_update(of=("self",)).filter(host=proposal.host, name=name).first()
    if row is None:
        raise ProposalStale(
            proposal.title,
            _("“%(name)s” is not there any more. Decline it and load the file again.") % {"name": name},
        )
    if resource_values(row)[field] != change["from"]:
        raise ProposalStale(
            proposal.title,
            _(
                "the %(field)s of “%(name)s” was changed since the proposal was made. Decline it and load the file "
                "again."
            )
            % {"field": _(field), "name": name},
        )
    try:
        fields = resource_fields({field: change["to"]})
    except Tier.DoesNotExist as error:
        raise ProposalStale(
            proposal.title, _("there is no tier %(tier)s. Decline it.") % {"tier": change["to"]}
        ) from error
    if field == "path" and row.size_basis == SizeBasis.EXACT:
        fields |= {"size_bytes": None, "size_basis": SizeBasis.UNKNOWN}  # it was measured at the other path
    Resource.objects.filter(pk=row.pk).update(**fields)


def _apply_to_tier(proposal: Proposal, change: Change) -> None:
    field = str(change["field"])
    if field == ADDED:
        _apply_added(proposal, change)
        return
    if field == ORDER:
        _apply_order(proposal, change)
        return
    tier = Tier.objects.select_for_update().filter(position=change["tier"]).first()
    if tier is None or getattr(tier, field) != change["from"]:
        raise ProposalStale(
            proposal.title,
            _("tier %(tier)s was changed since the proposal was made. Decline it and load the file again.")
            % {"tier": change["tier"]},
        )
    Tier.objects.filter(pk=tier.pk).update(**{field: change["to"]})


def _apply_added(proposal: Proposal, change: Change) -> None:
    if Tier.objects.filter(position=change["tier"]).exists():
        raise ProposalStale(
            proposal.title,
            _("there is a tier %(tier)s already. Decline it and make the change again.") % {"tier": change["tier"]},
        )
    Tier.objects.create(position=change["tier"], name=str(change["to"]))


def _apply_order(proposal: Proposal, change: Change) -> None:
    """Give every tier its new position, by way of positions that nobody has."""
    tiers = {tier.position: tier.pk for tier in Tier.objects.select_for_update().order_by("position")}
    if sorted(tiers) != list(change["from"]) or sorted(change["to"]) != sorted(tiers):
        raise ProposalStale(
            proposal.title, _("tiers were added or ordered since it was made. Decline it and make the change again.")
        )
    aside = max(tiers) + 1
    for number, position in enumerate(change["to"]):
        Tier.objects.filter(pk=tiers[position]).update(position=aside + number)
    for number, position in enumerate(change["to"]):
        Tier.objects.filter(pk=tiers[position]).update(position=sorted(tiers)[number])
