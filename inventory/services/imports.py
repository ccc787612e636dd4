"""A plan file's tiers and resources into the inventory, by comparing three values of each field.

What the last file said (`loaded`), what this one says, and what the row holds:

    the file says the same as the last one        nothing to do, whatever the team has made of it
    the row already holds what the file says      nothing to do
    the row still holds what the last file said   the file's new value is applied
    the team has changed the row                  the difference waits in a proposal and overwrites nothing
    a scan measured the size                      the measured size stays
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from calculet.audit.services import record
from calculet.lifecycle import Actor
from calculet.people.roles import Act, require
from inventory.manifests.planfile import PlanFile, ResourceLine, TierLine
from inventory.models import Host, PlanFileLoad, Proposal, ProposalState, Resource, SizeBasis, Tier
from inventory.services.tiers import RESOURCE_FIELDS, TIER_FIELDS, changes_digest, resource_fields, resource_values

FILE_NAME_LIMIT = 255


@dataclass(frozen=True, slots=True)
class InventoryLoad:
    """What loading a file did: counts of resources, and the proposal when the team has to agree on something."""

    created: int
    changed: int
    unchanged: int
    proposal: Proposal | None


@dataclass(slots=True)
class _Work:
    created: int = 0
    changed: int = 0
    unchanged: int = 0
    tiers_created: int = 0
    differences: list[dict[str, Any]] = field(default_factory=list)


def inventory_load(*, host: Host, plan_file: PlanFile, file_name: str, digest: str, actor: Actor) -> InventoryLoad:
    """Load a plan file's tiers and resources for a host. `digest` is the SHA-256, in hex, of the file's bytes.

    The file that was loaded last changes nothing and writes nothing. Resources that a file does not name stay.
    Raises NotAllowed.
    """
    require(actor.user, Act.TIER_EDIT)
    require(actor.user, Act.RESOURCE_EDIT)
    with transaction.atomic():
        Host.objects.select_for_update().get(pk=host.pk)  # two loads for one host wait for each other
        last = PlanFileLoad.objects.filter(host=host).order_by("-loaded_at", "-pk").first()
        if last is not None and last.digest == digest:
            return InventoryLoad(0, 0, len(plan_file.resources), None)
        work = _Work()
        _load_tiers(plan_file.tiers, work)
        _load_resources(host, plan_file.resources, work)
        load = PlanFileLoad.objects.create(
            host=host, file_name=file_name[-FILE_NAME_LIMIT:], digest=digest, loaded_by=actor.user
        )
        proposal = _propose(host, load, work.differences, actor)
        detail = {
            "file": load.file_name,
            "digest": digest,
            "created": work.created,
            "changed": work.changed,
            "unchanged": work.unchanged,
            "tiers_created": work.tiers_created,
            "proposed": len(work.differences),
            "proposal": proposal.digest if proposal is not None else "",
        }
        record(act="inventory.loaded", actor=actor, subject=load, host=host, detail=detail)
    return InventoryLoad(work.created, work.changed, work.unchanged, proposal)


def _load_tiers(lines: Sequence[TierLine], work: _Work) -> None:
    """New tiers are made; the team's words for a tier that is there are never overwritten."""
    for line in lines:
        tier, is_new = Tier.objects.get_or_create(
            position=line.position, defaults={"name": line.name, "note": line.note}
        )
        work.tiers_created += is_new
        for name in TIER_FIELDS:
            if getattr(tier, name) != getattr(line, name):
                change = {"tier": tier.position, "field": name, "from": getattr(tier, name), "to": getattr(line, name)}
                work.differences.append(change)


def _load_resources(host: Host, lines: Sequence[ResourceLine], work: _Work) -> None:
    rows = {row.name: row for row in Resource.objects.filter(host=host).select_related("tier")}
    for line in lines:
        row, said = rows.get(line.name), _said(line)
        if row is None:
            Resource.objects.create(host=host, name=line.name, loaded=said, **resource_fields(said))
            work.created += 1
        elif _merge(row, said, work):
            work.changed += 1
        else:
            work.unchanged += 1


def _merge(row: Resource, said: dict[str, Any], work: _Work) -> bool:
    """Apply what only the file changed, and note what both changed. True when the row was changed."""
    holds, before = resource_values(row), dict(row.loaded or {})
    apply: dict[str, Any] = {}
    for name in RESOURCE_FIELDS:
        if said[name] == before.get(name) or said[name] == holds[name]:
            continue
        if name == "size" and row.size_basis == SizeBasis.EXACT:
            continue
        if name in before and holds[name] == before[name]:
            apply[name] = said[name]
        else:
            work.differences.append({"resource": row.name, "field": name, "from": holds[name], "to": said[name]})
    fields = resource_fields(apply)
    if "path" in apply and row.size_basis == SizeBasis.EXACT:
        fields["size_bytes"], fields["size_basis"] = said["size"]  # it was measured at the other path
    if said != before:
        fields["loaded"] = said
    if fields:
        Resource.objects.filter(pk=row.pk).update(**fields)
    return bool(apply)


def _said(line: ResourceLine) -> dict[str, Any]:
    """A line's values as JSON can say them. Exact is only what a scan here measured, so a file's word is declared."""
    basis = SizeBasis.UNKNOWN if line.size_bytes is None else SizeBasis(line.size_basis)
    return {
        "path": "" if line.path is None else str(line.path),
        "kind": str(line.kind),
        "tier": line.tier,
        "position": line.position,
        "size": [line.size_bytes, str(SizeBasis.DECLARED if basis == SizeBasis.EXACT else basis)],
        "value": line.value,
        "recommendation": line.recommendation,
    }


def _propose(host: Host, load: PlanFileLoad, differences: list[dict[str, Any]], actor: Actor) -> Proposal | None:
    """The proposal for a load's differences; the same one that waits already is not made twice."""
    if not differences:
        return None
    digest = changes_digest(host, differences)
    waiting = Proposal.objects.filter(host=host, digest=digest, state=ProposalState.PROPOSED).first()
    if waiting is not None:
        return waiting
    return Proposal.objects.create(
        host=host,
        title=f"What {load.file_name} says differently"[:200],
        changes=differences,
        digest=digest,
        author=actor.user,
    )
