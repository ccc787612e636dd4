"""Plans: drafts and their items, proposing a revision, and another person's decision on its digest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.lifecycle import Actor, StateConflict, advance
from calculet.people.models import Person
from calculet.people.roles import Act, require
from inventory.models import Host, Resource
from inventory.remote.names import RemoteName
from transfers.engine.slices import Stretch
from transfers.engine.types import CHUNK_BYTES
from transfers.models import Approval, Decision, Item, Pack, Plan, Revision, RevisionState
from transfers.services.bases import bases_copy, bases_now, bases_set, lists_let_go
from transfers.services.builds import builds_create
from transfers.services.carrying import (
    LEAVING_MODES,
    CarrierIndex,
    carried_forget,
    items_in_order,
    need_carriers,
    need_content,
    unknown_words,
)
from transfers.services.entry_lists import Preview, entry_list_store, item_evaluate, preview_kept, preview_without
from transfers.services.host_means import need_shell
from transfers.services.item_checks import need_item_makes_sense, patterns_of
from transfers.services.leaving import here_left_out
from transfers.services.list_reuse import list_is_fresh, list_rests_on, looked_at
from transfers.services.needs import needs_follow
from transfers.services.revision_digests import revision_digest


def draft_start(*, host: Host, actor: Actor, note: str = "") -> Revision:
    """The plan's open draft; a new one begins as a copy of the revision in force. Raises NotAllowed."""
    require(actor.user, Act.PLAN_EDIT)
    with transaction.atomic():
        plan, _is_new = Plan.objects.get_or_create(host=host)
        Plan.objects.select_for_update().get(pk=plan.pk)
        draft = plan.revisions.filter(state=RevisionState.DRAFT).first()
        if draft is not None:
            return draft
        latest = plan.revisions.order_by("-number").first()
        draft = Revision.objects.create(
            plan=plan, number=latest.number + 1 if latest else 1, author=_author(actor), note=note
        )
        base = plan.revisions.filter(state=RevisionState.APPROVED).first()
        for item in base.items.order_by("position") if base else ():
            resources, bases = list(item.resources.all()), list(item.bases.all())
            item.pk, item.revision, item._state.adding = None, draft, True
            item.save()
            item.resources.set(resources)
            bases_copy(bases, item)
        lists_let_go(draft)
        audit.record(act="plan.draft", actor=actor, subject=draft, detail={"copy of": base.number if base else None})
    return draft


def _author(actor: Actor) -> Person:
    if actor.user is None:
        raise ValidationError(_("A plan needs an author who is a person, so that another one can approve it."))
    return actor.user


def item_set(
    *,
    revision: Revision,
    pack_name: str,
    mode: str,
    resources: Sequence[Resource],
    include_rules: Sequence[str],
    exclude_rules: Sequence[str],
    actor: Actor,
    chunk_bytes: int = CHUNK_BYTES,
    aim: str = "",
    leaves_out_carried: bool = False,
    leaves_out_here: bool = False,
    stretch: Stretch | None = None,
) -> Item:
    """Put a pack into a draft, or change what it carries there. Its list is made anew by the next preview.

    It leaves out what packs before it carry (`leaves_out_carried`) and what is declared as here (`leaves_out_here`).
    `stretch`: the names that it is bound to; None leaves them as they are.

    Raises NotAllowed, ValidationError (a sentence for each thing that is wrong).
    """
    require(actor.user, Act.PLAN_EDIT)
    include, exclude = patterns_of(include_rules), patterns_of(exclude_rules)
    need_item_makes_sense(revision, pack_name, mode, resources, include, exclude, chunk_bytes)
    with transaction.atomic():
        need_draft(revision)
        plan = revision.plan
        pack = plan.packs.filter(name=pack_name).first()
        if pack is None:
            last = plan.packs.order_by("-position").values_list("position", flat=True).first()
            pack = Pack.objects.create(plan=plan, name=pack_name, aim=aim, position=(last or 0) + 1)
        elif aim and aim != pack.aim:
            pack.aim = aim
            pack.save(update_fields=["aim"])
        values: dict[str, Any] = {
            "mode": mode,
            "include_rules": include,
            "exclude_rules": exclude,
            "chunk_bytes": chunk_bytes,
            "leaves_out_carried": leaves_out_carried and mode in LEAVING_MODES,
            "leaves_out_here": leaves_out_here and mode in LEAVING_MODES,
            "entry_list": None,
            "keeps_list": False,
            "here_list": None,
            "satisfied_list": None,
            "carriers": [],
            "excluded_count": 0,
            "excluded_bytes": 0,
            "warnings": [],
        }
        if stretch is not None:
            values |= {"first_name": RemoteName(stretch.first), "end_name": RemoteName(stretch.end)}
        item, _is_new = Item.objects.update_or_create(
            revision=revision, pack=pack, defaults=values, create_defaults={**values, "position": pack.position}
        )
        item.resources.set(resources)
        carried_forget(revision, pack_name)
        detail = {"mode": mode, "include": include, "exclude": exclude, "resources": [one.name for one in resources]}
        audit.record(act="plan.item", actor=actor, subject=item, host=plan.host, detail=detail)
    return item


def need_draft(revision: Revision) -> None:
    """Lock the revision and see that its content may still change. Raises ValidationError."""
    now = Revision.objects.select_for_update().get(pk=revision.pk)
    if now.state != RevisionState.DRAFT:
        raise ValidationError(
            _("Revision %(number)s is %(state)s and can't be changed any more. Nothing was changed; start a new draft.")
            % {"number": now.number, "state": _(now.get_state_display())}
        )


def item_remove(*, item: Item, actor: Actor) -> None:
    """Take a pack out of a draft. What was fetched of it stays. Raises NotAllowed, ValidationError."""
    require(actor.user, Act.PLAN_EDIT)
    with transaction.atomic():
        need_draft(item.revision)
        detail = {"pack": item.pack.name}
        revision, host = item.revision, item.revision.plan.host
        item.delete()
        pack_forget_unused(item.pack)
        carried_forget(revision, detail["pack"])
        audit.record(act="plan.item_remove", actor=actor, subject=revision, host=host, detail=detail)


def pack_forget_unused(pack: Pack) -> None:
    """Let go of a pack's name that no revision, build or capability knows."""
    if not (pack.items.exists() or pack.builds.exists() or pack.needed_by.exists() or pack.delta_items.exists()):
        pack.delete()


def item_preview(*, item: Item, actor: Actor, index: CarrierIndex | None = None) -> Preview:
    """Evaluate an item's rules on the scan and keep the explicit list with it. Raises NotAllowed, ValidationError.

    `index` is what the items before it carry; it is made here when it is not given.
    """
    require(actor.user, Act.PLAN_EDIT)
    if item.keeps_list and item.entry_list is not None:
        return preview_kept(item)
    evaluated = content_of(item)
    bases = bases_now(item)
    rests_on = list_rests_on(item, bases)
    members, preview = item_evaluate(item)
    left = here_left_out(item, members)
    if left.here:
        members, preview = left.kept, preview_without(preview, left.here)
    known = index or CarrierIndex.before(item)
    shared = known.share(item, members)
    told = known.told(item, shared)
    satisfied = shared.satisfied if item.leaves_out_carried else []
    if satisfied:
        need_content(item, shared.kept)
        members, preview = shared.kept, preview_without(preview, satisfied)
    preview = replace(preview, warnings=(*preview.warnings, *unknown_words(item, shared)))
    with transaction.atomic():
        need_draft(item.revision)
        if evaluated != content_of(Item.objects.filter(pk=item.pk).first()):
            raise ValidationError(_changed_meanwhile(item.pack))
        if satisfied:
            need_carriers(item, told)
        item.entry_list = entry_list_store(members)
        item.here_list = entry_list_store(left.here) if left.here else None
        item.satisfied_list = entry_list_store(satisfied) if satisfied else None
        item.carriers = told
        item.excluded_count, item.excluded_bytes = preview.excluded_count, preview.excluded_bytes
        item.warnings = list(preview.warnings)
        item.looked_at = looked_at(rests_on, preview)
        kept = ("entry_list", "here_list", "satisfied_list", "carriers", "excluded_count", "excluded_bytes", "warnings")
        item.save(update_fields=(*kept, "looked_at"))
        bases_set(item, bases)
        carried_forget(item.revision, item.pack.name, list_digest=item.entry_list.digest)
        detail = {"list": item.entry_list.digest, "entries": preview.entry_count, "bytes": preview.total_bytes}
        left_out = {"already_here": item.here_list, "satisfied": item.satisfied_list}
        detail |= {word: kept_list.digest for word, kept_list in left_out.items() if kept_list is not None}
        audit.record(act="plan.preview", actor=actor, subject=item, host=item.revision.plan.host, detail=detail)
    return preview


def content_of(item: Item | None) -> tuple[object, ...]:
    """What a list is made from; nothing when the item is gone."""
    if item is None:
        return ()
    resources = sorted(item.resources.values_list("pk", flat=True))
    return (
        item.mode,
        item.include_rules,
        item.exclude_rules,
        item.leaves_out_carried,
        item.leaves_out_here,
        item.stretch,
        resources,
    )


def _changed_meanwhile(pack: Pack) -> str:
    return _(
        "Somebody changed pack “%(pack)s” of this draft at the same moment. Nothing was kept of this; look at the "
        "draft as it is now, and do it again."
    ) % {"pack": pack.name}


def revision_propose(*, revision: Revision, actor: Actor, note: str = "") -> Revision:
    """Fix a draft by its digest and ask for approval. Lists that were not previewed are made now.

    Raises NotAllowed, ValidationError, StateConflict.
    """
    require(actor.user, Act.PLAN_EDIT)
    items = items_in_order(revision)
    if not items:
        raise ValidationError(_("The draft holds no pack. Add at least one, then propose it."))
    index = CarrierIndex()
    for item in items:
        if item.keeps_list:  # unless a pack that it leaves files to has another list by now
            item.refresh_from_db(fields=["entry_list"])
        if not list_is_fresh(item):
            item_preview(item=item, actor=actor, index=index)
        index.add(item)
    with transaction.atomic():
        need_draft(revision)
        unlisted = revision.items.filter(entry_list=None).select_related("pack").first()
        if unlisted is not None:
            raise ValidationError(_changed_meanwhile(unlisted.pack))
        digest = revision_digest(revision)
        advance(
            revision,
            RevisionState.PROPOSED,
            act="plan.propose",
            actor=actor,
            detail={"digest": digest, "note": note},
            digest=digest,
            note=note or revision.note,
            author=_author(actor),
            proposed_at=timezone.now(),
        )
    return revision


def revision_approve(*, revision: Revision, digest: str, actor: Actor, note: str = "") -> Revision:
    """Approve a proposed revision's digest. With the last approval that is needed it comes into force: builds are made
    for what is new in it. Until then what was in force goes on.

    Raises NotAllowed, ValidationError (the author, another digest), StateConflict.
    """
    require(actor.user, Act.PLAN_APPROVE)
    need_shell(revision.plan.host)
    with transaction.atomic():
        _decide(revision, Decision.APPROVE, digest, actor, note)
        detail: dict[str, object] = {"digest": digest, "note": note}
        given = approvals_given(revision)
        if given < settings.APPROVALS_NEEDED:
            detail |= {"approvals": given, "needed": settings.APPROVALS_NEEDED}
            audit.record(act="plan.approve_in_part", actor=actor, subject=revision, detail=detail)
            return revision
        others = revision.plan.revisions.exclude(pk=revision.pk)
        former = others.filter(state=RevisionState.APPROVED).first()
        if former is not None:
            advance(former, RevisionState.SUPERSEDED, act="plan.supersede", actor=actor, decided_at=timezone.now())
        advance(
            revision,
            RevisionState.APPROVED,
            act="plan.approve",
            actor=actor,
            detail=detail,
            decided_at=timezone.now(),
        )
        Resource.objects.filter(host=revision.plan.host).update(planned=False)
        Resource.objects.filter(items__revision=revision).update(planned=True)
        needs_follow(revision=revision, former=former, actor=actor)
        builds_create(revision=revision, actor=actor)
    return revision


def approvals_given(revision: Revision) -> int:
    """How many active people approved what is proposed now."""
    rows = revision.approvals.filter(decision=Decision.APPROVE, digest=revision.digest, person__is_active=True)
    return rows.count()


def revision_decline(*, revision: Revision, digest: str, actor: Actor, note: str = "") -> Revision:
    """Decline a proposed revision. Raises NotAllowed, ValidationError, StateConflict."""
    require(actor.user, Act.PLAN_DECLINE)
    with transaction.atomic():
        _decide(revision, Decision.DECLINE, digest, actor, note)
        advance(
            revision,
            RevisionState.DECLINED,
            act="plan.decline",
            actor=actor,
            detail={"digest": digest, "note": note},
            decided_at=timezone.now(),
        )
    return revision


def _decide(revision: Revision, decision: Decision, digest: str, actor: Actor, note: str) -> None:
    """Keep one person's decision on one digest. Raises ValidationError, StateConflict."""
    person = _author(actor)
    state = Revision.objects.select_for_update().get(pk=revision.pk).state
    if state != RevisionState.PROPOSED:
        wanted = RevisionState.APPROVED if decision == Decision.APPROVE else RevisionState.DECLINED
        raise StateConflict(str(revision), RevisionState.PROPOSED.value, wanted.value, state)
    if decision == Decision.APPROVE and person.pk == revision.author_id:
        raise ValidationError(
            _("You proposed this revision yourself, so somebody else has to approve it. Nothing was changed.")
        )
    now = revision_digest(revision)
    if not digest or digest != revision.digest or digest != now:
        raise ValidationError(
            _(
                "What you looked at (%(seen)s) is not what is proposed now (%(now)s). Nothing was decided; look at "
                "the page again."
            )
            % {"seen": digest[:12] or "–", "now": now[:12]}
        )
    if revision.approvals.filter(person=person).exists():
        raise ValidationError(_("You have decided on this revision already. Nothing was changed."))
    Approval.objects.create(
        revision=revision, person=person, author=revision.author, decision=decision, digest=digest, note=note
    )


def revision_withdraw(*, revision: Revision, actor: Actor) -> Revision:
    """Take a draft or a proposal back. Raises NotAllowed, StateConflict."""
    require(actor.user, Act.PLAN_EDIT)
    advance(revision, RevisionState.WITHDRAWN, act="plan.withdraw", actor=actor, decided_at=timezone.now())
    return revision
