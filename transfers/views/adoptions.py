"""Bytes that are on this machine already, taken over into a pack's build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from calculet.actors import Actor
from calculet.http import PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory.tasks import send_soon
from transfers import tasks
from transfers.adoption_forms import AdoptForm
from transfers.models import Adoption, AdoptionState, AdoptionWay, Build
from transfers.selectors.adoptions import adoptions_of
from transfers.services import adoptions
from transfers.services.builds import current_build
from transfers.views.acts import act_and_return, rights
from transfers.views.find import pack_named

_MOVING = (AdoptionState.QUEUED, AdoptionState.COMPARING, AdoptionState.COPYING)
_OFFERED_AT_MOST = 200


@require_http_methods(["GET", "HEAD", "POST"])
def adopt(request: PersonRequest, host: str, pack: str) -> HttpResponse:
    """What was taken over into the pack's newest build, and the form that offers more."""
    require(request.user, Act.VIEW if request.method != "POST" else Act.FETCH)
    row = pack_named(host, pack)
    build = current_build(row)
    if build is None:
        raise Http404
    if request.method != "POST":
        return _page(request, build, AdoptForm(initial={"path": _only(settings.ADOPT_DIRS)}))
    form = AdoptForm(request.POST)
    if not form.is_valid():
        return _page(request, build, form, status=422)

    def ask(actor: Actor) -> None:
        made = adoptions.adoption_request(build=build, actor=actor, **form.asked())
        send_soon(tasks.adopt_bytes, made.pk)

    done = _("What is there is compared with the source. Until then the pack is not fetched.")
    kept = form.cleaned_data["path"]
    return act_and_return(request, ask, _address(build), done=done, kept=kept)


def _page(request: PersonRequest, build: Build, form: AdoptForm, *, status: int = 200) -> HttpResponse:
    rows = adoptions_of(build)
    context = {
        "pack": build.pack,
        "host": build.pack.plan.host,
        "build": build,
        "rows": rows,
        "form": form,
        "folders": settings.ADOPT_DIRS,
        "offered": list(_offered(settings.ADOPT_DIRS)),
        "can_ask": build.state in adoptions.ADOPTABLE and not any(one.finished_at is None for one in rows),
        "is_moving": any(one.state in _MOVING for one in rows),
        **rights(request),
    }
    return page_or_part(request, "transfers/adopt.html", "live", context, status=status)


def _only(folders: Iterable[Path]) -> str:
    found = list(folders)
    return f"{found[0]}/" if len(found) == 1 else ""


def _offered(folders: Iterable[Path]) -> Iterator[str]:
    """Names in the folders that may be read, as suggestions; one that is no text is left to its folder."""
    count = 0
    for folder in folders:
        try:
            paths = [str(path) for path in sorted(folder.iterdir())]
        except OSError:
            continue
        for path in paths:
            if count < _OFFERED_AT_MOST and path.isprintable():
                count += 1
                yield path


@require_POST
def adoption_accept(request: PersonRequest, host: str, pack: str, pk: int, way: str) -> HttpResponse:
    """Agree to what was compared: copy it, or take the file itself."""
    require(request.user, Act.FETCH)
    adoption = _find(host, pack, pk)
    if way not in (AdoptionWay.COPY, AdoptionWay.TAKE):
        raise Http404

    def accept(actor: Actor) -> None:
        adoptions.adoption_accept(adoption=adoption, way=AdoptionWay(way), actor=actor)
        send_soon(tasks.adopt_bytes, adoption.pk)

    return act_and_return(request, accept, _address(adoption.build), done=_("What matched is put into the pack."))


@require_POST
def adoption_leave(request: PersonRequest, host: str, pack: str, pk: int) -> HttpResponse:
    """Want none of it: the pack is fetched as if nothing were there."""
    require(request.user, Act.FETCH)
    adoption = _find(host, pack, pk)
    leave = partial(adoptions.adoption_leave, adoption=adoption)
    done = _("It is left alone; the pack is fetched.")
    return act_and_return(request, lambda actor: leave(actor=actor), _address(adoption.build), done=done)


def _find(host: str, pack: str, pk: int) -> Adoption:
    rows = Adoption.objects.select_related("build__pack__plan__host")
    return get_object_or_404(rows, pk=pk, build__pack__name=pack, build__pack__plan__host__name=host)


def _address(build: Build) -> str:
    return reverse("transfers:adopt", args=[build.pack.plan.host.name, build.pack.name])
