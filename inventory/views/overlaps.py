"""Where the same bytes lie twice."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from calculet.http import PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory import overlapping
from inventory.forms import OverlapForm
from inventory.models import DeclaredOverlap
from inventory.services import overlaps
from inventory.tasks import measure_overlaps, send_soon
from inventory.views.acts import act_and_return


@require_safe
def overlap_list(request: PersonRequest) -> HttpResponse:
    """Every pair of resources that share bytes, the largest first."""
    require(request.user, Act.VIEW)
    context = {
        "shown": overlapping.overlaps_shown(),
        "declared": overlapping.declared_overlaps(),
        "form": OverlapForm(),
        "may_edit": request.user.may(Act.RESOURCE_EDIT),
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


@require_POST
def overlap_declare(request: PersonRequest) -> HttpResponse:
    """Say how much of a resource lies in another one."""
    require(request.user, Act.RESOURCE_EDIT)
    form = OverlapForm(request.POST)
    if not form.is_valid():
        for errors in form.errors.values():
            messages.error(request, " ".join(str(error) for error in errors))
        return redirect("inventory:overlaps")
    return act_and_return(
        request,
        lambda actor: overlaps.overlap_declare(actor=actor, **form.cleaned_data),
        reverse("inventory:overlaps"),
        done=_("It is shown as declared; measured overlap stands beside it."),
    )


@require_POST
def overlap_withdraw(request: PersonRequest, pk: int) -> HttpResponse:
    """Take back what was said."""
    require(request.user, Act.RESOURCE_EDIT)
    row = get_object_or_404(DeclaredOverlap.objects.select_related("resource__host", "other__host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: overlaps.overlap_withdraw(declared=row, actor=actor),
        reverse("inventory:overlaps"),
        done=_("It is not declared any more."),
    )
