"""Plan files: load one into a host's plan, and take the plan away as one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from calculet.http import PersonRequest
from calculet.people.roles import Act, require
from inventory.manifests.planfile import PlanFileError
from inventory.saying import said_here
from inventory.services.errors import InventoryError
from transfers.forms import PlanFileForm
from transfers.services import plan_files
from transfers.views.acts import REFUSALS, act_first, sentences_of
from transfers.views.find import host_named


@require_http_methods(["GET", "HEAD", "POST"])
def plan_load(request: PersonRequest, host: str) -> HttpResponse:
    """Load a plan file: its errors are listed with their lines, and then nothing is loaded."""
    require(request.user, Act.PLAN_EDIT)
    row = host_named(host)
    form = PlanFileForm(request.POST or None, request.FILES or None)
    context: dict[str, Any] = {"host": row, "form": form, "errors": []}
    if request.method == "POST" and form.is_valid():
        upload = form.cleaned_data["file"]
        try:
            result = act_first(
                request,
                lambda actor: plan_files.plan_file_load(
                    host=row, content=upload.read(), file_name=upload.name, actor=actor
                ),
            )
        except PlanFileError as error:
            context["errors"] = [said_here(sentence) for sentence in error.sentences()]
        except (*REFUSALS, InventoryError) as error:
            context["errors"] = sentences_of(error)
        else:
            for words in _told(result):
                messages.success(request, words)
            if result.packs_left:
                left = _("The open draft says otherwise about %(packs)s; it was not overwritten.")
                messages.warning(request, left % {"packs": ", ".join(result.packs_left)})
            if result.stated_left:
                messages.warning(
                    request,
                    _("What the plan states already, or you may not state, was left as it is: %(names)s.")
                    % {"names": ", ".join(result.stated_left)},
                )
            return redirect("transfers:plan", host)
    status = 422 if request.method == "POST" else 200
    return render(request, "transfers/plan_load.html", context, status=status)


def _told(result: plan_files.PlanFileResult) -> Iterator[str]:
    """What loading did, a sentence a part."""
    loaded = result.inventory
    yield _("Resources: %(created)s new, %(changed)s changed, %(unchanged)s as they were.") % {
        "created": loaded.created,
        "changed": loaded.changed,
        "unchanged": loaded.unchanged,
    }
    if loaded.proposal is not None:
        yield _("The team has changed some values since the last file; the differences wait as a proposal.")
    if result.draft is not None:
        yield ngettext(
            "%(count)s pack is in the draft of revision %(number)s. Preview it, then propose.",
            "%(count)s packs are in the draft of revision %(number)s. Preview them, then propose.",
            result.packs_set,
        ) % {"count": result.packs_set, "number": result.draft.number}
    elif not result.packs_left:
        yield _("The packs are as they were.")
    if result.capabilities_created:
        yield _("Capabilities: %(count)s new.") % {"count": result.capabilities_created}


@require_safe
def plan_export(request: PersonRequest, host: str) -> HttpResponse:
    """The plan that is in force, as a plan file."""
    require(request.user, Act.VIEW)
    row = host_named(host)
    content = plan_files.plan_file_export(host=row)
    response = HttpResponse(content, content_type="application/yaml; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{row.name}-plan.yaml"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
