"""Delta packs: by one act the draft gets a small pack that brings what changed since a pack was listed."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from calculet.lifecycle import Actor
from calculet.people.roles import Act, require
from transfers.models import Item, Mode, Pack, Plan, Revision, RevisionState
from transfers.selectors.drifting import drift_of
from transfers.services.host_means import need_shell
from transfers.services.plans import content_of, draft_start, item_set

_NAME_AT_MOST = 100


def delta_add(*, pack: Pack, actor: Actor) -> Item:
    """Put a pack into the plan's draft that carries what a pack in force does not hold as it lies on the host now.

    The pack itself keeps its list, and so its build. A draft that this act begins keeps the lists of all packs; in one
    that is there already the pack must be as it is in force. Preview the item next, which makes its list.

    Raises NotAllowed, ValidationError.
    """
    require(actor.user, Act.PLAN_EDIT)
    base = _base(pack)
    _need_drift(base)
    need_shell(pack.plan.host)
    with transaction.atomic():
        Plan.objects.select_for_update().get(pk=pack.plan_id)
        is_new = not pack.plan.revisions.filter(state=RevisionState.DRAFT).exists()
        draft = draft_start(host=pack.plan.host, actor=actor)
        kept = draft.items.all() if is_new else draft.items.filter(pk=_same_in(draft, base).pk)
        kept.update(keeps_list=True)
        item = item_set(
            revision=draft,
            pack_name=_free_name(pack),
            mode=base.mode,
            resources=list(base.resources.all()),
            include_rules=base.include_rules,
            exclude_rules=base.exclude_rules,
            chunk_bytes=base.chunk_bytes,
            stretch=base.stretch,
            aim=_("What changed on the host since “%(pack)s” was listed.") % {"pack": pack.name},
            actor=actor,
        )
        item.delta_of = pack
        item.save(update_fields=["delta_of"])
    return item


def _base(pack: Pack) -> Item:
    base = pack.items.filter(revision__state=RevisionState.APPROVED).select_related("pack", "entry_list").first()
    if base is None:
        raise ValidationError(
            _("Pack “%(pack)s” is not in the plan in force, so a delta pack would have nothing to add to.")
            % {"pack": pack.name}
        )
    if base.delta_of is not None:
        raise ValidationError(
            _("“%(pack)s” is a delta pack itself. Add another one to “%(base)s”.")
            % {"pack": pack.name, "base": base.delta_of.name}
        )
    return base


def _need_drift(base: Item) -> None:
    if base.mode not in (Mode.ARCHIVE, Mode.FILES):
        raise ValidationError(
            _("“%(pack)s” carries what is one thing on the host, so it is fetched anew as a whole: draft a change.")
            % {"pack": base.pack.name}
        )
    drift = drift_of(base)
    if drift is None or not drift.to_bring:
        raise ValidationError(
            _("Nothing was added or changed on the host since “%(pack)s” was listed. Scan again if you know better.")
            % {"pack": base.pack.name}
        )


def _same_in(draft: Revision, base: Item) -> Item:
    """The pack in a draft that is there already, as it is in force. Raises ValidationError."""
    found = draft.items.filter(pack=base.pack).select_related("entry_list").first()
    if found is None or content_of(found) != content_of(base) or found.entry_list_id != base.entry_list_id:
        raise ValidationError(
            _(
                "The open draft changes pack “%(pack)s” itself, so it brings what changed on the host anyway. Propose "
                "or withdraw that draft first."
            )
            % {"pack": base.pack.name}
        )
    return found


def _free_name(pack: Pack) -> str:
    taken = set(pack.plan.packs.values_list("name", flat=True))
    number = 1
    while True:
        ending = f"-delta-{number}"
        name = pack.name[: _NAME_AT_MOST - len(ending)] + ending
        if name not in taken:
            return name
        number += 1
