"""Plans: which host has one, what is in force, and the draft's beginning, end and proposal."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from calculet.http import PersonRequest
from calculet.people.roles import Act, require
from inventory.models import Host
from transfers.forms import NoteForm
from transfers.models import Plan, RevisionState
from transfers.selectors.revisions import (
    changes_between,
    item_rows,
    plan_states,
    revision_in_force,
    revisions_for_pages,
    totals_of,
)
from transfers.services import plans
from transfers.views.acts import REFUSALS, act_and_return, act_first, rights, sentences_of
from transfers.views.find import draft_of_host, host_named


@require_safe
def plan_index(request: PersonRequest) -> HttpResponse:
    """Every host and how far its plan is."""
    require(request.user, Act.VIEW)
    return render(request, "transfers/plan_index.html", {"states": plan_states(), **rights(request)})


@require_safe
def plan(request: PersonRequest, host: str) -> HttpResponse:
    """A host's plan: the revision in force, the draft, what is proposed, and the history."""
    require(request.user, Act.VIEW)
    return plan_page(request, host_named(host))


def plan_page(
    request: PersonRequest, host: Host, *, propose_form: NoteForm | None = None, status: int = 200
) -> HttpResponse:
    """Render a host's plan page; a proposal that was refused is shown again with its note."""
    row = Plan.objects.filter(host=host).first()
    revisions = list(revisions_for_pages().filter(plan=row)) if row is not None else []
    draft = next((one for one in revisions if one.state == RevisionState.DRAFT), None)
    in_force = revision_in_force(row)
    rows, draft_rows = item_rows(in_force), item_rows(draft)
    context: dict[str, Any] = {
        "host": host,
        "plan": row,
        "in_force": in_force,
        "rows": rows,
        "totals": totals_of(rows),
        "draft": draft,
        "draft_rows": draft_rows,
        "draft_totals": totals_of(draft_rows),
        "draft_changes": [one for one in changes_between(in_force, draft) if one.what != "same"] if draft else [],
        "unpreviewed": [one for one in draft_rows if one.item.entry_list is None],
        "proposed": [one for one in revisions if one.state == RevisionState.PROPOSED],
        "history": [one for one in revisions if one.state not in (RevisionState.DRAFT, RevisionState.PROPOSED)],
        **rights(request),
        "propose_form": propose_form or NoteForm(initial={"note": draft.note if draft is not None else ""}),
    }
    return render(request, "transfers/plan.html", context, status=status)


@require_POST
def draft_start(request: PersonRequest, host: str) -> HttpResponse:
    """Begin a draft as a copy of what is in force; an open one is gone on with."""
    require(request.user, Act.PLAN_EDIT)
    row = host_named(host)
    done = _("The draft is open. Nothing changes before somebody else approves it.")
    return act_and_return(
        request, lambda actor: plans.draft_start(host=row, actor=actor), _address(row) + "#draft", done=done
    )


@require_POST
def draft_propose(request: PersonRequest, host: str) -> HttpResponse:
    """Fix the draft by its digest and ask for approval."""
    require(request.user, Act.PLAN_EDIT)
    row, draft, form = host_named(host), draft_of_host(host), NoteForm(request.POST)
    if form.is_valid():
        note = form.cleaned_data["note"]
        try:
            # Lists are made anew from the scans, which may take a while: no transaction is held over it.
            act_first(request, lambda actor: plans.revision_propose(revision=draft, actor=actor, note=note))
        except REFUSALS as error:
            for sentence in sentences_of(error):
                form.add_error(None, sentence)
        else:
            messages.success(request, _("The revision is proposed. Somebody else decides on it."))
            return redirect("transfers:revision", host, draft.number)
    return plan_page(request, row, propose_form=form, status=422)


@require_POST
def draft_discard(request: PersonRequest, host: str) -> HttpResponse:
    """Take the draft back; what is in force stays."""
    require(request.user, Act.PLAN_EDIT)
    row, draft = host_named(host), draft_of_host(host)
    done = _("The draft was withdrawn. What is in force stays.")
    return act_and_return(
        request, lambda actor: plans.revision_withdraw(revision=draft, actor=actor), _address(row), done=done
    )


def _address(host: Host) -> str:
    return reverse("transfers:plan", args=[host.name])
