"""Splitting, merging and copying packs in a draft: the same entries in other packs, and no entry lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import transaction
from django.db.models import F
from django.utils.text import slugify
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.lifecycle import Actor
from calculet.people.roles import Act, require
from inventory.models import Resource
from inventory.remote.names import RemoteName, escape
from transfers.engine.slices import Stretch, cut, cuts_by_bytes, cuts_by_folders, join
from transfers.models import Item, Mode, Pack, Plan, Revision
from transfers.services.carrying import carried_forget
from transfers.services.entry_lists import item_evaluate
from transfers.services.plans import content_of, need_draft, pack_forget_unused

MOST_PARTS = 200
_LONGEST_NAME = 100
_RESHAPED_MODES = (Mode.ARCHIVE, Mode.FILES)

Shape = tuple[frozenset[int], Stretch]


def item_split_by_resource(*, item: Item, actor: Actor) -> list[Item]:
    """Make a pack of each resource of an item; the first keeps the name. Raises NotAllowed, ValidationError."""
    require(actor.user, Act.PLAN_EDIT)
    _need_mode(item)
    resources = list(item.resources.order_by("position", "name"))
    if len(resources) < 2:
        raise ValidationError(
            _("Pack “%(pack)s” has one resource only, so there is nothing to split by.") % _told(item)
        )
    parts = [(one.name, {"resources": [one]}) for one in resources]
    return _split(item, content_of(item), "resource", parts, actor)


def item_split_by_folder(*, item: Item, actor: Actor) -> list[Item]:
    """Make a pack of each folder that lies directly in an item's resources; the first keeps the name.

    Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.PLAN_EDIT)
    _need_mode(item)
    seen = content_of(item)
    members, _preview = item_evaluate(item)
    tops = [one.path.raw for one in item.resources.all()]
    return _split_at(item, seen, "folder", cuts_by_folders(members, tops, item.stretch), actor)


def item_split_by_bytes(*, item: Item, most_bytes: int, actor: Actor) -> list[Item]:
    """Make packs of at most so many bytes before packing, in the order of the list; the first keeps the name.

    One file that is larger makes a pack of its own. Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.PLAN_EDIT)
    _need_mode(item)
    if most_bytes < 1:
        raise ValidationError(_("Say how many bytes a part may have, as a number above zero. Nothing was changed."))
    seen = content_of(item)
    members, _preview = item_evaluate(item)
    return _split_at(item, seen, f"{most_bytes} bytes", cuts_by_bytes(members, most_bytes), actor)


def _split_at(item: Item, seen: tuple[object, ...], by: str, cuts: Sequence[bytes], actor: Actor) -> list[Item]:
    inside = [name for name in cuts if item.stretch.holds(name) and name != item.stretch.first]
    if not inside:
        raise ValidationError(_("Pack “%(pack)s” would stay in one part. Nothing was changed.") % _told(item))
    parts = [
        (
            escape(stretch.first.rpartition(b"/")[2]) if by == "folder" else "",
            {"first_name": RemoteName(stretch.first), "end_name": RemoteName(stretch.end)},
        )
        for stretch in cut(item.stretch, inside)
    ]
    return _split(item, seen, by, parts, actor)


def _split(
    item: Item, seen: tuple[object, ...], by: str, parts: Sequence[tuple[str, Mapping[str, Any]]], actor: Actor
) -> list[Item]:
    if len(parts) > MOST_PARTS:
        raise ValidationError(
            _("Pack “%(pack)s” would become %(count)s parts; %(most)s is the most. Nothing was changed.")
            % {**_told(item), "count": f"{len(parts):,}", "most": MOST_PARTS}
        )
    with transaction.atomic():
        item = _hold(item, seen)
        revision, plan = item.revision, item.revision.plan
        resources = list(item.resources.all())
        _make_room(item, len(parts) - 1)
        made = [item]
        for number, (hint, changes) in enumerate(parts[1:], 1):
            pack = _pack_beside(item.pack, _free_name(plan, item.pack.name, hint, number + 1), number)
            made.append(_item_beside(item, pack, number, {**changes, "came_of": [item.pack.name]}, resources))
        _change(item, parts[0][1])
        carried_forget(revision, item.pack.name)
        detail = {"by": by, "pack": item.pack.name, "parts": [one.pack.name for one in made]}
        audit.record(act="plan.item_split", actor=actor, subject=revision, host=plan.host, detail=detail)
    return made


def item_duplicate(*, item: Item, name: str, actor: Actor) -> Item:
    """Copy a pack of a draft under a new name, behind it in the order. Raises NotAllowed, ValidationError."""
    require(actor.user, Act.PLAN_EDIT)
    plan = item.revision.plan
    try:
        validate_slug(name)
    except ValidationError:
        raise ValidationError(
            _("A pack's name may hold letters, digits, “-” and “_” only; it names a folder at home.")
        ) from None
    if len(name) > _LONGEST_NAME or plan.packs.filter(name=name).exists():
        raise ValidationError(_("“%(name)s” is taken already, or too long. Choose another name.") % {"name": name})
    with transaction.atomic():
        item = _hold(item, content_of(item))
        _make_room(item, 1)
        pack = Pack.objects.create(plan=plan, name=name, aim=item.pack.aim, position=item.pack.position + 1)
        made = _item_beside(item, pack, 1, {}, list(item.resources.all()))
        detail = {"pack": item.pack.name, "copy": name}
        audit.record(act="plan.item_duplicate", actor=actor, subject=made, host=plan.host, detail=detail)
    return made


def items_merge(*, items: Sequence[Item], actor: Actor) -> Item:
    """Join packs of a draft into the first of them, when one pack can say exactly what they say together.

    Raises NotAllowed, ValidationError (a sentence for what keeps them apart).
    """
    require(actor.user, Act.PLAN_EDIT)
    if len({item.pk for item in items}) < 2:
        raise ValidationError(_("Choose two packs or more to merge. Nothing was changed."))
    ordered = sorted(items, key=lambda item: (item.position, item.pack.name))
    shape = _joined(ordered)
    seen = {item.pk: content_of(item) for item in ordered}
    with transaction.atomic():
        first, *others = [_hold(item, seen[item.pk]) for item in ordered]
        revision, plan = first.revision, first.revision.plan
        names = [item.pack.name for item in others]
        took = [*first.came_of, *names, *(name for item in others for name in item.came_of)]
        resources, stretch = shape
        changes = {
            "resources": list(Resource.objects.filter(pk__in=resources)),
            "first_name": RemoteName(stretch.first),
            "end_name": RemoteName(stretch.end),
            "came_of": [name for name in dict.fromkeys(took) if name != first.pack.name],
        }
        for item in others:
            item.delete()
            pack_forget_unused(item.pack)
        _change(first, changes)
        for name in (first.pack.name, *names):
            carried_forget(revision, name)
        detail = {"into": first.pack.name, "packs": names}
        audit.record(act="plan.items_merge", actor=actor, subject=first, host=plan.host, detail=detail)
    return first


def _joined(items: Sequence[Item]) -> Shape:
    first = items[0]
    for item in items:
        _need_mode(item)
    for words, values in _aspects(items).items():
        if any(value != values[0] for value in values):
            raise ValidationError(
                _("“%(first)s” and the others differ in %(what)s, so they are no one pack. Nothing was changed.")
                % {"first": first.pack.name, "what": words}
            )
    shapes: list[Shape] = [(frozenset(item.resources.values_list("pk", flat=True)), item.stretch) for item in items]
    while len(shapes) > 1:
        for one, other in combinations(shapes, 2):
            if (both := _join_two(one, other)) is not None:
                shapes.remove(one)
                shapes.remove(other)
                shapes.append(both)
                break
        else:
            raise ValidationError(
                _(
                    "These packs are parts that do not follow one another, or parts of different resources: they are "
                    "no one pack. Nothing was changed. Choose parts that lie side by side."
                )
            )
    return shapes[0]


def _aspects(items: Sequence[Item]) -> dict[str, list[object]]:
    """What packs must have in common so that their lists together are the list of one pack, in words."""
    return {
        _("their mode"): [item.mode for item in items],
        _("their include rules"): [item.include_rules for item in items],
        _("their exclude rules"): [item.exclude_rules for item in items],
        _("their chunk size"): [item.chunk_bytes for item in items],
        _("what they leave to other packs or have here"): [
            (item.leaves_out_carried, item.leaves_out_here, item.delta_of_id) for item in items
        ],
    }


def _join_two(one: Shape, other: Shape) -> Shape | None:
    if one[1] == other[1]:
        return one[0] | other[0], one[1]
    if one[0] != other[0]:
        return None
    stretch = join([one[1], other[1]])
    return None if stretch is None else (one[0], stretch)


def _need_mode(item: Item) -> None:
    if item.mode not in _RESHAPED_MODES:
        raise ValidationError(
            _("Pack “%(pack)s” carries one archive that exists, or its parts: it can be neither split nor merged.")
            % _told(item)
        )


def _told(item: Item) -> dict[str, str]:
    return {"pack": item.pack.name}


def _hold(item: Item, seen: tuple[object, ...]) -> Item:
    """The item as it is now, its draft locked. Raises ValidationError when somebody changed either."""
    need_draft(item.revision)
    now = Item.objects.select_related("pack", "revision__plan__host").filter(pk=item.pk).first()
    if now is None or content_of(now) != seen:
        raise ValidationError(
            _("Somebody changed pack “%(pack)s” of this draft at the same moment. Nothing was changed; look again.")
            % _told(item)
        )
    return now


def _make_room(item: Item, count: int) -> None:
    """Let `count` places be free behind an item and its pack; nothing that stands there changes its order."""
    plan: Plan = item.revision.plan
    Plan.objects.select_for_update().get(pk=plan.pk)
    item.pack.refresh_from_db(fields=["position"])
    plan.packs.filter(position__gt=item.pack.position).update(position=F("position") + count)
    revision: Revision = item.revision
    revision.items.filter(position__gt=item.position).update(position=F("position") + count)


def _free_name(plan: Plan, base: str, hint: str, number: int) -> str:
    """A name that no pack of the plan has: with what the part is about where that can be said, else with a number."""
    words = slugify(hint)[:40].strip("-_")
    taken = set(plan.packs.values_list("name", flat=True))
    wanted = [f"{base[: _LONGEST_NAME - 41]}-{words}"] if words else []
    wanted += [f"{base[: _LONGEST_NAME - 8]}-{at}" for at in range(number, number + len(taken) + 1)]
    return next(name for name in wanted if name not in taken)


def _pack_beside(pack: Pack, name: str, step: int) -> Pack:
    """A new pack that waits for what the other one waits for, so that a split lets nothing loose."""
    kept = ("plan", "aim", "is_paused", "on_hold", "hold_reason")
    until = ("hold_until_at", "hold_until_rest", "hold_until_rate")
    values = {field: getattr(pack, field) for field in (*kept, *until)}
    return Pack.objects.create(name=name, position=pack.position + step, **values)


def _item_beside(item: Item, pack: Pack, step: int, changes: Mapping[str, Any], resources: Sequence[Resource]) -> Item:
    kept = (
        "revision", "mode", "include_rules", "exclude_rules", "chunk_bytes", "first_name", "end_name",
        "leaves_out_carried", "leaves_out_here", "delta_of",
    )  # fmt: skip
    values = {field: getattr(item, field) for field in kept}
    values |= {name: value for name, value in changes.items() if name != "resources"}
    made = Item.objects.create(pack=pack, position=item.position + step, **values)
    made.resources.set(changes.get("resources", resources))
    return made


def _change(item: Item, changes: Mapping[str, Any]) -> None:
    """Change an item's content; its list is made anew by the next preview."""
    fields = {name: value for name, value in changes.items() if name != "resources"}
    bare: dict[str, Any] = dict.fromkeys(("entry_list", "satisfied_list", "here_list"))
    bare |= {"carriers": [], "warnings": []}
    for name, value in {**bare, "keeps_list": False, "excluded_count": 0, "excluded_bytes": 0, **fields}.items():
        setattr(item, name, value)
    item.save()
    if "resources" in changes:
        item.resources.set(changes["resources"])
