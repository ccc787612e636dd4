"""What the acts of these pages share: done once, refused with a sentence, and back to the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme

from calculet.actors import Actor
from calculet.http import ACT_KEY_FIELD, ActDoneAlready, PersonRequest, actor_of, claim_act, safe_return_path
from calculet.lifecycle import StateConflict
from inventory.manifests.lists import ListError
from inventory.remote.base import KeyUnusable, PathRefused, RemoteError
from inventory.services.errors import InventoryError, NameTaken, ValueWrong

# Each says a sentence, and nothing was changed.
REFUSALS = (InventoryError, RemoteError, StateConflict, ListError)

T = TypeVar("T")


def act_once(request: PersonRequest, act: Callable[[Actor], T]) -> T:
    """Do a form's act once, together with the claim on its key: a refused form can be sent again.

    Raises what the act raises, and ActDoneAlready.
    """
    actor = actor_of(request)
    with transaction.atomic():
        claim_act(request.POST.get(ACT_KEY_FIELD, ""), actor)
        return act(actor)


def act_and_return(request: PersonRequest, act: Callable[[Actor], object], back: str, *, done: str) -> HttpResponse:
    """Do an act and go back to a page with its sentence, or with the sentence that says why not."""
    try:
        act_once(request, act)
    except ActDoneAlready as already:
        messages.warning(request, str(already))
    except REFUSALS as error:
        messages.error(request, str(error))
    else:
        messages.success(request, done)
    return back_to(request, back)


def back_to(request: PersonRequest, address: str) -> HttpResponse:
    """Redirect to the page that the form names in `next`, when that is on this site; else to `address`."""
    wanted = request.POST.get("next", "")
    if wanted and url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}):
        return redirect(safe_return_path(request, wanted))
    return redirect(address)


def refusal_show(form: forms.Form, error: Exception) -> None:
    """Put a refusal's sentence beside the field that it is about."""
    field = None
    if isinstance(error, ValueWrong):
        field = error.field
    elif isinstance(error, NameTaken):
        field = "name"
    elif isinstance(error, KeyUnusable):
        field = "key_name"
    elif isinstance(error, PathRefused):
        field = "staging_path"
    form.add_error(field if field in form.fields else None, str(error))
