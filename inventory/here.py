"""Reads of what is already here, for the pages of the inventory."""

from __future__ import annotations

from collections.abc import Iterable

from inventory.models import HadCover, HadFile, HadState, Resource


def digests_covered(digests: Iterable[bytes]) -> dict[bytes, HadFile]:
    """Some digests with a file each that is already here: the evidence, the one that was taken first."""
    wanted = list(digests)
    if not wanted:
        return {}
    rows = HadFile.objects.filter(source__state=HadState.FINISHED, sha256__in=wanted).select_related("source")
    found: dict[bytes, HadFile] = {}
    for row in rows.order_by("pk"):
        found.setdefault(bytes(row.sha256), row)
    return found


def cover_of(resource: Resource) -> HadCover | None:
    """How much of a resource is already here; None while nobody declared anything."""
    return HadCover.objects.filter(resource=resource).select_related("scan").first()
