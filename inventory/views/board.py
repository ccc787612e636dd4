"""The inventory's first page: tiers, their resources, and how far their sizes can be trusted."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from calculet.http import ActDoneAlready, PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory import pictures, selectors
from inventory.models import Host, Resource
from inventory.services import scans
from inventory.tasks import run_scan, send_soon
from inventory.views.acts import REFUSALS, act_once, back_to


@require_safe
def index(request: PersonRequest) -> HttpResponse:
    """Every tier with its resources; `?host=NAME` keeps those of one host, as if it were the only one."""
    require(request.user, Act.VIEW)
    hosts = list(Host.objects.order_by("name"))
    only = hosts[0] if len(hosts) == 1 else None
    wanted = request.GET.get("host", "")
    host = get_object_or_404(Host, name=wanted) if wanted else only
    shown = selectors.board(host=host)
    context = {
        "hosts": hosts,
        "host": host,
        "board": shown,
        "tiles": pictures.inventory_picture([row.resource for tier in shown.tiers for row in tier.rows]),
        "waiting": selectors.proposals_waiting(host=host).count(),
        "may_scan": request.user.may(Act.SCAN),
        "may_edit": request.user.may(Act.RESOURCE_EDIT),
        "may_manage": request.user.may(Act.HOST_MANAGE),
    }
    return page_or_part(request, "inventory/index.html", "board", context)


@require_POST
def scan_all(request: PersonRequest, name: str) -> HttpResponse:
    """Ask for a scan of every resource of a host that has a path."""
    require(request.user, Act.SCAN)
    host = get_object_or_404(Host, name=name)
    chosen = [resource for resource in Resource.objects.filter(host=host) if resource.path.raw]
    try:
        asked = act_once(
            request, lambda actor: [scans.scan_request(resource=resource, actor=actor) for resource in chosen]
        )
    except ActDoneAlready as already:
        messages.warning(request, str(already))
    except REFUSALS as error:
        messages.error(request, str(error))
    else:
        for scan in asked:
            send_soon(run_scan, scan.pk)
        sentence = ngettext("%(count)s scan is asked for.", "%(count)s scans are asked for.", len(asked))
        if asked:
            messages.success(request, sentence % {"count": len(asked)})
        else:
            messages.warning(request, _("No resource of this host has a path yet, so there is nothing to scan."))
    return back_to(request, "inventory:index")
