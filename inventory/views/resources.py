"""One resource: what is known, its scans, and changing what is said about it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from calculet.http import ActDoneAlready, PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory import browsing, here, insides, selectors
from inventory.forms import ResourceForm
from inventory.models import DigestRun, Host, Resource, Scan, ScanChange
from inventory.services import digest_runs, resources, scans
from inventory.tasks import run_digests, run_scan, send_soon
from inventory.views.acts import REFUSALS, act_and_return, act_once, refusal_show
from inventory.views.policies import policy_context

FIRST_ENTRIES = 20
CHANGES_A_PAGE = 200


@require_safe
def resource(request: PersonRequest, pk: int) -> HttpResponse:
    """A resource's facts, its scans, and the first entries of the latest one."""
    require(request.user, Act.VIEW)
    row = get_object_or_404(Resource.objects.select_related("host", "tier"), pk=pk)
    done = selectors.scans_of(row)
    latest = selectors.latest_scan(row)
    root = browsing.entry_find(latest, b"") if latest is not None else None
    context = {
        "resource": row,
        "scans": done,
        "running": next((scan for scan in done if scan.state in selectors.UNDER_WAY), None),
        "latest": latest,
        "folder": browsing.folder_page(latest, root, limit=FIRST_ENTRIES) if latest and root else None,
        "digests": selectors.digests_of(row, latest),
        "cover": here.cover_of(row),
        "insides": insides.insides_shown(row),
        "lists": selectors.lists_of(row),
        "has_no_shell": selectors.has_no_shell(row.host),
        "report": selectors.known_report(row.host),
        **policy_context(row),
        "may_scan": request.user.may(Act.SCAN),
        "may_edit": request.user.may(Act.RESOURCE_EDIT),
    }
    return page_or_part(request, "inventory/resource.html", "live", context)


@require_http_methods(["GET", "HEAD", "POST"])
def resource_add(request: PersonRequest, name: str) -> HttpResponse:
    """Name something on a host that is worth naming."""
    require(request.user, Act.RESOURCE_EDIT)
    host = get_object_or_404(Host, name=name)
    form = ResourceForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            added = act_once(request, lambda actor: resources.resource_add(host=host, actor=actor, **form.cleaned_data))
        except ActDoneAlready as already:
            messages.warning(request, str(already))
            return redirect(f"{reverse('inventory:index')}?host={host.name}")
        except REFUSALS as error:
            refusal_show(form, error)
        else:
            messages.success(request, _("“%(name)s” is in the inventory.") % {"name": added.name})
            return redirect("inventory:resource", added.pk)
    return _form_page(request, form, {"host": host})


@require_http_methods(["GET", "HEAD", "POST"])
def resource_change(request: PersonRequest, pk: int) -> HttpResponse:
    """Change what is said about a resource."""
    require(request.user, Act.RESOURCE_EDIT)
    row = get_object_or_404(Resource.objects.select_related("host", "tier"), pk=pk)
    form = ResourceForm.of(row, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            act_once(request, lambda actor: resources.resource_change(resource=row, actor=actor, **form.cleaned_data))
        except ActDoneAlready as already:
            messages.warning(request, str(already))
            return redirect("inventory:resource", row.pk)
        except REFUSALS as error:
            refusal_show(form, error)
        else:
            messages.success(request, _("The resource is as you wrote it."))
            return redirect("inventory:resource", row.pk)
    return _form_page(request, form, {"host": row.host, "resource": row})


@require_POST
def resource_scan(request: PersonRequest, pk: int) -> HttpResponse:
    """Ask for a scan of a resource."""
    require(request.user, Act.SCAN)
    row = get_object_or_404(Resource.objects.select_related("host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: send_soon(run_scan, scans.scan_request(resource=row, actor=actor).pk),
        reverse("inventory:resource", args=[row.pk]),
        done=_("A scan of “%(name)s” is asked for.") % {"name": row.name},
    )


@require_POST
def scan_cancel(request: PersonRequest, pk: int) -> HttpResponse:
    """Give a scan up."""
    require(request.user, Act.SCAN)
    scan = get_object_or_404(Scan.objects.select_related("resource__host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: scans.scan_cancel(scan=scan, actor=actor),
        reverse("inventory:resource", args=[scan.resource_id]),
        done=_("The scan was cancelled; what it had found is removed."),
    )


@require_POST
def resource_digests(request: PersonRequest, pk: int) -> HttpResponse:
    """Ask for the digests that the latest scan lacks."""
    require(request.user, Act.SCAN)
    row = get_object_or_404(Resource.objects.select_related("host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: send_soon(run_digests, digest_runs.digests_request(resource=row, actor=actor).pk),
        reverse("inventory:resource", args=[row.pk]),
        done=_(
            "The digests are asked for; they are taken on the host, and files that did not change are not read again."
        ),
    )


@require_POST
def digests_cancel(request: PersonRequest, pk: int) -> HttpResponse:
    """Give the taking of digests up."""
    require(request.user, Act.SCAN)
    run = get_object_or_404(DigestRun.objects.select_related("resource__host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: digest_runs.digests_cancel(run=run, actor=actor),
        reverse("inventory:resource", args=[run.resource_id]),
        done=_("The digests are given up; those that were taken stay."),
    )


@require_safe
def scan_changes(request: PersonRequest, pk: int) -> HttpResponse:
    """What a scan found otherwise than the one before: `?kind=` keeps added, removed or changed."""
    require(request.user, Act.VIEW)
    scan = get_object_or_404(Scan.objects.select_related("resource__host", "former"), pk=pk)
    kind = request.GET.get("kind", "")
    rows = scan.changes.order_by("position")
    if kind in ScanChange.Kind.values:
        rows = rows.filter(kind=kind)
    page = Paginator(rows, CHANGES_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "scan": scan,
        "resource": scan.resource,
        "kind": kind,
        "page": page,
        "query": urlencode({"kind": kind}) if kind else "",
        "kept": scan.changes.count(),
    }
    return render(request, "inventory/changes.html", context)


def _form_page(request: PersonRequest, form: ResourceForm, context: dict[str, Any]) -> HttpResponse:
    status = 422 if request.method == "POST" else 200
    return render(request, "inventory/resource_form.html", {"form": form, **context}, status=status)
