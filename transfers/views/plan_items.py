"""The editor of one pack in a draft: mode, resources, rules, and a preview of what goes in."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRefresh

from calculet.http import ActDoneAlready, PersonRequest, actor_of, page_or_part
from calculet.people.roles import Act, require
from inventory.models import Host
from transfers.forms import ItemForm, resources_with_place
from transfers.models import Item, Revision
from transfers.selectors.here import left_out_of
from transfers.selectors.revisions import list_sample
from transfers.services import plans
from transfers.services.entry_lists import Preview
from transfers.views.acts import REFUSALS, act_and_return, act_once, sentences_of
from transfers.views.find import draft_item, draft_of_host, host_named


@require_http_methods(["GET", "HEAD", "POST"])
def item_new(request: PersonRequest, host: str) -> HttpResponse:
    """Add a pack to the draft."""
    require(request.user, Act.PLAN_EDIT)
    return _edit(request, host_named(host), draft_of_host(host), None)


@require_http_methods(["GET", "HEAD", "POST"])
def item_edit(request: PersonRequest, host: str, pk: int) -> HttpResponse:
    """Change a pack of the draft."""
    require(request.user, Act.PLAN_EDIT)
    return _edit(request, host_named(host), draft_of_host(host), draft_item(host, pk))


def _edit(request: PersonRequest, host: Host, draft: Revision, item: Item | None) -> HttpResponse:
    if request.method != "POST":
        initial = ItemForm.start_of(item) if item is not None else {}
        return _editor(request, host, draft, ItemForm(host=host, initial=initial), item, _stored(item))
    form = ItemForm(request.POST, host=host)
    saved: Item | None = None
    if form.is_valid():
        try:
            saved = act_once(request, lambda actor: plans.item_set(revision=draft, actor=actor, **form.values()))
        except ActDoneAlready as already:
            messages.warning(request, str(already))
            if request.htmx:
                return HttpResponseClientRefresh()  # the form on the page is an old one
            return redirect("transfers:plan", host.name)
        except ValidationError as error:
            form.take_errors(error)
        except REFUSALS as error:
            form.add_error(None, " ".join(sentences_of(error)))
    if saved is None:
        return _editor(request, host, draft, form, item, None, status=422)
    try:
        # Outside the act's transaction: a list may have a million members.
        preview = plans.item_preview(item=saved, actor=actor_of(request))
    except REFUSALS as error:
        for sentence in sentences_of(error):
            form.add_error(None, sentence)
        return _editor(request, host, draft, form, saved, None, is_saved=True, status=422)
    if request.htmx or "preview" in request.POST:
        return _editor(request, host, draft, form, saved, preview, is_saved=True)
    messages.success(request, _("%(pack)s is in the draft.") % {"pack": saved.pack})
    return redirect(reverse("transfers:plan", args=[host.name]) + "#draft")


def _editor(
    request: PersonRequest,
    host: Host,
    draft: Revision,
    form: ItemForm,
    item: Item | None,
    preview: Preview | None,
    *,
    is_saved: bool = False,
    status: int = 200,
) -> HttpResponse:
    # htmx shows a part only when the answer is a success; the sentences of a refusal stand in the part.
    is_part = bool(request.htmx)
    context: dict[str, Any] = {
        "host": host,
        "draft": draft,
        "form": form,
        "item": item,
        "preview": preview,
        "left_out": left_out_of(item) if preview is not None else None,
        "is_saved": is_saved,
        "is_part": is_part,
        "has_resources": resources_with_place(host).exists(),
    }
    return page_or_part(request, "transfers/item.html", "preview", context, status=200 if is_part else status)


def _stored(item: Item | None) -> Preview | None:
    """What the last preview said, from the rows."""
    if item is None or item.entry_list is None:
        return None
    return Preview(
        file_count=item.entry_list.file_count,
        entry_count=item.entry_list.entry_count,
        total_bytes=item.entry_list.total_bytes,
        excluded_count=item.excluded_count,
        excluded_bytes=item.excluded_bytes,
        warnings=tuple(item.warnings),
        included_sample=tuple(list_sample(item)),
        excluded_sample=(),
        largest_in=[(name, size) for name, size in item.looked_at.get("largest_in", ())],
        largest_out=[(name, size) for name, size in item.looked_at.get("largest_out", ())],
    )


@require_POST
def item_remove(request: PersonRequest, host: str, pk: int) -> HttpResponse:
    """Take a pack out of the draft; what was fetched of it stays."""
    require(request.user, Act.PLAN_EDIT)
    item = draft_item(host, pk)
    back = reverse("transfers:plan", args=[host]) + "#draft"
    done = _("%(pack)s was taken out of the draft. What was fetched of it stays.") % {"pack": item.pack}
    return act_and_return(request, lambda actor: plans.item_remove(item=item, actor=actor), back, done=done)
