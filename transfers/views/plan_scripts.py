"""A plan's fetch as a shell script to take away, for the day on which the product is not there."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from calculet.http import PersonRequest, actor_of
from calculet.people.roles import Act, require
from transfers.services.plan_scripts import plan_script_export
from transfers.views.acts import REFUSALS, sentences_of
from transfers.views.find import plan_of_host


@require_POST
def plan_script(request: PersonRequest, host: str) -> HttpResponse:
    """Download the script. It changes nothing, and may be taken again; each time is an event."""
    require(request.user, Act.FETCH)
    plan = plan_of_host(host)
    try:
        script = plan_script_export(plan=plan, actor=actor_of(request))
    except REFUSALS as error:
        for sentence in sentences_of(error):
            messages.error(request, sentence)
        return redirect("transfers:plan", host)
    response = HttpResponse(script.content, content_type="application/x-sh")
    response["Content-Disposition"] = f'attachment; filename="{host}-fetch.sh"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
