"""Plan files: a file's tiers, resources, packs and capabilities into the product, and the plan back into a file.

The same file again changes nothing. Packs become a draft that a person proposes; a draft that is open and says
otherwise is left as it is, and the result names what differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from calculet.audit import services as audit
from calculet.lifecycle import Actor
from calculet.people.roles import Act, may, require
from inventory.manifests.planfile import (
    Basis,
    CapabilityLine,
    PackLine,
    PlanFile,
    ResourceLine,
    TierLine,
    read_plan_file,
    write_plan_file,
)
from inventory.models import Host, Resource, Tier
from inventory.services.imports import InventoryLoad, inventory_load
from transfers.engine.slices import Stretch
from transfers.models import Capability, CapabilityNeed, Item, Pack, Plan, Revision, RevisionState
from transfers.services.forecasts import clear_by_state, rate_state
from transfers.services.plans import draft_start, item_set

BASIS_WORDS: Mapping[str, Basis] = {"exact": "exact", "declared": "declared", "about": "about", "unknown": "unknown"}


@dataclass(frozen=True, slots=True)
class PlanFileResult:
    """What loading a file did. `draft` is the draft that holds its packs; None when the packs changed nothing."""

    inventory: InventoryLoad
    draft: Revision | None
    packs_set: int
    packs_left: tuple[str, ...]  # an open draft says otherwise about these; it was not overwritten
    capabilities_created: int
    stated_left: tuple[str, ...] = ()  # what the file states of the whole plan and the team states otherwise


def plan_file_load(*, host: Host, content: bytes, file_name: str, actor: Actor) -> PlanFileResult:
    """Load a plan file for a host. Raises NotAllowed, PlanFileError (every fault with its line; nothing is changed)."""
    require(actor.user, Act.PLAN_EDIT)
    plan_file = read_plan_file(content)
    digest = hashlib.sha256(content).hexdigest()
    with transaction.atomic():
        loaded = inventory_load(host=host, plan_file=plan_file, file_name=file_name, digest=digest, actor=actor)
        draft, count, left = _load_packs(host, plan_file, actor)
        capabilities = _load_capabilities(host, plan_file, actor)
        stated = _load_stated(host, plan_file, actor)
    return PlanFileResult(loaded, draft, count, left, capabilities, stated)


def _load_packs(host: Host, plan_file: PlanFile, actor: Actor) -> tuple[Revision | None, int, tuple[str, ...]]:
    resources = {resource.name: resource for resource in host.resources.all()}
    latest = _latest(host)
    rows = latest.items.select_related("pack", "delta_of") if latest is not None else ()
    items = {item.pack.name: item for item in rows}
    wanted = [line for line in plan_file.packs if line.name not in items or not _is_same(items[line.name], line)]
    if not wanted:
        return None, 0, ()
    if latest is not None and latest.state == RevisionState.DRAFT:
        left = tuple(line.name for line in wanted if line.name in items)
        wanted = [line for line in wanted if line.name not in items]
    else:
        left = ()
    if not wanted:
        return None, 0, left
    draft = draft_start(host=host, actor=actor)
    for line in wanted:
        _load_pack(draft, line, [resources[name] for name in line.resources], actor)
    return draft, len(wanted), left


def _latest(host: Host) -> Revision | None:
    """What the file is compared with: the open draft, else what waits for approval, else what is in force."""
    for state in (RevisionState.DRAFT, RevisionState.PROPOSED, RevisionState.APPROVED):
        found = Revision.objects.filter(plan__host=host, state=state).order_by("-number").first()
        if found is not None:
            return found
    return None


def _is_same(item: Item, line: PackLine) -> bool:
    names = sorted(item.resources.values_list("name", flat=True))
    return (
        item.mode == line.mode
        and names == sorted(set(line.resources))
        and list(item.include_rules) == list(line.include)
        and list(item.exclude_rules) == list(line.exclude)
        and item.chunk_bytes == line.chunk_bytes
        and item.leaves_out_carried == line.leaves_out_carried
        and item.leaves_out_here == line.leaves_out_here
        and item.stretch == Stretch(line.first_name, line.end_name)
        and (item.delta_of.name if item.delta_of is not None else "") == line.delta_of
    )


def _load_pack(draft: Revision, line: PackLine, resources: list[Resource], actor: Actor) -> None:
    is_new = not draft.plan.packs.filter(name=line.name).exists()
    item = item_set(
        revision=draft,
        pack_name=line.name,
        mode=line.mode,
        resources=resources,
        include_rules=line.include,
        exclude_rules=line.exclude,
        chunk_bytes=line.chunk_bytes,
        aim=line.aim if is_new else "",
        leaves_out_carried=line.leaves_out_carried,
        leaves_out_here=line.leaves_out_here,
        stretch=Stretch(line.first_name, line.end_name),
        actor=actor,
    )
    base = draft.plan.packs.get(name=line.delta_of) if line.delta_of else None
    Item.objects.filter(pk=item.pk).update(delta_of=base, came_of=list(line.came_of))
    if is_new and line.on_hold:
        Pack.objects.filter(pk=item.pack_id).update(
            on_hold=True,
            hold_reason=line.hold_reason,
            hold_until_at=line.hold_until_at,
            hold_until_rest=line.hold_until_rest,
            hold_until_rate=line.hold_until_rate,
        )


def _load_stated(host: Host, plan_file: PlanFile, actor: Actor) -> tuple[str, ...]:
    """Take over what the file states of the whole plan where the team has stated nothing; returns what differs."""
    day, rate, percent = plan_file.clear_by, plan_file.stated_bytes_per_second, plan_file.stated_packed_percent
    if day is None and rate is None and percent is None:
        return ()
    plan, _is_new = Plan.objects.get_or_create(host=host)
    left: list[str] = []
    may_state = may(actor.user, Act.ORDER)
    if day is not None and day != plan.clear_by:
        if plan.clear_by is None and may_state:
            clear_by_state(plan=plan, clear_by=day, actor=actor)
        else:
            left.append("clear_by")
    now = (plan.stated_bytes_per_second, plan.stated_packed_percent)
    wanted = (now[0] if rate is None else rate, now[1] if percent is None else percent)
    if wanted != now:
        if now == (None, None) and may_state:
            rate_state(plan=plan, bytes_per_second=wanted[0], packed_percent=wanted[1], actor=actor)
        else:
            left.append("stated")
    return tuple(left)


def _load_capabilities(host: Host, plan_file: PlanFile, actor: Actor) -> int:
    if not plan_file.capabilities:
        return 0
    plan, _is_new = Plan.objects.get_or_create(host=host)
    packs = {pack.name: pack for pack in plan.packs.all()}
    made = []
    for position, line in enumerate(plan_file.capabilities, 1):
        capability, is_new = Capability.objects.get_or_create(
            plan=plan, name=line.name, defaults={"description": line.description, "position": position}
        )
        if not is_new:
            continue
        made.append(line.name)
        CapabilityNeed.objects.bulk_create(
            CapabilityNeed(capability=capability, group=group, pack=packs[name])
            for group, names in enumerate(line.needs)
            for name in names
        )
    if made:
        audit.record(act="plan.capabilities", actor=actor, subject=plan, host=host, detail={"made": made})
    return len(made)


def plan_file_export(*, host: Host) -> bytes:
    """The host's tiers, resources, packs (of the newest revision), capabilities and what is stated, as a plan file."""
    plan = Plan.objects.filter(host=host).first()
    return write_plan_file(
        PlanFile(
            clear_by=plan.clear_by if plan is not None else None,
            stated_bytes_per_second=plan.stated_bytes_per_second if plan is not None else None,
            stated_packed_percent=plan.stated_packed_percent if plan is not None else None,
            tiers=tuple(TierLine(tier.position, tier.name, tier.note) for tier in Tier.objects.order_by("position")),
            resources=_resource_lines(host),
            packs=_pack_lines(host),
            capabilities=_capability_lines(host),
        )
    )


def _resource_lines(host: Host) -> tuple[ResourceLine, ...]:
    lines = []
    places: dict[int | None, int] = {}
    for row in host.resources.select_related("tier").order_by("tier__position", "position", "name"):
        tier = row.tier.position if row.tier is not None else None
        places[tier] = places.get(tier, 0) + 1
        lines.append(
            ResourceLine(
                name=row.name,
                path=row.path if row.path.raw else None,
                kind=row.kind,
                tier=tier,
                position=places[tier],
                size_bytes=row.size_bytes,
                size_basis=BASIS_WORDS[row.size_basis],
                value=row.value,
                recommendation=row.recommendation,
            )
        )
    return tuple(lines)


def _pack_lines(host: Host) -> tuple[PackLine, ...]:
    latest = _latest(host)
    if latest is None:
        return ()
    return tuple(
        PackLine(
            name=item.pack.name,
            aim=item.pack.aim,
            mode=item.mode,
            resources=tuple(item.resources.order_by("name").values_list("name", flat=True)),
            include=tuple(item.include_rules),
            exclude=tuple(item.exclude_rules),
            chunk_bytes=item.chunk_bytes,
            on_hold=item.pack.on_hold,
            hold_reason=item.pack.hold_reason,
            hold_until_at=item.pack.hold_until_at if item.pack.on_hold else None,
            hold_until_rest=item.pack.on_hold and item.pack.hold_until_rest,
            hold_until_rate=item.pack.hold_until_rate if item.pack.on_hold else None,
            leaves_out_carried=item.leaves_out_carried,
            leaves_out_here=item.leaves_out_here,
            first_name=item.stretch.first,
            end_name=item.stretch.end,
            delta_of=item.delta_of.name if item.delta_of is not None else "",
            came_of=tuple(item.came_of),
        )
        for item in latest.items.select_related("pack", "delta_of").order_by("pack__position", "pack__name")
    )


def _capability_lines(host: Host) -> tuple[CapabilityLine, ...]:
    lines = []
    for capability in Capability.objects.filter(plan__host=host).prefetch_related("needs__pack"):
        groups: dict[int, list[str]] = {}
        for need in capability.needs.all():
            groups.setdefault(need.group, []).append(need.pack.name)
        needs = tuple(tuple(groups[number]) for number in sorted(groups))
        lines.append(CapabilityLine(capability.name, capability.description, needs))
    return tuple(lines)
