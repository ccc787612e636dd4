"""What the rules in the editor would come to, told while they are typed; nothing is saved."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from calculet.http import PersonRequest
from calculet.people.roles import Act, require
from inventory.models import Resource
from inventory.selectors import latest_scan
from transfers.forms import ItemForm
from transfers.rules import RuleError
from transfers.selectors.taking import rule_counts
from transfers.views.find import host_named


@require_POST
def rule_counts_typed(request: PersonRequest, host: str) -> HttpResponse:
    """A fragment with counts, sums and the largest folders of what is typed in the editor's form."""
    require(request.user, Act.PLAN_EDIT)
    form = ItemForm(request.POST, host=host_named(host))
    form.is_valid()  # only what the rules need is looked at; the rest is asked for when it is saved
    given = form.cleaned_data
    context: dict[str, Any] = {"counts": None, "problem": ""}
    resources: list[Resource] = list(given.get("resources") or [])
    scans = [scan for one in resources if (scan := latest_scan(one)) is not None]
    if scans and len(scans) == len(resources) and not _are_nested(resources):
        try:
            include, exclude = given.get("include_rules") or [], given.get("exclude_rules") or []
            context["counts"] = rule_counts(scans, include, exclude)
        except RuleError as error:
            context["problem"] = str(error)
    return render(request, "transfers/_rule_counts.html", context)


def _are_nested(resources: list[Resource]) -> bool:
    """Entries of a resource inside another would be counted twice; the preview, which makes the list, counts once."""
    return any(one.pk != two.pk and one.path.is_below(two.path) for one in resources for two in resources)
