"""Acts on one build: try again, make anew, accept deviations, unpack, report."""

from __future__ import annotations

from functools import partial

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from calculet.actors import Actor
from calculet.http import ActDoneAlready, PersonRequest
from calculet.people.roles import Act, require
from inventory.tasks import send_soon
from transfers import tasks
from transfers.forms import ReasonForm
from transfers.models import Build, BuildState
from transfers.services import builds, rechecks, unpacks
from transfers.views.acts import REFUSALS, act_and_return, act_once, sentences_of
from transfers.views.find import build_numbered
from transfers.views.packs import pack_page
from transfers.views.waiting import pack_address


@require_POST
def build_retry(request: PersonRequest, host: str, pack: str, number: int) -> HttpResponse:
    """Let a failed build go on from what it has."""
    require(request.user, Act.PACK)
    build = build_numbered(host, pack, number)

    def retry(actor: Actor) -> None:
        _start(builds.build_retry(build=build, actor=actor))

    done = _("It is tried again, from what is here already.")
    return act_and_return(request, retry, pack_address(build), done=done)


@require_POST
def build_replace(request: PersonRequest, host: str, pack: str, number: int) -> HttpResponse:
    """Make the pack anew from the same approved list."""
    require(request.user, Act.PACK)
    build = build_numbered(host, pack, number)

    def replace(actor: Actor) -> None:
        _start(builds.build_replace(build=build, actor=actor))

    done = _("A new build was begun. What the former one brought stays on the disk.")
    return act_and_return(request, replace, pack_address(build), done=done)


@require_POST
def deviations_accept(request: PersonRequest, host: str, pack: str, number: int) -> HttpResponse:
    """Accept what deviates from the list, with a note that the report will carry."""
    require(request.user, Act.DEVIATION_ACCEPT)
    build, form = build_numbered(host, pack, number), ReasonForm(request.POST)
    if form.is_valid():
        accept = partial(builds.deviations_accept, build=build, note=form.cleaned_data["note"])
        try:
            act_once(request, lambda actor: _start(accept(actor=actor)))
        except ActDoneAlready as already:
            messages.warning(request, str(already))
            return redirect(pack_address(build))
        except REFUSALS as error:
            for sentence in sentences_of(error):
                form.add_error(None, sentence)
        else:
            messages.success(request, _("The deviations are accepted; the pack goes on."))
            return redirect(pack_address(build))
    fresh = build_numbered(host, pack, number)
    return pack_page(request, fresh.pack, fresh, accept_form=form, status=422)


@require_POST
def unpack(request: PersonRequest, host: str, pack: str, number: int) -> HttpResponse:
    """Ask for usable files from an opened build, in a fresh folder."""
    require(request.user, Act.UNPACK)
    build = build_numbered(host, pack, number)

    def ask(actor: Actor) -> None:
        send_soon(tasks.run_unpack, unpacks.unpack_request(build=build, actor=actor).pk)

    done = _("It will be unpacked into a fresh folder; this page shows how far it is.")
    return act_and_return(request, ask, pack_address(build), done=done)


@require_POST
def recheck(request: PersonRequest, host: str, pack: str, number: int) -> HttpResponse:
    """Have a landed build read back from the disk once more; what is damaged is fetched again."""
    require(request.user, Act.FETCH)
    build = build_numbered(host, pack, number)

    def ask(actor: Actor) -> None:
        rechecks.recheck_request(build=build, actor=actor)
        send_soon(tasks.recheck_build, build.pk)

    done = _("It is read back from the disk once more; damaged blocks are fetched again while the source stands.")
    return act_and_return(request, ask, pack_address(build), done=done)


def _start(build: Build) -> None:
    """Say that there is work; the tick would find it as well."""
    if build.state == BuildState.PLANNED:
        send_soon(tasks.pack_build, build.pk)
    else:
        send_soon(tasks.run_link, build.pack.plan.host_id)
