"""What operators order at any time, outside any approval: order, pause, hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.lifecycle import SYSTEM, Actor
from calculet.people.roles import Act, require
from transfers.models import Pack, Plan
from transfers.selectors.holds import holds_due

_MOST_STEPS = 20


@dataclass(frozen=True, slots=True)
class HoldUntil:
    """What ends a hold by itself, whichever comes first; nothing: a person's word alone does.

    `at` is a time, `rest` means that everything else is opened, `rate` is a goodput in bytes a second.
    """

    at: datetime | None = None
    rest: bool = False
    rate: int | None = None


class OrderStale(Exception):
    """Somebody else changed the order since this page was loaded."""

    def __str__(self) -> str:
        return _("Somebody changed the order in the meantime. Nothing was changed; here is the order as it is now.")


def pack_pause(*, pack: Pack, actor: Actor) -> None:
    """Let a pack get no new range; what came stays. Takes effect within three seconds. Raises NotAllowed."""
    require(actor.user, Act.PAUSE)
    _switch(pack, "is_paused", on=True, act="pack.pause", actor=actor)


def pack_resume(*, pack: Pack, actor: Actor) -> None:
    """Let a paused pack go on. Raises NotAllowed."""
    require(actor.user, Act.PAUSE)
    _switch(pack, "is_paused", on=False, act="pack.resume", actor=actor)


def pack_hold(*, pack: Pack, reason: str, actor: Actor, until: HoldUntil | None = None) -> None:
    """Keep a pack back until a person releases it or a condition is met, and say why.

    Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.PAUSE)
    if not reason.strip():
        raise ValidationError(_("Say why the pack is held, so that others know what it waits for."))
    if until is not None and until.rate is not None and not 0 < until.rate < 2**62:
        raise ValidationError(_("A rate is a number of bytes a second above zero. Nothing was changed."))
    _switch(pack, "on_hold", on=True, act="pack.hold", actor=actor, reason=reason.strip(), until=until or HoldUntil())


def pack_release(*, pack: Pack, actor: Actor) -> None:
    """End a pack's hold. Raises NotAllowed."""
    require(actor.user, Act.PAUSE)
    _switch(pack, "on_hold", on=False, act="pack.release", actor=actor, reason="", until=HoldUntil())


def holds_release_due() -> int:
    """End each hold whose condition is met, and say in its event which one. Safe to run twice."""
    due = holds_due()
    for pack, met in due:
        _switch(
            pack,
            "on_hold",
            on=False,
            act="pack.release",
            actor=SYSTEM,
            reason="",
            until=HoldUntil(),
            detail={"condition": met},
        )
    return len(due)


def _switch(
    pack: Pack,
    switch: str,
    *,
    on: bool,
    act: str,
    actor: Actor,
    reason: str | None = None,
    until: HoldUntil | None = None,
    detail: Mapping[str, object] | None = None,
) -> None:
    """Set a switch with an event; nothing happens when it stands there already."""
    with transaction.atomic():
        now = Pack.objects.select_for_update().get(pk=pack.pk)
        values: dict[str, object] = {switch: on}
        if reason is not None:
            values["hold_reason"] = reason
        if until is not None:
            values |= {"hold_until_at": until.at, "hold_until_rest": until.rest, "hold_until_rate": until.rate}
        if all(getattr(now, name) == value for name, value in values.items()):
            return
        Pack.objects.filter(pk=pack.pk).update(**values)
        audit.record(act=act, actor=actor, subject=now, detail={**_told(reason, until), **(detail or {})} or None)
    for name, value in values.items():
        setattr(pack, name, value)


def _told(reason: str | None, until: HoldUntil | None) -> dict[str, object]:
    """What an event says of a hold: what was said, and nothing else."""
    if not reason:
        return {}
    told: dict[str, object] = {"reason": reason}
    if until is not None:
        conditions = {"at": until.at.isoformat() if until.at is not None else None, "bytes_per_second": until.rate}
        told |= {name: value for name, value in conditions.items() if value is not None}
        told |= {"rest_opened": True} if until.rest else {}
    return told


def packs_reorder(*, plan: Plan, pack_ids: Sequence[int], seen_ids: Sequence[int], actor: Actor) -> None:
    """Give the packs of a plan a new execution order; it takes effect within three seconds.

    `seen_ids` is the order that the person saw. Raises NotAllowed, OrderStale, ValidationError.
    """
    require(actor.user, Act.ORDER)
    if sorted(pack_ids) != sorted(seen_ids) or len(set(pack_ids)) != len(pack_ids):
        raise ValidationError(_("The new order must name each pack exactly once. Nothing was changed."))
    with transaction.atomic():
        Plan.objects.select_for_update().get(pk=plan.pk)
        columns = plan.packs.select_for_update().values_list("pk", "position", "name")
        packs = {key: (position, name) for key, position, name in columns}
        now = sorted(packs, key=packs.__getitem__)
        shown = set(seen_ids)
        if list(seen_ids) != [key for key in now if key in shown] or not shown <= set(packs):
            raise OrderStale
        if list(pack_ids) == list(seen_ids):
            return
        # Packs that the page did not show keep their places; the shown ones are dealt out anew among theirs.
        places = iter(pack_ids)
        order = [next(places) if key in shown else key for key in now]
        _give_places({key: packs[key][0] for key in order})
        detail = {"before": [packs[key][1] for key in now], "after": [packs[key][1] for key in order]}
        audit.record(act="pack.reorder", actor=actor, subject=plan, host=plan.host, detail=detail)


def _give_places(places: Mapping[int, int]) -> None:
    """Number packs (by their keys, each with its former place) from 1, in the order given.

    A pack put elsewhere moves all between by one: few statements, however many packs.
    """
    steps: dict[int, list[int]] = {}
    for position, (key, former) in enumerate(places.items(), 1):
        steps.setdefault(position - former, []).append(key)
    steps.pop(0, None)
    if len(steps) > _MOST_STEPS:
        Pack.objects.bulk_update([Pack(pk=key, position=at) for at, key in enumerate(places, 1)], ["position"])
        return
    for step, keys in steps.items():
        Pack.objects.filter(pk__in=keys).update(position=F("position") + step)
