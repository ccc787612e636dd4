"""What the acts of these pages share: done once, refused with a sentence, and back to the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django import forms
from django.contrib import messages
from django.http import HttpResponse

from calculet.actors import Actor
from calculet.http import ActDoneAlready, PersonRequest, act_once, back_to
from calculet.lifecycle import StateConflict
from inventory.manifests.lists import ListError
from inventory.remote.base import KeyUnusable, PathRefused, RemoteError
from inventory.saying import said_here
from inventory.services.errors import InventoryError, NameTaken, ValueWrong

__all__ = ["REFUSALS", "act_and_return", "act_once", "back_to", "refusal_show", "sentences_of"]

# Each says a sentence, and nothing was changed.
REFUSALS = (InventoryError, RemoteError, StateConflict, ListError)

T = TypeVar("T")


def act_and_return(request: PersonRequest, act: Callable[[Actor], object], back: str, *, done: str) -> HttpResponse:
    """Do an act and go back to a page with its sentence, or with the sentence that says why not."""
    try:
        act_once(request, act)
    except ActDoneAlready as already:
        messages.warning(request, str(already))
    except REFUSALS as error:
        for sentence in sentences_of(error):
            messages.error(request, sentence)
    else:
        messages.success(request, done)
    return back_to(request, back)


def sentences_of(error: Exception) -> list[str]:
    """A refusal's sentences in the reader's language."""
    return [said_here(one) for one in error.sentences()] if isinstance(error, ListError) else [str(error)]


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
