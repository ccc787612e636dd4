"""Which resource an entry of a listing belongs to: the innermost one whose path it lies at or below.

Resources may lie inside one another, each with a tier of its own; so that nothing is ever counted twice, an entry
belongs to one of them only.
"""

from __future__ import annotations

from collections.abc import Collection

from inventory.columns import Columns
from inventory.models import Resource, Scan


def resources_inside(scan: Scan) -> list[Resource]:
    """The host's resources whose path lies strictly inside the listed folder, outer ones first."""
    others = Resource.objects.select_related("tier").filter(host_id=scan.host_id).exclude(pk=scan.resource_id)
    inside = [one for one in others.exclude(path=b"") if one.path != scan.root and one.path.is_below(scan.root)]
    return sorted(inside, key=lambda one: len(one.path.raw))


def runs_of(scan: Scan, columns: Columns) -> list[tuple[int, int, Resource]]:
    """Runs of entries (first, behind the last) with the resource that they belong to; of two, the later one counts."""
    own = len(scan.root.raw.rstrip(b"/")) + 1
    inside = ((*columns.run_of(one.path.raw[own:]), one) for one in resources_inside(scan))
    return [(0, columns.count, scan.resource), *(run for run in inside if run[0] < run[1])]


def runs_of_tier(
    scan: Scan, columns: Columns, tier_id: int, *, leave: Collection[int] = ()
) -> list[tuple[int, int, bool]]:
    """The same, with whether the resource has this tier; never those in `leave`, which are looked through elsewhere."""
    found = []
    for first, end, one in runs_of(scan, columns):
        found.append((first, end, one.tier_id == tier_id and (one.pk == scan.resource_id or one.pk not in leave)))
    return found
