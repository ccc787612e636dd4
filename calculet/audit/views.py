"""The audit log: read it, save views of it, verify its chain, take an export."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import BadRequest, ValidationError
from django.core.paginator import Paginator
from django.http import HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from calculet.audit import filters, selectors, walks
from calculet.audit.exports import Form, chain_export
from calculet.audit.forms import ExportForm, LogFilter, ViewForm
from calculet.audit.models import SavedView
from calculet.http import ACT_KEY_FIELD, ActDoneAlready, PersonRequest, act_once, actor_of, claim_act
from calculet.people.roles import Act, require

PAGE_SIZE = 50
_CONTENT_TYPES = {Form.JSON_LINES: "application/jsonl", Form.CSV: "text/csv; charset=utf-8"}


@require_safe
def log(request: PersonRequest) -> HttpResponse:
    """Events from the newest on, and how the chain stands."""
    require(request.user, Act.AUDIT_READ)
    form = LogFilter(request.GET)
    wanted = form.wanted
    page = Paginator(filters.events_found(wanted), PAGE_SIZE).get_page(request.GET.get("page"))
    query = urlencode(wanted.told())
    built_in = next((view for view in filters.BUILT_IN if filters.same_query(view.query, query)), None)
    own = list(filters.views_of(actor_of(request)))
    context = {
        "form": form,
        "is_filtered": bool(wanted),
        "page": page,
        "rows": selectors.event_rows(page.object_list),
        "query": query,
        "chain": selectors.chain_state(),
        "built_in": filters.BUILT_IN,
        "current": built_in,
        "own": own,
        "current_own": next((view for view in own if filters.same_query(view.query, query)), None),
        "may_export": request.user.may(Act.AUDIT_EXPORT),
        "view_name_limit": filters.NAME_CHARACTERS,
    }
    return render(request, "calculet/audit.html", context)


@require_safe
def chain(request: PersonRequest) -> HttpResponse:
    """How the chain stands, and where its head was anchored."""
    require(request.user, Act.AUDIT_READ)
    anchors, problem = selectors.anchor_rows()
    context = {
        "chain": selectors.chain_state(),
        "anchors": anchors,
        "file": walks.anchor_file(),
        "file_problem": problem,
        "ways": selectors.anchor_ways(),
    }
    return render(request, "calculet/audit_chain.html", context)


@require_POST
def verify(request: PersonRequest) -> HttpResponse:
    """Walk the whole chain now; the walk is an event itself."""
    require(request.user, Act.AUDIT_READ)
    actor = actor_of(request)
    try:
        # Claimed by itself: the walk takes seconds, and no transaction is open meanwhile.
        claim_act(request.POST.get(ACT_KEY_FIELD, ""), actor)
    except ActDoneAlready as done:
        messages.warning(request, str(done))
        return redirect("audit:chain")
    verdict = walks.chain_verify(actor=actor)
    (messages.success if verdict.whole else messages.error)(request, str(verdict))
    return redirect("audit:chain")


@require_POST
def export(request: PersonRequest) -> StreamingHttpResponse:
    """The events of a filter as JSON Lines or CSV; without one the whole chain, the record of this export last.

    Sent twice, it is taken twice. A filter that makes no sense is refused: more would leave than was asked for.
    """
    require(request.user, Act.AUDIT_EXPORT)
    form, log_filter = ExportForm(request.POST), LogFilter(QueryDict(request.POST.get("query", "")))
    if not form.is_valid() or not log_filter.is_valid():
        raise BadRequest(_("Nothing was exported: the filter or the form of the file makes no sense. Choose again."))
    wanted, kind = log_filter.wanted, form.cleaned_data["form"]
    lines = chain_export(actor=actor_of(request), wanted=wanted, form=kind)
    name = f"audit{'-part' if wanted else ''}-{timezone.now():%Y-%m-%d}.{kind}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingHttpResponse(lines, content_type=_CONTENT_TYPES[kind], headers=headers)


@require_POST
def view_save(request: PersonRequest) -> HttpResponse:
    """Save the filter that is shown under a name."""
    require(request.user, Act.AUDIT_READ)
    wanted = LogFilter(QueryDict(request.POST.get("query", ""))).wanted
    form = ViewForm(request.POST)
    try:
        if not form.is_valid():
            raise ValidationError(_("A view needs a name of at most 60 characters and a filter. Nothing was saved."))
        name = form.cleaned_data["name"]
        act_once(request, lambda actor: filters.view_save(name=name, wanted=wanted, actor=actor))
        messages.success(request, _("The view “%(name)s” was saved.") % {"name": name})
    except (ValidationError, ActDoneAlready) as error:
        messages.warning(request, " ".join(error.messages) if isinstance(error, ValidationError) else str(error))
    return redirect(f"{reverse('audit:log')}?{urlencode(wanted.told())}")


@require_POST
def view_remove(request: PersonRequest, pk: int) -> HttpResponse:
    """Remove a view of one's own."""
    require(request.user, Act.AUDIT_READ)
    view = get_object_or_404(SavedView, pk=pk, person=request.user)
    try:
        act_once(request, lambda actor: filters.view_remove(view=view, actor=actor))
    except ActDoneAlready as error:
        messages.warning(request, str(error))
    return redirect("audit:log")
