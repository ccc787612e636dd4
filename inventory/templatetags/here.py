"""{% load here %}: which of the entries on a page are already here, looked up once for the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import template

from inventory.here import digests_covered
from inventory.models import HadFile

register = template.Library()


@register.simple_tag
def here_marks(rows: Iterable[Any]) -> dict[int, HadFile]:
    """The evidence for each entry of a folder's rows that is already here, by the entry's position."""
    entries = [row.entry for row in rows if row.entry.sha256 is not None and row.entry.size_bytes]
    found = digests_covered({bytes(entry.sha256) for entry in entries})
    return {entry.position: found[bytes(entry.sha256)] for entry in entries if bytes(entry.sha256) in found}


@register.filter
def at_position(marks: Mapping[int, HadFile], position: int) -> HadFile | None:
    """One of the marks; None where there is none."""
    return marks.get(position)
