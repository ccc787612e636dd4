"""The board of tiers: edits by buttons (and by drag, which presses them), gathered in a draft, then proposed."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from calculet.actors import Actor
from calculet.http import PersonRequest
from calculet.people.roles import Act, require
from inventory import selectors
from inventory.models import Host
from inventory.services import tier_drafts
from inventory.tier_board import board_of
from inventory.views.acts import act_and_return


@require_safe
def tier_board(request: PersonRequest, name: str) -> HttpResponse:
    """The tiers as columns, with the draft's changes shown as such."""
    require(request.user, Act.VIEW)
    host = get_object_or_404(Host, name=name)
    board = board_of(host)
    context = {
        "host": host,
        "board": board,
        "waiting": selectors.proposals_waiting(host=host).count(),
        "may_edit": request.user.may(Act.TIER_EDIT),
    }
    return render(request, "inventory/tier_board.html", context)


@require_POST
def tier_edit(request: PersonRequest, name: str) -> HttpResponse:
    """One edit: `edit` is move, add, rename or shift."""
    require(request.user, Act.TIER_EDIT)
    host = get_object_or_404(Host, name=name)
    act = _edit_of(request, host)
    return act_and_return(request, act, _board(host), done=_("The draft is changed; nothing in force is."))


@require_POST
def tier_propose(request: PersonRequest, name: str) -> HttpResponse:
    """Propose the draft as it was seen."""
    require(request.user, Act.TIER_EDIT)
    host = get_object_or_404(Host, name=name)
    given = request.POST
    return act_and_return(
        request,
        lambda actor: tier_drafts.draft_propose(
            host=host, title=given.get("title", ""), seen=given.get("seen", ""), actor=actor
        ),
        _board(host),
        done=_("The changes are proposed. Another person, who had no part in them, decides."),
    )


@require_POST
def tier_discard(request: PersonRequest, name: str) -> HttpResponse:
    """Throw the draft away."""
    require(request.user, Act.TIER_EDIT)
    host = get_object_or_404(Host, name=name)
    return act_and_return(
        request,
        lambda actor: tier_drafts.draft_discard(host=host, seen=request.POST.get("seen", ""), actor=actor),
        _board(host),
        done=_("The draft is discarded."),
    )


def _edit_of(request: PersonRequest, host: Host) -> Callable[[Actor], None]:
    given = request.POST
    seen, edit = given.get("seen", ""), given.get("edit", "")
    if edit == "move":
        to = _number(request, "to")
        return lambda actor: tier_drafts.resource_move(
            host=host, resource_name=given.get("resource", ""), to=to or None, seen=seen, actor=actor
        )
    if edit == "add":
        return lambda actor: tier_drafts.tier_add(host=host, name=given.get("name", ""), seen=seen, actor=actor)
    position = _number(request, "position")
    if edit == "rename":
        return lambda actor: tier_drafts.tier_rename(
            host=host, position=position, name=given.get("name", ""), seen=seen, actor=actor
        )
    step = -1 if given.get("step") == "left" else 1
    return lambda actor: tier_drafts.tier_shift(host=host, position=position, step=step, seen=seen, actor=actor)


def _number(request: PersonRequest, field: str) -> int:
    text = request.POST.get(field, "")
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise BadRequest(_("Nothing was done: the form came without its tier. Load the page again."))
    return int(text)


def _board(host: Host) -> str:
    return reverse("inventory:tiers", args=[host.name])
