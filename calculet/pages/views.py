"""Pages that belong to no area: the health answer and the error pages."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseServerError
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from calculet.people.roles import roles_of


@login_not_required
@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Say “ok” when the database answers; tells nothing else to strangers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return HttpResponse("ok\n", content_type="text/plain")


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400: the sentence of the exception, where there is one."""
    return _sorry(request, 400, _("This request cannot be understood"), _sentence(exception))


def refused(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403: who may do it, and that nothing was changed. Somebody without any role is told that."""
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated and not roles_of(user):
        sentence = _("There is nothing to see or to do here without a role. Nothing was changed. Ask an admin for one.")
        return _sorry(request, 403, _("You have no role yet"), sentence)
    return _sorry(request, 403, _("Not allowed"), _sentence(exception))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404: no such page, or no such row."""
    return _sorry(
        request,
        404,
        _("There is no such page"),
        _("Nothing was changed. The address may be wrong, or what it named may be gone."),
    )


def broken(request: HttpRequest) -> HttpResponse:
    """500: rendered without context processors, since one of those may be what broke."""
    return HttpResponseServerError(render_to_string("500.html"))


def _sentence(exception: Exception | None) -> str:
    text = str(exception) if exception is not None else ""
    return text or _("Nothing was changed. Go back, look at the page again, and repeat the act.")


def _sorry(request: HttpRequest, status: int, title: str, sentence: str) -> HttpResponse:
    return render(request, "error.html", {"title": title, "sentence": sentence}, status=status)
