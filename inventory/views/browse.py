"""Listings folder by folder, with a picture, filters and sorting, and the search through all of them."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from calculet.http import PersonRequest
from calculet.people.roles import Act, require
from inventory import browsing, pictures, searching
from inventory.forms import SearchForm
from inventory.manifests.formats import WRITABLE
from inventory.matching import Search
from inventory.models import Scan


@require_safe
def entries(request: PersonRequest, pk: int) -> HttpResponse:
    """A scan's entries, folder by folder: `?in=` is the folder's escaped name, `?from=` where the page begins.

    With `name`, `kind`, `least`, `most`, `sort` or `bare` it shows what is found below the folder instead.
    """
    require(request.user, Act.VIEW)
    scan = get_object_or_404(Scan.objects.select_related("resource__host", "host"), pk=pk)
    key, start = request.GET.get("in", ""), _number(request.GET.get("from", ""))
    entry = browsing.entry_at_key(scan, key)
    form = SearchForm(request.GET)
    wanted = form.wanted() if form.is_valid() else Search()
    context: dict[str, Any] = {"scan": scan, "resource": scan.resource, "key": key, "formats": WRITABLE, "form": form}
    if entry is not None and wanted.is_any:
        context["found"] = searching.search_below(scan, entry, wanted, start=start)
        context["start"] = start
        context["query"] = urlencode({"in": key, **form.asked()})
        context["crumbs"] = browsing.crumbs_of(entry)
    elif entry is not None:
        context["folder"] = browsing.folder_page(scan, entry, start=start)
        context["tiles"] = pictures.folder_picture(scan, entry) if context["folder"].is_first else []
    is_lost = entry is None and bool(key)
    return render(request, "inventory/entries.html", context, status=404 if is_lost else 200)


@require_safe
def search(request: PersonRequest) -> HttpResponse:
    """Search the best listing of every resource: `?name=` and the other fields of the form."""
    require(request.user, Act.VIEW)
    form = SearchForm(request.GET, is_everywhere=True)
    context: dict[str, Any] = {"form": form, "found": None}
    if form.is_valid():
        wanted = form.wanted()
        if wanted.is_any:
            context["found"] = searching.search_everywhere(wanted, host=form.cleaned_data["host"])
    return render(request, "inventory/search.html", context, status=200 if form.is_valid() else 422)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
