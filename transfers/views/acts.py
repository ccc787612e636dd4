"""What the acts of these pages share: done once, refused with a sentence, and back to the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse

from calculet.actors import Actor
from calculet.http import ACT_KEY_FIELD, ActDoneAlready, PersonRequest, act_once, actor_of, back_to, claim_act
from calculet.lifecycle import StateConflict
from calculet.people.roles import Act, NotAllowed
from transfers.services.orders import OrderStale

__all__ = ["REFUSALS", "act_and_return", "act_first", "act_once", "back_to", "rights", "sentences_of"]

# Each says a sentence, and nothing was changed.
REFUSALS = (StateConflict, OrderStale, NotAllowed, ValidationError, ActDoneAlready)

T = TypeVar("T")


def rights(request: PersonRequest) -> dict[str, dict[str, bool]]:
    """For templates: `{% if may.plan_edit %}`. What the person may not do is not offered; services decide again."""
    return {"may": {act.name.lower(): request.user.may(act) for act in Act}}


def sentences_of(error: Exception) -> list[str]:
    """The sentences of a refusal."""
    return list(error.messages) if isinstance(error, ValidationError) else [str(error)]


def act_first(request: PersonRequest, act: Callable[[Actor], T]) -> T:
    """Like `act_once` for long acts that keep their own transactions: the key is spent even when the act is refused.

    Raises what the act raises, and ActDoneAlready.
    """
    actor = actor_of(request)
    claim_act(request.POST.get(ACT_KEY_FIELD, ""), actor)
    return act(actor)


def act_and_return(
    request: PersonRequest, act: Callable[[Actor], object], back: str, *, done: str, kept: str = ""
) -> HttpResponse:
    """Do an act and go back to a page with its sentence, or with the sentence that says why not.

    `kept` is what the person typed, repeated in the message so that a refusal does not lose it.
    """
    try:
        act_once(request, act)
    except ActDoneAlready as already:
        messages.warning(request, str(already))
    except REFUSALS as error:
        for sentence in sentences_of(error):
            messages.error(request, f"{sentence} “{kept}”" if kept else sentence)
    else:
        messages.success(request, done)
    return back_to(request, back)
