"""Builds: made when a revision is approved, tried again, replaced, and decided on when their source deviates."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.leases.services import lease_request_stop
from calculet.lifecycle import Actor, StateConflict, advance
from calculet.people.roles import Act, require
from transfers.engine.satisfied import left_out_alike
from transfers.models import Build, BuildState, Item, Mode, Pack, Revision
from transfers.selectors.specs import list_members
from transfers.services.landings import landing_default

DEVIATIONS_KEPT = 10_000

# Nothing of these was verified yet, so a successor takes their place at once; what came stays on the disk.
UNPROVEN = (
    BuildState.PLANNED,
    BuildState.PACKING,
    BuildState.NEEDS_DECISION,
    BuildState.PACKED,
    BuildState.FETCHING,
    BuildState.RECEIVED,
    BuildState.FAILED,
)


def build_lease_name(build_id: int) -> str:
    """The lease of acts on one build."""
    return f"build:{build_id}"


def current_build(pack: Pack) -> Build | None:
    """The newest build of a pack that was not replaced."""
    return pack.builds.exclude(state=BuildState.REPLACED).order_by("-number").first()


def builds_create(*, revision: Revision, actor: Actor) -> list[Build]:
    """Make a build for each item whose content is new; unchanged content keeps build and bytes.

    Called in the transaction of the approval, which is the act that this follows from.
    """
    landing_default()
    made = []
    for item in revision.items.select_related("pack", "entry_list", "satisfied_list").order_by("position"):
        now = current_build(item.pack)
        if now is not None and _is_same(now, item):
            _follow_carriers(now, item, actor)
            continue
        made.append(_build_create(item, actor))
        if now is not None and now.state in UNPROVEN:
            advance(now, BuildState.REPLACED, act="build.replace", actor=actor, detail={"by": made[-1].number})
    return made


def _is_same(build: Build, item: Item) -> bool:
    """True when the build brings what the item says: what it carries and, whoever carries that, what it leaves out."""
    one = (build.mode, build.entry_list_id, build.chunk_bytes)
    if one != (item.mode, item.entry_list_id, item.chunk_bytes):
        return False
    before, after = build.item.satisfied_list, item.satisfied_list
    if before == after:
        return True
    return before is not None and after is not None and left_out_alike(list_members(before), list_members(after))


def _follow_carriers(build: Build, item: Item, actor: Actor) -> None:
    """Let a build that is not opened yet count on the packs that carry for it now; former ones may have gone."""
    if build.state not in (*UNPROVEN, BuildState.VERIFIED) or build.item.satisfied_list_id == item.satisfied_list_id:
        return
    Build.objects.filter(pk=build.pk).update(item=item)
    detail = {"carriers": [one["pack"] for one in item.carriers], "revision": item.revision.number}
    audit.record(act="build.carriers", actor=actor, subject=build, host=item.revision.plan.host, detail=detail)


def _build_create(item: Item, actor: Actor) -> Build:
    if item.entry_list is None:
        raise ValidationError(_("Pack “%(pack)s” has no list yet. Preview it first.") % {"pack": item.pack.name})
    last = item.pack.builds.order_by("-number").values_list("number", flat=True).first() or 0
    host = item.revision.plan.host
    build = Build.objects.create(
        pack=item.pack,
        number=last + 1,
        item=item,
        mode=item.mode,
        entry_list=item.entry_list,
        chunk_bytes=item.chunk_bytes,
        landing=landing_default(),
        folder=f"{host.name}/{item.pack.name}/{last + 1}",
    )
    detail = {"mode": build.mode, "list": item.entry_list.digest, "bytes": item.entry_list.total_bytes}
    audit.record(act="build.make", actor=actor, subject=build, host=host, detail=detail)
    return build


def build_retry(*, build: Build, actor: Actor) -> Build:
    """Let a failed build go on from what it has. Raises NotAllowed, StateConflict."""
    require(actor.user, Act.PACK)
    if build.packed_at is None:
        to = BuildState.PLANNED
    else:
        to = BuildState.RECEIVED if build.received_at is not None else BuildState.FETCHING
    _need_state(build, BuildState.FAILED, to)
    advance(build, to, act="build.retry", actor=actor, problem="", not_before=None, attempts=build.attempts + 1)
    return build


def _need_state(build: Build, expected: BuildState, wanted: BuildState) -> None:
    """An act of a person begins from one state, though the work itself may come to `wanted` from others."""
    if build.state != expected:
        raise StateConflict(str(build), expected.value, wanted.value, build.state)


def build_replace(*, build: Build, actor: Actor) -> Build:
    """Make the pack anew from the same approved list; what the former build brought stays on the disk.

    Raises NotAllowed, StateConflict.
    """
    require(actor.user, Act.PACK)
    with transaction.atomic():
        successor = _build_create(build.item, actor)
        advance(build, BuildState.REPLACED, act="build.replace", actor=actor, detail={"by": successor.number})
    lease_request_stop(name=build_lease_name(build.pk))
    return successor


def deviations_accept(*, build: Build, note: str, actor: Actor) -> Build:
    """Accept what deviates from the list, by name, as a second person.

    Raises NotAllowed, ValidationError, StateConflict.
    """
    require(actor.user, Act.DEVIATION_ACCEPT)
    if not note.strip():
        raise ValidationError(_("Say in a note why these deviations are acceptable; the report will carry it."))
    if actor.user is not None and actor.user.pk == build.item.revision.author_id:
        raise ValidationError(_("You proposed this plan yourself, so somebody else has to accept its deviations."))
    if build.mode != Mode.ARCHIVE or not build.sha256 or len(build.deviations) >= DEVIATIONS_KEPT:
        raise ValidationError(
            _(
                "These deviations cannot be accepted: only an archive that was made holds what changed as it was then, "
                "and only up to %(most)s of them. Scan the resources again and propose the plan anew, or make the pack "
                "anew."
            )
            % {"most": f"{DEVIATIONS_KEPT:,}"}
        )
    _need_state(build, BuildState.NEEDS_DECISION, BuildState.PACKED)
    advance(
        build,
        BuildState.PACKED,
        act="build.accept_deviations",
        actor=actor,
        detail={"note": note.strip(), "deviations": build.deviations[:200], "count": len(build.deviations)},
        deviations_accepted_by=actor.user,
        problem="",
    )
    return build
