"""Digest policies of hosts and of resources."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from calculet.actors import Actor
from calculet.http import PersonRequest
from calculet.pages.templatetags.shown import bytes_short
from calculet.people.roles import Act, require
from inventory.models import DigestPolicy, Host, Resource
from inventory.policy_forms import DigestPolicyForm
from inventory.selectors import policy_of
from inventory.services import digest_policy
from inventory.views.acts import act_and_return, back_to


@require_POST
def host_policy(request: PersonRequest, name: str) -> HttpResponse:
    """Set what holds for a host's resources that have no policy of their own."""
    require(request.user, Act.SCAN)
    host = get_object_or_404(Host, name=name)
    form = DigestPolicyForm(host, request.POST)

    def act(actor: Actor) -> object:
        return digest_policy.host_policy_set(host=host, actor=actor, **form.cleaned_data)

    return _answer(request, form, act, reverse("inventory:host", args=[host.name]))


@require_POST
def resource_policy(request: PersonRequest, pk: int) -> HttpResponse:
    """Set a resource's own policy."""
    require(request.user, Act.SCAN)
    row = get_object_or_404(Resource.objects.select_related("host"), pk=pk)
    form = DigestPolicyForm(row, request.POST)

    def act(actor: Actor) -> object:
        return digest_policy.resource_policy_set(resource=row, actor=actor, **form.cleaned_data)

    return _answer(request, form, act, reverse("inventory:resource", args=[row.pk]))


def policy_context(row: Host | Resource) -> dict[str, object]:
    """What a page needs to show a policy and its form."""
    policy, over_bytes = policy_of(row) if isinstance(row, Resource) else (row.digest_policy, row.digest_over_bytes)
    words = {
        DigestPolicy.NEVER: _("only when somebody asks"),
        DigestPolicy.OVER: _("of files of %(size)s and more") % {"size": bytes_short(over_bytes)},
        DigestPolicy.ALL: _("of all files"),
    }[DigestPolicy(policy)]
    if not row.digest_policy:
        words = _("%(policy)s, as the host's policy says") % {"policy": words}
    return {"policy_form": DigestPolicyForm(row), "policy_words": words}


def _answer(request: PersonRequest, form: DigestPolicyForm, act: Callable[[Actor], object], back: str) -> HttpResponse:
    if not form.is_valid():
        for errors in form.errors.values():
            for error in errors:
                messages.error(request, str(error))
        return back_to(request, back)
    return act_and_return(request, act, back, done=_("The policy holds from now on; a scan that is there counts."))
