"""What lies inside archives: asking for a look, giving up, and the files of one."""

from __future__ import annotations

from itertools import islice

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from calculet.http import PersonRequest
from calculet.people.roles import Act, require
from inventory import insides
from inventory.models import InsideArchive, InsideRun, Resource
from inventory.remote.names import RemoteName
from inventory.services import inside_runs
from inventory.tasks import look_inside, send_soon
from inventory.views.acts import act_and_return

FILES_SHOWN = 500


@require_POST
def resource_inside(request: PersonRequest, pk: int) -> HttpResponse:
    """Ask for a look inside the archives of the latest scan."""
    require(request.user, Act.SCAN)
    row = get_object_or_404(Resource.objects.select_related("host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: send_soon(look_inside, inside_runs.inside_request(resource=row, actor=actor).pk),
        reverse("inventory:resource", args=[row.pk]),
        done=_("The look inside is asked for; archives are read on the host as streams, nothing is unpacked there."),
    )


@require_POST
def inside_cancel(request: PersonRequest, pk: int) -> HttpResponse:
    """Give a look up."""
    require(request.user, Act.SCAN)
    run = get_object_or_404(InsideRun.objects.select_related("resource__host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: inside_runs.inside_cancel(run=run, actor=actor),
        reverse("inventory:resource", args=[run.resource_id]),
        done=_("The look inside is given up; what was found stays."),
    )


@require_safe
def inside_archive(request: PersonRequest, pk: int) -> HttpResponse:
    """The first files of an archive, in the order in which they lie there."""
    require(request.user, Act.VIEW)
    archive = get_object_or_404(InsideArchive.objects.select_related("host"), pk=pk)
    files = [
        (RemoteName(record.name), record.size_bytes, record.sha256)
        for record in islice(insides.inside_files(archive), FILES_SHOWN)
    ]
    context = {"archive": archive, "files": files, "left": archive.files - len(files), "parts": archive.parts.count()}
    return render(request, "inventory/inside.html", context)
