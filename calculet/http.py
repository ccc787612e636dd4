"""What views share: the typed request, page or part, sign-in over htmx, and acts that happen once."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from calculet.actors import Actor
from calculet.people.models import ActKey, Person

ACT_KEY_FIELD = "act_key"
ACT_KEYS_KEPT = timedelta(days=7)

Result = TypeVar("Result")


class PersonRequest(HttpRequest):
    """A request of a person who signed in, as every view gets it that is not exempt from sign-in."""

    user: Person
    htmx: HtmxDetails


class ActDoneAlready(Exception):
    """The same form was sent before; the act was done then, once."""

    def __str__(self) -> str:
        return _("This was already done: the form had been sent before. Nothing was done a second time.")


def actor_of(request: PersonRequest) -> Actor:
    """The signed-in person as an actor, with the address that the request came from."""
    return Actor.of(request.user, origin=str(request.META.get("REMOTE_ADDR", "")))


def page_or_part(
    request: HttpRequest,
    template: str,
    part: str,
    context: Mapping[str, Any] | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    """Render a page, or for htmx only its partial named `part` (`{% partialdef part %}` in the same template).

    A boosted link and a history restore get the whole page. `Vary` keeps caches from mixing the two up.
    """
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    wants_part = bool(htmx) and not htmx.boosted and not htmx.history_restore_request
    name = f"{template}#{part}" if wants_part else template
    response = render(request, name, dict(context or {}), status=status)
    response["Vary"] = "HX-Request, Cookie, Accept-Language"
    return response


def safe_return_path(request: HttpRequest, address: str | None) -> str:
    """The path of an address on this site, or the first page. Keeps a crafted link from leading elsewhere."""
    if address and url_has_allowed_host_and_scheme(
        address, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    ):
        parts = urlsplit(address)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        return path if path.startswith("/") and not path.startswith("//") else "/"
    return "/"


class SignInMiddleware(LoginRequiredMiddleware):
    """Django's rule that every view needs sign-in, spoken in htmx's language where htmx asks.

    A sign-in page must never be swapped into a fragment, and an act that was refused must not be done after sign-in:
    the person comes back to the page, not to the act.
    """

    # htmx is told where to go by a header in an ordinary answer, which is no redirect to Django's types.
    def handle_no_permission(  # type: ignore[override]
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
        if htmx:
            back = safe_return_path(request, htmx.current_url)
            return HttpResponseClientRedirect(
                f"{resolve_url(self.get_login_url(view_func))}?{urlencode({'next': back})}"
            )
        if request.method not in {"GET", "HEAD"}:
            back = safe_return_path(request, request.META.get("HTTP_REFERER"))
            return redirect_to_login(back, resolve_url(self.get_login_url(view_func)))
        return super().handle_no_permission(request, view_func)


@never_cache
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form whose token is stale: nothing was done, and the page is loaded afresh."""
    sentence = _(
        "Nothing was done: the page had been open too long or cookies are off. Look at it again, then repeat the act."
    )
    htmx: HtmxDetails | None = getattr(request, "htmx", None)
    if htmx:
        messages.warning(request, sentence)
        return HttpResponseClientRedirect(safe_return_path(request, htmx.current_url))
    return render(request, "error.html", {"title": _("Nothing was done"), "sentence": sentence}, status=403)


def new_act_key() -> str:
    """A fresh key for a form; see `claim_act`."""
    return secrets.token_urlsafe(24)


def claim_act(key: str, actor: Actor) -> None:
    """Claim a form's key for this one act, in the transaction of the act. Raises ActDoneAlready.

    A form without a key could be sent twice, so a missing one is refused. Raises BadRequest.
    """
    if not key or len(key) > 64:
        raise BadRequest(_("Nothing was done: the form came without its key. Load the page again and repeat the act."))
    try:
        with transaction.atomic():
            ActKey.objects.create(
                key=key, person_id=actor.user.pk if actor.user is not None else None, claimed_at=timezone.now()
            )
    except IntegrityError as error:
        raise ActDoneAlready from error


def act_once(request: PersonRequest, act: Callable[[Actor], Result]) -> Result:
    """Do a form's act once, together with the claim on its key: a refused form can be sent again.

    Raises what the act raises, and ActDoneAlready.
    """
    actor = actor_of(request)
    with transaction.atomic():
        claim_act(request.POST.get(ACT_KEY_FIELD, ""), actor)
        return act(actor)


def back_to(request: PersonRequest, address: str) -> HttpResponse:
    """Redirect to the page that the form names in `next`, when that is on this site; else to `address`."""
    wanted = request.POST.get("next", "")
    if wanted and url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}):
        return redirect(safe_return_path(request, wanted))
    return redirect(address)


def forget_old_act_keys() -> int:
    """Remove keys that no open page can still carry; returns how many."""
    removed, _by_model = ActKey.objects.filter(claimed_at__lt=timezone.now() - ACT_KEYS_KEPT).delete()
    return removed
