"""Lists: take one in with a look before anything is made, and take a listing out in any format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from calculet.http import ActDoneAlready, PersonRequest
from calculet.people.roles import Act, require
from inventory import selectors
from inventory.forms import ListForm
from inventory.manifests.formats import FORMATS, WRITABLE
from inventory.manifests.lists import ListError, ListUnwritable
from inventory.models import Host, ImportedList, Scan, ScanState
from inventory.saying import said_here
from inventory.services import list_imports
from inventory.views.acts import REFUSALS, act_and_return, act_once, refusal_show, sentences_of


@require_http_methods(["GET", "HEAD", "POST"])
def list_add(request: PersonRequest, name: str) -> HttpResponse:
    """Upload a list; what it would make is shown next. A doubtful line stops it, with its number."""
    require(request.user, Act.RESOURCE_EDIT)
    host = get_object_or_404(Host, name=name)
    is_sent = request.method == "POST"
    initial = {"resource_name": request.GET.get("resource", "")[:120]}
    form = ListForm(request.POST if is_sent else None, request.FILES if is_sent else None, initial=initial)
    context: dict[str, Any] = {"host": host, "form": form, "problems": []}
    if is_sent and form.is_valid():
        given = form.cleaned_data
        upload = given.pop("file")
        try:
            row = act_once(
                request,
                lambda actor: list_imports.list_preview(
                    host=host, content=upload.read(), file_name=upload.name, actor=actor, **given
                ),
            )
        except ActDoneAlready as already:
            messages.warning(request, str(already))
            return redirect("inventory:host", host.name)
        except ListError as error:
            context["problems"] = sentences_of(error)
        except REFUSALS as error:
            refusal_show(form, error)
        else:
            return redirect("inventory:list", row.pk)
    context["waiting"] = selectors.lists_waiting(host=host)
    return render(request, "inventory/list_form.html", context, status=422 if is_sent else 200)


@require_safe
def list_shown(request: PersonRequest, pk: int) -> HttpResponse:
    """What importing a list would make, or what it made."""
    require(request.user, Act.VIEW)
    row = get_object_or_404(ImportedList.objects.select_related("host", "resource", "created_by"), pk=pk)
    context: dict[str, Any] = {"list": row, "may_edit": request.user.may(Act.RESOURCE_EDIT), "problems": []}
    context["format"] = FORMATS[row.format_name].words if row.format_name in FORMATS else row.format_name
    try:
        context["preview"] = list_imports.preview_of(row)
    except ListError as error:
        context["problems"] = sentences_of(error)
    return render(request, "inventory/list.html", context)


@require_POST
def list_import(request: PersonRequest, pk: int) -> HttpResponse:
    """Import exactly what was shown."""
    require(request.user, Act.RESOURCE_EDIT)
    row = get_object_or_404(ImportedList.objects.select_related("host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: list_imports.list_import(imported=row, digest=request.POST.get("digest", ""), actor=actor),
        reverse("inventory:list", args=[row.pk]),
        done=_("The list is imported. What it says is shown as declared; a scan measures."),
    )


@require_POST
def list_discard(request: PersonRequest, pk: int) -> HttpResponse:
    """Not import it after all."""
    require(request.user, Act.RESOURCE_EDIT)
    row = get_object_or_404(ImportedList.objects.select_related("host"), pk=pk)
    return act_and_return(
        request,
        lambda actor: list_imports.list_discard(imported=row, actor=actor),
        reverse("inventory:list-add", args=[row.host.name]),
        done=_("The list is discarded; nothing was made of it."),
    )


@require_safe
def scan_export(request: PersonRequest, pk: int) -> HttpResponseBase:
    """A listing as a file: `?format=` is one of the formats that can be written."""
    require(request.user, Act.VIEW)
    scan = get_object_or_404(Scan.objects.select_related("resource"), pk=pk, state__in=_WHOLE)
    chosen = FORMATS.get(request.GET.get("format", ""))
    if chosen is None or chosen.write is None:
        raise Http404(_("There is no such format. Choose one of: %(all)s.") % {"all": ", ".join(_names())})
    pieces: Iterator[bytes] = chosen.write(selectors.entries_listed(scan))
    try:
        first = next(pieces, b"")
    except ListUnwritable as error:
        messages.error(request, said_here(error.said()))
        return redirect("inventory:entries", scan.pk)
    if chosen.needs_digests and not first:
        messages.error(request, _("This format holds digests, and no file here has one yet. Take digests first."))
        return redirect("inventory:entries", scan.pk)
    response = StreamingHttpResponse(_after(first, pieces), content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="{_file_name(scan, chosen.file_name)}"'
    return response


_WHOLE = (ScanState.FINISHED, ScanState.IMPORTED)


def _names() -> list[str]:
    return [one.name for one in WRITABLE]


def _after(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    held: list[bytes] = []
    for piece in pieces:
        held.append(piece)
        if len(held) >= 1000:
            yield b"".join(held)
            held = []
    yield b"".join(held)


def _file_name(scan: Scan, ending: str) -> str:
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in scan.resource.name)
    return f"{plain.strip('-') or 'resource'}-{ending}"
