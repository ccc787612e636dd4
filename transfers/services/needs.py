"""What capabilities need, when the content of a pack went over to other packs."""

from __future__ import annotations

from calculet.audit import services as audit
from calculet.lifecycle import Actor
from transfers.models import Capability, CapabilityNeed, Item, Revision


def needs_follow(*, revision: Revision, former: Revision | None, actor: Actor) -> None:
    """Let capabilities need what they needed before, in the packs that hold it now that a revision is in force.

    `former` is the revision that was in force before: what it says already was followed then.

    A pack that was split is needed together with each of its parts; one that was merged into another is needed as that
    one. Called in the transaction of the approval, which is the act that this follows from.
    """
    known = dict(former.items.values_list("pack_id", "came_of")) if former is not None else {}
    still_there = set(revision.items.values_list("pack__name", flat=True))
    told: list[str] = []
    for item in revision.items.select_related("pack").order_by("position", "pack__name"):
        for name in [one for one in item.came_of if one not in known.get(item.pack_id, [])]:
            rows = Capability.objects.filter(plan=revision.plan, needs__pack__name=name).distinct()
            for capability in rows.prefetch_related("needs__pack"):
                _follow(capability, name, item, is_split=name in still_there)
                told.append(f"{capability.name}: {name} → {item.pack.name}")
    if told:
        audit.record(act="plan.needs_follow", actor=actor, subject=revision, detail={"needs": told[:200]})


def _follow(capability: Capability, name: str, item: Item, *, is_split: bool) -> None:
    groups: dict[int, list[CapabilityNeed]] = {}
    for need in capability.needs.all():
        groups.setdefault(need.group, []).append(need)
    sets = {number: {need.pack_id for need in needs} for number, needs in groups.items()}
    for needs in list(groups.values()):
        if not any(need.pack.name == name for need in needs):
            continue
        packs = {item.pack_id if need.pack.name == name else need.pack_id for need in needs}
        number = max(sets) + 1 if is_split else needs[0].group
        if not is_split:
            CapabilityNeed.objects.filter(pk__in=[need.pk for need in needs]).delete()
            del sets[number]
        if packs in sets.values():
            continue
        sets[number] = packs
        CapabilityNeed.objects.bulk_create(
            CapabilityNeed(capability=capability, group=number, pack_id=pack) for pack in packs
        )
