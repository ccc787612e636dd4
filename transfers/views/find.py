"""Rows by the names that addresses carry; a name that is not there is a 404."""

from __future__ import annotations

from django.http import Http404
from django.shortcuts import get_object_or_404

from inventory.models import Host
from transfers.models import Build, Item, Pack, Plan, Report, Revision, RevisionState, Trial
from transfers.selectors.board import builds_for_pages, items_for_pages
from transfers.selectors.evidence import reports_for_pages
from transfers.selectors.revisions import revisions_for_pages


def host_named(name: str) -> Host:
    """Raises Http404."""
    return get_object_or_404(Host, name=name)


def plan_of_host(name: str) -> Plan:
    """Raises Http404 when there is no such host, or no plan of it yet."""
    return get_object_or_404(Plan.objects.select_related("host"), host__name=name)


def pack_named(host: str, pack: str) -> Pack:
    """Raises Http404."""
    return get_object_or_404(Pack.objects.select_related("plan__host"), plan__host__name=host, name=pack)


def build_numbered(host: str, pack: str, number: int) -> Build:
    """Raises Http404."""
    rows = builds_for_pages().filter(pack__plan__host__name=host, pack__name=pack)
    return get_object_or_404(rows, number=number)


def revision_numbered(host: str, number: int) -> Revision:
    """Raises Http404."""
    return get_object_or_404(revisions_for_pages(), plan__host__name=host, number=number)


def draft_of_host(host: str) -> Revision:
    """Raises Http404 when no draft is open."""
    return get_object_or_404(revisions_for_pages(), plan__host__name=host, state=RevisionState.DRAFT)


def draft_item(host: str, pk: int) -> Item:
    """An item of the host's open draft. Raises Http404."""
    item = items_for_pages().filter(pk=pk, revision__plan__host__name=host).first()
    if item is None or item.revision.state != RevisionState.DRAFT:
        raise Http404
    return item


def trial_numbered(host: str, pk: int) -> Trial:
    """A trial of a host. Raises Http404."""
    return get_object_or_404(Trial.objects.select_related("host", "started_by"), host__name=host, pk=pk)


def report_numbered(pk: int) -> Report:
    """Raises Http404."""
    return get_object_or_404(reports_for_pages(), pk=pk)
