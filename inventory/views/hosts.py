"""Hosts: the list, one host, adding and changing it, its key and what it has."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from calculet.http import ActDoneAlready, PersonRequest, actor_of, page_or_part
from calculet.people.roles import Act, require
from inventory import selectors
from inventory.forms import HostChangeForm, HostForm, PinForm
from inventory.models import Host
from inventory.remote.probe import ProbeReport
from inventory.services import hosts
from inventory.tasks import probe_host, send_soon
from inventory.views.acts import REFUSALS, act_and_return, act_once, refusal_show
from inventory.views.policies import policy_context

_KEY_FILES = {
    "ssh-ed25519": "ssh_host_ed25519_key",
    "ssh-rsa": "ssh_host_rsa_key",
}


@dataclass(frozen=True, slots=True)
class Means:
    """What a host has for one step, in words; `is_there` False where the step can't be done so."""

    step: str
    words: str
    is_there: bool


@require_safe
def host_list(request: PersonRequest) -> HttpResponse:
    """Every host."""
    require(request.user, Act.VIEW)
    context = {"hosts": selectors.hosts_shown(), "may_manage": request.user.may(Act.HOST_MANAGE)}
    return render(request, "inventory/hosts.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def host_add(request: PersonRequest) -> HttpResponse:
    """Add a host; its key is pinned next, on its page."""
    require(request.user, Act.HOST_MANAGE)
    form = HostForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            host = act_once(request, lambda actor: hosts.host_add(actor=actor, **form.cleaned_data))
        except ActDoneAlready as already:
            messages.warning(request, str(already))
            return redirect("inventory:hosts")
        except REFUSALS as error:
            refusal_show(form, error)
        else:
            messages.success(request, _("The host is added. Look at its key next, compare it, and pin it."))
            return redirect("inventory:host", host.name)
    return _form_page(request, form, None)


@require_http_methods(["GET", "HEAD", "POST"])
def host_change(request: PersonRequest, name: str) -> HttpResponse:
    """Change how a host is reached."""
    require(request.user, Act.HOST_MANAGE)
    host = get_object_or_404(Host, name=name)
    form = HostChangeForm.of(host, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            act_once(request, lambda actor: hosts.host_change(host=host, actor=actor, **form.cleaned_data))
        except ActDoneAlready as already:
            messages.warning(request, str(already))
            return redirect("inventory:host", host.name)
        except REFUSALS as error:
            refusal_show(form, error)
        else:
            messages.success(request, _("The host is as you wrote it."))
            return redirect("inventory:host", host.name)
    return _form_page(request, form, host)


@require_safe
def host(request: PersonRequest, name: str) -> HttpResponse:
    """One host: key, means, channels, resources, and what stopped work on it last."""
    require(request.user, Act.VIEW)
    row = get_object_or_404(selectors.hosts_shown(), name=name)
    asked_at = _moment(request.GET.get("asked", ""))
    report = selectors.known_report(row)
    keys = selectors.keys_of(row)
    context = {
        "host": row,
        "keys": keys,
        "pinned": next((key for key in keys if key.retired_at is None), None),
        "report": report,
        "means": _means(report) if report is not None else [],
        "is_awaited": selectors.probe_is_awaited(row, asked_at=asked_at),
        "sums": selectors.host_sums(row),
        "plan_address": _address("transfers:plan", row.name),
        "load_address": _address("transfers:plan-load", row.name),
        "may_manage": request.user.may(Act.HOST_MANAGE),
        "may_pin": request.user.may(Act.HOST_PIN),
        "may_edit": request.user.may(Act.RESOURCE_EDIT),
        "may_plan": request.user.may(Act.PLAN_EDIT),
        "may_scan": request.user.may(Act.SCAN),
        **policy_context(row),
    }
    return page_or_part(request, "inventory/host.html", "probe", context)


@require_POST
def host_look(request: PersonRequest, name: str) -> HttpResponse:
    """Ask the server for its key and show the fingerprint; nothing is pinned by looking."""
    require(request.user, Act.HOST_PIN)
    row = get_object_or_404(Host, name=name)
    try:
        found = hosts.host_key_look(host=row, actor=actor_of(request))
    except REFUSALS as error:
        messages.error(request, str(error))
        return redirect("inventory:host", row.name)
    keys = selectors.keys_of(row)
    context = {
        "host": row,
        "found": found,
        "blob": base64.b64encode(found.blob).decode(),
        "pinned": next((key for key in keys if key.retired_at is None), None),
        "key_file": _KEY_FILES.get(found.key_type, "ssh_host_ecdsa_key"),
    }
    return render(request, "inventory/host_key.html", context)


@require_POST
def host_pin(request: PersonRequest, name: str) -> HttpResponse:
    """Pin the key that was shown, and see what the host has."""
    require(request.user, Act.HOST_PIN)
    row = get_object_or_404(Host, name=name)
    form = PinForm(request.POST)
    try:
        if not form.is_valid():
            raise ValueError
        blob = base64.b64decode(form.cleaned_data["blob"], validate=True)
    except (ValueError, binascii.Error):
        messages.error(request, _("The form came without a key. Nothing was pinned. Look at the key again."))
        return redirect("inventory:host", row.name)
    given = {"key_type": form.cleaned_data["key_type"], "fingerprint": form.cleaned_data["fingerprint"]}
    back = act_and_return(
        request,
        lambda actor: hosts.host_pin_key(host=row, blob=blob, actor=actor, **given),
        _awaiting(row),
        done=_("The key is pinned: from now on no other one is accepted."),
    )
    send_soon(probe_host, row.pk)
    return back


@require_POST
def host_probe(request: PersonRequest, name: str) -> HttpResponse:
    """Ask for a probe."""
    require(request.user, Act.HOST_MANAGE)
    row = get_object_or_404(Host, name=name)

    def ask(actor: Any) -> None:
        hosts.host_probe_request(host=row, actor=actor)
        send_soon(probe_host, row.pk)

    return act_and_return(request, ask, _awaiting(row), done=_("A probe is asked for; its report comes to this page."))


def _awaiting(row: Host) -> str:
    """The host's page, which looks for a probe's result for a while."""
    return f"{reverse('inventory:host', args=[row.name])}?asked={int(timezone.now().timestamp())}"


def _moment(text: str) -> datetime | None:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        return None
    return datetime.fromtimestamp(int(text), tz=UTC)


def _address(name: str, *words: str) -> str:
    """The address of a page of another area; empty when that area is not there."""
    try:
        return reverse(name, args=words)
    except NoReverseMatch:
        return ""


def _means(report: ProbeReport) -> list[Means]:
    """What the host has for each step."""
    if not report.has_shell:
        over_sftp, shell = _("over SFTP"), _("takes a shell")
        steps = (_("make archives"), _("take digests"), _("fetch and prove packs"), _("work detached"))
        return [Means(_("list"), over_sftp, is_there=True), *(Means(step, shell, is_there=False) for step in steps)]
    absent = _("not there")
    zip_words = report.zstd if report.has_zstd else _("no zstd: archives stay plain .tar")
    return [
        Means(_("list"), report.find or absent, bool(report.find) and report.has_stat_format),
        Means(_("make archives"), report.tar or absent, report.has_tar_list),
        Means(_("compress"), zip_words, report.has_zstd),
        Means(_("take digests"), report.sha256sum or absent, report.has_sha256),
        Means(_("read ranges"), report.dd or absent, bool(report.dd)),
        Means(_("work detached"), "setsid" if report.has_setsid else "nohup", report.has_setsid or report.has_nohup),
    ]


def _form_page(request: PersonRequest, form: HostChangeForm, row: Host | None) -> HttpResponse:
    status = 422 if request.method == "POST" else 200
    return render(request, "inventory/host_form.html", {"form": form, "host": row}, status=status)
