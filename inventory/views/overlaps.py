"""Where the same bytes lie twice."""

from __future__ import annotations

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from calculet.http import PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory import overlapping
from inventory.services import overlaps
from inventory.tasks import measure_overlaps, send_soon
from inventory.views.acts import act_and_return


@require_safe
def overlap_list(request: PersonRequest) -> HttpResponse:
    """Every pair of resources that share bytes, the largest first."""
    require(request.user, Act.VIEW)
    context = {
        "shown": overlapping.overlaps_shown(),
        "waiting": overlapping.measure_waiting(),
        "may_scan": request.user.may(Act.SCAN),
    }
    return page_or_part(request, "inventory/overlaps.html", "live", context)


@require_POST
def overlap_measure(request: PersonRequest) -> HttpResponse:
    """Ask for a measuring."""
    require(request.user, Act.SCAN)
    return act_and_return(
        request,
        lambda actor: send_soon(measure_overlaps, overlaps.overlaps_request(actor=actor).pk),
        reverse("inventory:overlaps"),
        done=_("The overlaps are being measured from the listings that are there."),
    )
