"""Proposals: what a plan file says differently from the team, for another person to decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from calculet.http import PersonRequest
from calculet.pages.templatetags.shown import bytes_exact
from calculet.people.roles import Act, require
from inventory import selectors
from inventory.forms import NoteForm
from inventory.models import Proposal, SizeBasis, Tier
from inventory.services import tiers
from inventory.tier_board import ADDED, ORDER
from inventory.views.acts import act_and_return

DECIDED_A_PAGE = 20
_FIELDS = {
    "path": gettext_lazy("path"),
    "kind": gettext_lazy("kind"),
    "tier": gettext_lazy("tier"),
    "position": gettext_lazy("place in its tier"),
    "size": gettext_lazy("size"),
    "value": gettext_lazy("value"),
    "recommendation": gettext_lazy("recommendation"),
    "name": gettext_lazy("name"),
    "note": gettext_lazy("note"),
    ADDED: gettext_lazy("new tier"),
    ORDER: gettext_lazy("order"),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that the team and the file hold differently. `has_moved` when the team changed it again since."""

    what: str
    field: str
    now: str
    wanted: str
    has_moved: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A proposal as the page shows it."""

    proposal: Proposal
    differences: list[Difference]
    may_decide: bool
    may_withdraw: bool

    @property
    def has_moved(self) -> bool:
        return any(difference.has_moved for difference in self.differences)


@require_safe
def proposal_list(request: PersonRequest) -> HttpResponse:
    """What waits, with every difference, and what was decided."""
    require(request.user, Act.VIEW)
    person = request.user
    waiting = []
    for proposal in selectors.proposals_waiting():
        is_own = proposal.author_id == person.pk
        has_part = is_own or person.pk in proposal.editors
        shown = Shown(
            proposal=proposal,
            differences=_differences(proposal),
            may_decide=person.may(Act.TIER_APPROVE) and not has_part,
            may_withdraw=person.may(Act.TIER_EDIT) and is_own,
        )
        waiting.append(shown)
    page = Paginator(selectors.proposals_decided(), DECIDED_A_PAGE).get_page(request.GET.get("page"))
    decided = [(proposal, _differences(proposal)) for proposal in page]
    context = {"waiting": waiting, "page": page, "decided": decided}
    return render(request, "inventory/proposals.html", context)


@require_POST
def proposal_approve(request: PersonRequest, pk: int) -> HttpResponse:
    """Approve exactly what was shown."""
    require(request.user, Act.TIER_APPROVE)
    return _decide(request, pk, tiers.proposal_approve, _("The proposal is approved and applied."))


@require_POST
def proposal_decline(request: PersonRequest, pk: int) -> HttpResponse:
    """Turn a proposal down."""
    require(request.user, Act.TIER_APPROVE)
    return _decide(request, pk, tiers.proposal_decline, _("The proposal is declined; nothing else was changed."))


@require_POST
def proposal_withdraw(request: PersonRequest, pk: int) -> HttpResponse:
    """Take one's own proposal back."""
    require(request.user, Act.TIER_EDIT)
    proposal = get_object_or_404(Proposal.objects.select_related("host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: tiers.proposal_withdraw(proposal=proposal, actor=actor),
        "inventory:proposals",
        done=_("The proposal is withdrawn."),
    )


def _decide(request: PersonRequest, pk: int, decide: Any, done: str) -> HttpResponse:
    proposal = get_object_or_404(Proposal.objects.select_related("host"), pk=pk)
    form = NoteForm(request.POST)
    if not form.is_valid():
        return redirect("inventory:proposals")
    given = form.cleaned_data
    return act_and_return(
        request,
        lambda actor: decide(proposal=proposal, digest=given["digest"], note=given["note"], actor=actor),
        "inventory:proposals",
        done=done,
    )


def _differences(proposal: Proposal) -> list[Difference]:
    changes = proposal.changes
    rows = selectors.resources_named(
        proposal.host, {str(change["resource"]) for change in changes if "resource" in change}
    )
    agreed = selectors.tiers_at({int(change["tier"]) for change in changes if "tier" in change})
    found = []
    for change in changes:
        field = str(change["field"])
        if "tier" in change:
            what, present = _of_tier(change, agreed.get(change["tier"]), changes)
        else:
            row = rows.get(str(change["resource"]))
            what = str(change["resource"])
            present = tiers.resource_values(row)[field] if row is not None else None
        found.append(
            Difference(
                what=what,
                field=str(_FIELDS.get(field, field)),
                now=_words(field, change["from"]),
                wanted=_words(field, change["to"]),
                has_moved=present != change["from"],
            )
        )
    return found


def _of_tier(change: dict[str, Any], tier: Tier | None, changes: list[dict[str, Any]]) -> tuple[str, Any]:
    """What a change of tiers is about, and what is in force there; an order is one with the proposal's new tiers."""
    field = str(change["field"])
    if field == ORDER:
        added = [one["tier"] for one in changes if one["field"] == ADDED]
        return _("all tiers"), sorted([*selectors.tier_positions(), *added])
    what = _("tier %(position)s") % {"position": change["tier"]}
    if field == ADDED:
        return what, None if tier is None else tier.name
    return what, getattr(tier, field) if tier is not None else None


def _words(field: str, value: Any) -> str:
    """A changed value in words."""
    if field == "size":
        size, basis = value
        return _("not known") if size is None else f"{bytes_exact(size)}, {SizeBasis(basis).label}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None or value == "":
        return "–"
    return str(value)
