"""The link doctor of a host: what one connection and the link can do, and what would help."""

from __future__ import annotations

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from calculet.actors import Actor
from calculet.http import PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory.tasks import send_soon
from transfers import tasks
from transfers.models import ExaminationState
from transfers.selectors.examinations import examinations_of
from transfers.services.examinations import examination_request
from transfers.views.acts import act_and_return, rights
from transfers.views.find import host_named

_UNDER_WAY = (ExaminationState.QUEUED, ExaminationState.RUNNING)


@require_http_methods(["GET", "HEAD", "POST"])
def doctor(request: PersonRequest, host: str) -> HttpResponse:
    """The newest examination with its advice, earlier ones, and the button that asks for another."""
    require(request.user, Act.VIEW if request.method != "POST" else Act.LINK_STEER)
    row = host_named(host)
    if request.method == "POST":

        def ask(actor: Actor) -> None:
            send_soon(tasks.examine_link, examination_request(host=row, actor=actor).pk)

        address = reverse("transfers:link-doctor", args=[row.name])
        return act_and_return(request, ask, address, done=_("The link is examined; that takes half a minute."))
    found = examinations_of(row)
    under_way = next((one for one in found if one.state in _UNDER_WAY), None)
    context = {
        "host": row,
        "under_way": under_way,
        "newest": next((one for one in found if one.state not in _UNDER_WAY), None),
        "examinations": found,
        **rights(request),
    }
    return page_or_part(request, "transfers/doctor.html", "live", context)
