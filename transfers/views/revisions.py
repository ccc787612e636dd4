"""One revision of a plan: what it says, what it changes, and the decision on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.forms import Form
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from calculet.http import ActDoneAlready, PersonRequest
from calculet.people.roles import Act, require
from transfers.forms import NoteForm, ReasonForm
from transfers.models import Revision, RevisionState
from transfers.selectors.comparison import compare_revisions
from transfers.selectors.revisions import (
    changes_between,
    item_rows,
    list_sample,
    revision_in_force,
    revisions_for_pages,
    totals_of,
)
from transfers.services import plans
from transfers.views.acts import REFUSALS, act_and_return, act_once, rights, sentences_of
from transfers.views.find import plan_of_host, revision_numbered


@require_safe
def revision(request: PersonRequest, host: str, number: int) -> HttpResponse:
    """A revision with its digest, its items, and what it changes beside the one in force."""
    require(request.user, Act.VIEW)
    return _page(request, revision_numbered(host, number))


@require_safe
def compare(request: PersonRequest, host: str) -> HttpResponse:
    """Any two revisions side by side; without a question, the two newest."""
    require(request.user, Act.VIEW)
    plan = plan_of_host(host)
    revisions = list(revisions_for_pages().filter(plan=plan))
    if not revisions:
        messages.info(request, _("The plan has no revision yet, so there is nothing to compare."))
        return redirect("transfers:plan", host)
    by_number = {str(one.number): one for one in revisions}
    after = by_number.get(request.GET.get("after", ""), revisions[0])
    older = next((one for one in revisions if one.number < after.number), after)
    before = by_number.get(request.GET.get("before", ""), older)
    found = compare_revisions(before, after)
    context: dict[str, Any] = {
        "host": plan.host,
        "revisions": revisions,
        "before": before,
        "after": after,
        "sides": (before, after),
        "changes": [
            {
                "change": one.change,
                "members": one.members,
                "is_too_long": one.is_too_long,
                "cells": ((before, one.change.before), (after, one.change.after)),
            }
            for one in found
        ],
    }
    return render(request, "transfers/compare.html", context)


def _page(request: PersonRequest, row: Revision, *, form: Form | None = None, status: int = 200) -> HttpResponse:
    rows = item_rows(row)
    in_force = revision_in_force(row.plan)
    is_open = row.state in (RevisionState.PROPOSED, RevisionState.DRAFT)
    is_author = row.author_id == request.user.pk
    context: dict[str, Any] = {
        "revision": row,
        "host": row.plan.host,
        "rows": [{"row": one, "sample": list_sample(one.item)} for one in rows],
        "totals": totals_of(rows),
        "in_force": in_force,
        "changes": changes_between(in_force, row) if is_open else [],
        "is_author": is_author,
        "approvals_given": plans.approvals_given(row),
        "approvals_needed": settings.APPROVALS_NEEDED,
        "may_approve": request.user.may(Act.PLAN_APPROVE) and not is_author,
        "form": form or NoteForm(),
        **rights(request),
    }
    return render(request, "transfers/revision.html", context, status=status)


@require_POST
def revision_approve(request: PersonRequest, host: str, number: int) -> HttpResponse:
    """Approve the digest that was on the page."""
    require(request.user, Act.PLAN_APPROVE)
    row, form = revision_numbered(host, number), NoteForm(request.POST)
    return _decide(request, row, form, plans.revision_approve, _approved)


@require_POST
def revision_decline(request: PersonRequest, host: str, number: int) -> HttpResponse:
    """Decline the digest that was on the page; the author reads why."""
    require(request.user, Act.PLAN_DECLINE)
    row, form = revision_numbered(host, number), ReasonForm(request.POST)
    form.fields["note"].error_messages["required"] = _("Say in the note why not, so that the author can mend it.")
    done = _("Revision %(number)s is declined. Its author sees your note.") % {"number": number}
    return _decide(request, row, form, plans.revision_decline, lambda revision: done)


def _approved(revision: Revision) -> str:
    if revision.state == RevisionState.APPROVED:
        words = _("Revision %(number)s is in force. Its packs are made and fetched in their order.")
        return words % {"number": revision.number}
    more = settings.APPROVALS_NEEDED - plans.approvals_given(revision)
    return ngettext(
        "Your approval is kept. %(count)s more person has to approve before anything changes.",
        "Your approval is kept. %(count)s more people have to approve before anything changes.",
        more,
    ) % {"count": more}


def _decide(
    request: PersonRequest, row: Revision, form: Form, decide: Any, done: Callable[[Revision], str]
) -> HttpResponse:
    if form.is_valid():
        digest, note = request.POST.get("digest", ""), form.cleaned_data["note"]
        try:
            act_once(request, lambda actor: decide(revision=row, digest=digest, actor=actor, note=note))
        except ActDoneAlready as already:
            messages.warning(request, str(already))
            return redirect(_address(row))
        except REFUSALS as error:
            for sentence in sentences_of(error):
                form.add_error(None, sentence)
        else:
            messages.success(request, done(row))
            return redirect(_address(row))
    return _page(request, revision_numbered(row.plan.host.name, row.number), form=form, status=422)


@require_POST
def revision_withdraw(request: PersonRequest, host: str, number: int) -> HttpResponse:
    """Take a proposal back."""
    require(request.user, Act.PLAN_EDIT)
    row = revision_numbered(host, number)
    done = _("Revision %(number)s was withdrawn.") % {"number": number}
    return act_and_return(
        request, lambda actor: plans.revision_withdraw(revision=row, actor=actor), _address(row), done=done
    )


def _address(row: Revision) -> str:
    return reverse("transfers:revision", args=[row.plan.host.name, row.number])
