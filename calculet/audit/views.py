"""The audit log: read it, verify its chain, take an export."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from calculet.audit import selectors, services
from calculet.audit.forms import LogFilter
from calculet.http import ACT_KEY_FIELD, ActDoneAlready, PersonRequest, actor_of, claim_act
from calculet.people.roles import Act, require

PAGE_SIZE = 50


@require_safe
def log(request: PersonRequest) -> HttpResponse:
    """Events from the newest on, and how the chain stands."""
    require(request.user, Act.AUDIT_READ)
    form = LogFilter(request.GET)
    form.is_valid()  # what is wrong is told beside the filter and left out
    wanted = {name: value for name, value in form.cleaned_data.items() if value}
    page = Paginator(selectors.events_found(**wanted), PAGE_SIZE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "form": form,
        "is_filtered": bool(wanted),
        "page": page,
        "rows": selectors.event_rows(page.object_list),
        "query": query.urlencode(),
        "chain": selectors.chain_state(),
        "may_export": request.user.may(Act.AUDIT_EXPORT),
    }
    return render(request, "calculet/audit.html", context)


@require_POST
def verify(request: PersonRequest) -> HttpResponse:
    """Walk the whole chain now; the walk is an event itself."""
    require(request.user, Act.AUDIT_READ)
    actor = actor_of(request)
    try:
        with transaction.atomic():
            claim_act(request.POST.get(ACT_KEY_FIELD, ""), actor)
    except ActDoneAlready as done:
        messages.warning(request, str(done))
        return redirect("audit:log")
    verdict = services.chain_verify(actor=actor)
    (messages.success if verdict.whole else messages.error)(request, str(verdict))
    return redirect("audit:log")


@require_POST
def export(request: PersonRequest) -> StreamingHttpResponse:
    """Every event as JSON lines, the record of this export the last of them. Sent twice, it is taken twice."""
    require(request.user, Act.AUDIT_EXPORT)
    lines = services.chain_export(actor=actor_of(request))
    name = f"audit-{timezone.now():%Y-%m-%d}.jsonl"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingHttpResponse(lines, content_type="application/jsonl", headers=headers)
