"""Reads of what is already here: declarations, what they cover, and what a pack left out because of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from inventory.models import HadCover, HadFile, HadSource, HadState
from inventory.remote.names import escape
from transfers.models import Item
from transfers.selectors.specs import list_members

SAMPLE_FILES = 10


def sources_shown() -> list[HadSource]:
    """Every declaration that was not taken back, newest first."""
    rows = HadSource.objects.exclude(state=HadState.WITHDRAWN).select_related("requested_by")
    return list(rows.order_by("-requested_at", "-pk"))


def covers_shown() -> list[HadCover]:
    """Resources of which something is already here, the most bytes first."""
    rows = HadCover.objects.filter(files__gt=0).select_related("resource__host", "resource__tier", "scan")
    return list(rows.order_by("-size_bytes", "resource__name"))


@dataclass(frozen=True, slots=True)
class LeftHere:
    """One file that a pack leaves out, with where its content lies; `place` is empty when that was taken back since."""

    name: str
    place: str
    source: HadSource | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a pack leaves out because it is already here, and the first files of it with their evidence."""

    files: int
    size_bytes: int
    digest: str
    sample: list[LeftHere]


def left_out_of(item: Item | None) -> LeftOut | None:
    """What an item left out at its last preview; None when nothing."""
    if item is None or item.here_list is None:
        return None
    first = list(islice(list_members(item.here_list), SAMPLE_FILES))
    digests = [member.sha256 for member in first if member.sha256 is not None]
    rows = HadFile.objects.filter(source__state=HadState.FINISHED, sha256__in=digests).select_related("source")
    places = {bytes(row.sha256): row for row in rows.order_by("-pk")}
    sample = []
    for member in first:
        row = places.get(member.sha256 or b"")
        place = "" if row is None else str(row.name)
        sample.append(LeftHere(escape(b"/" + member.name), place, None if row is None else row.source))
    return LeftOut(item.here_list.file_count, item.here_list.total_bytes, item.here_list.digest, sample)
