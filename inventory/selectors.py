"""All reads of the inventory: what pages show, and what other areas ask of it."""

from __future__ import annotations

from django.db.models import QuerySet

from inventory.models import Entry, Resource, Scan, ScanState


def latest_scan(resource: Resource) -> Scan | None:
    """The scan of a resource that finished last; None before the first."""
    return resource.scans.filter(state=ScanState.FINISHED).order_by("-finished_at", "-pk").first()


def scan_entries(scan: Scan) -> QuerySet[Entry]:
    """A scan's entries in the order of their names, part by part: a folder's content follows it directly."""
    return scan.entries.order_by("position")
