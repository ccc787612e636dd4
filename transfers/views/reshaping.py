"""Splitting, copying and merging packs, in the open draft or in one that begins by it; and samples of packing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from calculet.actors import Actor
from calculet.http import PersonRequest, actor_of
from calculet.people.roles import Act, require
from inventory.models import Host
from inventory.tasks import send_soon
from transfers import tasks
from transfers.forms import PageForm
from transfers.models import Item, Plan, Revision, RevisionState
from transfers.reshape_forms import BY_FOLDER, BY_RESOURCE, CopyForm, MergeForm, SplitForm
from transfers.selectors.revisions import ItemRow, item_rows, revision_in_force
from transfers.services import plans, reshaping, samples
from transfers.views.acts import REFUSALS, act_and_return, act_first, sentences_of
from transfers.views.find import host_named

Result = TypeVar("Result")
_PREVIEWED_AT_ONCE = 20


def _base(host: Host) -> Revision:
    """What is reshaped: the open draft, else the revision in force, of which a draft is made. Raises Http404."""
    plan = Plan.objects.filter(host=host).first()
    draft = plan.revisions.filter(state=RevisionState.DRAFT).first() if plan is not None else None
    found = draft or revision_in_force(plan)
    if found is None:
        raise Http404
    return found


def _row(revision: Revision, pack: str) -> ItemRow:
    """Raises Http404."""
    row = next((one for one in item_rows(revision) if one.item.pack.name == pack), None)
    if row is None:
        raise Http404
    return row


def _in_draft(host: Host, pack: str, actor: Actor) -> Item:
    """The pack's item in the open draft, which begins here when there is none. Raises Http404."""
    draft = plans.draft_start(host=host, actor=actor)
    item = draft.items.select_related("pack", "revision__plan__host").filter(pack__name=pack).first()
    if item is None:
        raise Http404
    return item


@require_safe
def reshape(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """The page on which a pack is split or copied."""
    require(request.user, Act.PLAN_EDIT)
    return _reshape_page(request, host_named(host), pack)


def _reshape_page(
    request: PersonRequest,
    host: Host,
    pack: str,
    *,
    split_form: SplitForm | None = None,
    copy_form: CopyForm | None = None,
    status: int = 200,
) -> HttpResponse:
    base = _base(host)
    row = _row(base, pack)
    many = len(row.resources) > 1
    context: dict[str, Any] = {
        "host": host,
        "base": base,
        "row": row,
        "split_form": split_form or SplitForm(initial={"by": BY_RESOURCE if many else BY_FOLDER}),
        "copy_form": copy_form or CopyForm(initial={"new_name": f"{pack}-copy"[-100:]}),
    }
    return render(request, "transfers/reshape.html", context, status=status)


@require_POST
def split(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """Split a pack; its first part keeps the name."""
    require(request.user, Act.PLAN_EDIT)
    row, form = host_named(host), SplitForm(request.POST)
    _row(_base(row), pack)

    def act(actor: Actor) -> list[Item]:
        item, by = _in_draft(row, pack, actor), form.cleaned_data["by"]
        if by == BY_RESOURCE:
            return reshaping.item_split_by_resource(item=item, actor=actor)
        if by == BY_FOLDER:
            return reshaping.item_split_by_folder(item=item, actor=actor)
        return reshaping.item_split_by_bytes(item=item, most_bytes=form.most_bytes, actor=actor)

    parts = _done(request, form, act)
    if parts is None:
        return _reshape_page(request, row, pack, split_form=form, status=422)
    _preview(request, parts)
    told = ngettext("%(pack)s is split into %(count)s pack.", "%(pack)s is split into %(count)s packs.", len(parts))
    messages.success(request, told % {"pack": pack, "count": len(parts)})
    return redirect(_draft_address(host))


@require_POST
def copy(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """Copy a pack under a new name."""
    require(request.user, Act.PLAN_EDIT)
    row, form = host_named(host), CopyForm(request.POST)
    _row(_base(row), pack)

    def act(actor: Actor) -> Item:
        name = form.cleaned_data["new_name"]
        return reshaping.item_duplicate(item=_in_draft(row, pack, actor), name=name, actor=actor)

    made = _done(request, form, act)
    if made is None:
        return _reshape_page(request, row, pack, copy_form=form, status=422)
    _preview(request, [made])
    messages.success(request, _("%(name)s says what %(pack)s says.") % {"name": made.pack.name, "pack": pack})
    return redirect(_draft_address(host))


@require_safe
def merge(request: PersonRequest, host: str) -> HttpResponse:
    """The page on which packs are chosen to become one."""
    require(request.user, Act.PLAN_EDIT)
    row = host_named(host)
    rows = item_rows(_base(row))
    return _merge_page(request, row, rows, MergeForm(items=[one.item for one in rows]))


def _merge_page(
    request: PersonRequest, host: Host, rows: list[ItemRow], form: MergeForm, *, status: int = 200
) -> HttpResponse:
    chosen = request.POST.getlist("packs")
    context = {"host": host, "base": _base(host), "rows": rows, "form": form, "chosen": chosen}
    return render(request, "transfers/merge.html", context, status=status)


@require_POST
def merge_packs(request: PersonRequest, host: str) -> HttpResponse:
    """Let several packs become the first of them."""
    require(request.user, Act.PLAN_EDIT)
    row = host_named(host)
    rows = item_rows(_base(row))
    form = MergeForm(request.POST, items=[one.item for one in rows])

    def act(actor: Actor) -> Item:
        chosen = [_in_draft(row, name, actor) for name in form.cleaned_data["packs"]]
        return reshaping.items_merge(items=chosen, actor=actor)

    made = _done(request, form, act)
    if made is None:
        return _merge_page(request, row, rows, form, status=422)
    _preview(request, [made])
    messages.success(request, _("The packs are one now: %(pack)s.") % {"pack": made.pack.name})
    return redirect(_draft_address(host))


def _done(request: PersonRequest, form: PageForm, act: Callable[[Actor], Result]) -> Result | None:
    """What an act gave; None when the form or the act was refused, with its sentences in the form."""
    if not form.is_valid():
        return None
    try:
        return act_first(request, act)  # a list may have a million entries: no transaction is held over it
    except REFUSALS as error:
        for sentence in sentences_of(error):
            form.add_error(None, sentence)
        return None


def _preview(request: PersonRequest, items: list[Item]) -> None:
    """Show at once what a few packs come to; many are previewed when the draft is proposed."""
    if len(items) <= _PREVIEWED_AT_ONCE:
        for item in items:
            with suppress(*REFUSALS):  # it stays unpreviewed, and proposing says why
                plans.item_preview(item=item, actor=actor_of(request))


@require_POST
def sample(request: PersonRequest, host: str, pk: int) -> HttpResponse:
    """Ask about what a pack comes to when it is packed."""
    require(request.user, Act.PLAN_EDIT)
    item = Item.objects.select_related("pack", "entry_list", "revision__plan__host").filter(pk=pk).first()
    if item is None or item.revision.plan.host.name != host:
        raise Http404

    def ask(actor: Actor) -> None:
        send_soon(tasks.take_sample, samples.sample_request(item=item, actor=actor).pk)

    done = _("A sample is taken on the host; this page shows what it says in a moment.")
    return act_and_return(request, ask, _draft_address(host), done=done)


def _draft_address(host: str) -> str:
    return reverse("transfers:plan", args=[host]) + "#draft"
