"""Signing in and out, one's own page, one-time links, and the people page for admins."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.core.exceptions import BadRequest
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from calculet.http import ACT_KEY_FIELD, ActDoneAlready, PersonRequest, actor_of, claim_act, safe_return_path
from calculet.people import services
from calculet.people.forms import ROLE_WORDS, PersonForm, SetupForm, SignInForm
from calculet.people.models import OneTimeLink, Person
from calculet.people.roles import Act, Role, require

BACKEND = "django.contrib.auth.backends.ModelBackend"


@login_not_required
@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Name and password, then back to where the person came from."""
    back = safe_return_path(request, request.POST.get("next") or request.GET.get("next"))
    if request.user.is_authenticated:
        return redirect(back)
    form = SignInForm(request, data=request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        person: Any = form.get_user()
        login(request, person)
        services.session_note(actor=actor_of(request), began=True)  # type: ignore[arg-type]
        return redirect(back)
    return render(request, "registration/sign_in.html", {"form": form, "next": back})


def sign_in_paused(request: HttpRequest, response: object = None, credentials: object = None) -> HttpResponse:
    """Too many wrong passwords for this name from this address."""
    return render(
        request,
        "error.html",
        {
            "title": _("Sign-in is paused"),
            "sentence": _(
                "There were too many wrong passwords for this name from this address. Nothing was changed. Wait 15 "
                "minutes, or ask an admin for a one-time link."
            ),
        },
        status=429,
    )


@require_POST
def sign_out(request: PersonRequest) -> HttpResponse:
    """End this session."""
    services.session_note(actor=actor_of(request), began=False)
    logout(request)
    return redirect("people:sign-in")


@login_not_required
@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def one_time_link(request: HttpRequest, token: str) -> HttpResponse:
    """Set a password by a one-time link; the set-up link makes the first admin besides."""
    try:
        link = services.link_find(token=token)
    except services.LinkSpent as spent:
        return render(request, "error.html", {"title": _("This link has ended"), "sentence": str(spent)}, status=410)
    is_setup = link.purpose == OneTimeLink.Purpose.SETUP
    data = request.POST if request.method == "POST" else None
    form: Any = SetupForm(Person(), data) if is_setup else SetPasswordForm(link.person or Person(), data)
    if request.method == "POST" and form.is_valid():
        origin = str(request.META.get("REMOTE_ADDR", ""))
        password = form.cleaned_data["new_password1"]
        try:
            if is_setup:
                name = form.cleaned_data["username"]
                person = services.setup_finish(token=token, username=name, password=password, origin=origin)
            else:
                person = services.password_set_by_link(token=token, password=password, origin=origin)
        except services.PeopleError as error:
            form.add_error(None, str(error))
        else:
            login(request, person, backend=BACKEND)
            messages.success(request, _("Your password is set, and you are signed in."))
            return redirect("people:list" if is_setup else "people:self")
    return render(request, "registration/one_time_link.html", {"form": form, "link": link, "is_setup": is_setup})


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def self_page(request: PersonRequest) -> HttpResponse:
    """One's own roles, and a new password."""
    form = PasswordChangeForm(request.user, request.POST if request.method == "POST" else None)
    form.fields["old_password"].widget.attrs.pop("autofocus", None)  # the page is about more than the password
    if request.method == "POST" and form.is_valid():
        services.password_change(
            person=request.user,
            password=form.cleaned_data["new_password1"],
            origin=str(request.META.get("REMOTE_ADDR", "")),
        )
        update_session_auth_hash(request, request.user)
        messages.success(request, _("Your password was changed. Other sessions of yours have ended."))
        return redirect("people:self")
    return render(request, "registration/self.html", {"form": form, "roles": _role_rows(request.user)})


@require_http_methods(["GET", "HEAD", "POST"])
def people_list(request: PersonRequest) -> HttpResponse:
    """Everybody who can sign in, and a form for one more."""
    require(request.user, Act.PEOPLE_MANAGE)
    form = PersonForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        actor = actor_of(request)
        try:
            with transaction.atomic():
                claim_act(request.POST.get(ACT_KEY_FIELD, ""), actor)
                person = services.person_create(actor=actor, **form.cleaned_data)
        except (services.NameTaken, services.NameWrong) as error:
            form.add_error("username", str(error))
        except ActDoneAlready as done:
            messages.warning(request, str(done))
            return redirect("people:list")
        else:
            return _link_page(request, person)
    people = Person.objects.prefetch_related("groups").order_by("username")
    return render(request, "calculet/people.html", {"form": form, "people": people})


@require_http_methods(["GET", "HEAD"])
def person_page(request: PersonRequest, pk: int) -> HttpResponse:
    """One person: roles, one-time link, whether they may sign in."""
    require(request.user, Act.PEOPLE_MANAGE)
    person = get_object_or_404(Person, pk=pk)
    return render(request, "calculet/person.html", {"person": person, "roles": _role_rows(person)})


@require_POST
def person_roles(request: PersonRequest, pk: int) -> HttpResponse:
    """Make the person's roles those that are ticked; each change is an event."""
    require(request.user, Act.PEOPLE_MANAGE)
    person = get_object_or_404(Person, pk=pk)
    try:
        wanted = [Role(name) for name in request.POST.getlist("roles")]
    except ValueError as error:
        raise BadRequest(_("There is no such role. Nothing was changed. Load the page again.")) from error
    try:
        services.roles_set(actor=actor_of(request), person=person, roles=wanted)
    except services.LastAdmin as error:
        messages.error(request, str(error))
    else:
        messages.success(request, _("The roles are as you set them."))
    return redirect("people:person", pk=pk)


@require_POST
@never_cache
def person_link(request: PersonRequest, pk: int) -> HttpResponse:
    """Make a one-time link and show it, this once."""
    require(request.user, Act.PEOPLE_MANAGE)
    return _link_page(request, get_object_or_404(Person, pk=pk))


@require_POST
def person_active(request: PersonRequest, pk: int) -> HttpResponse:
    """Shut a person out, or let them in again."""
    require(request.user, Act.PEOPLE_MANAGE)
    person, actor = get_object_or_404(Person, pk=pk), actor_of(request)
    try:
        if request.POST.get("active") == "yes":
            services.person_let_in(actor=actor, person=person)
        else:
            services.person_shut_out(actor=actor, person=person)
    except services.LastAdmin as error:
        messages.error(request, str(error))
    return redirect("people:person", pk=pk)


def _link_page(request: PersonRequest, person: Person) -> HttpResponse:
    token = services.password_link_make(actor=actor_of(request), person=person)
    address = request.build_absolute_uri(reverse("people:link", args=[token]))
    response = render(request, "calculet/person_link.html", {"person": person, "address": address})
    response["Cache-Control"] = "no-store"
    return response


def _role_rows(person: Person) -> list[dict[str, Any]]:
    return [{"role": role, "words": words, "has": role in person.roles} for role, words in ROLE_WORDS.items()]
