"""Figures of the link doctor for its page. `{% load doctor_words %}`."""

from __future__ import annotations

from typing import Any

from django import template

from calculet.pages.templatetags.shown import NOTHING, bytes_rate
from transfers.models import LinkExamination

register = template.Library()


def _part(row: LinkExamination, name: str) -> dict[str, Any]:
    return row.facts.get(name) or {}


@register.filter
def round_trip_of(row: LinkExamination) -> str:
    """The middle round trip, in milliseconds; a dash when it was not measured."""
    seconds = row.facts.get("round_trip_seconds")
    if seconds is None:
        return NOTHING
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


@register.filter
def sent_again_of(row: LinkExamination) -> str:
    """The share that the host sent again: of all our connections, or of the one."""
    for part in ("ours", "one"):
        share = _part(row, part).get("loss")
        if share is not None:
            return f"{share * 100:.2f} %"
    return NOTHING


@register.filter
def one_rate_of(row: LinkExamination) -> str:
    """What one connection brought."""
    return bytes_rate(_part(row, "one").get("bytes_per_second"))


@register.filter
def best_rate_of(row: LinkExamination) -> str:
    """What the best number of lanes brought before."""
    return bytes_rate(row.history.get("best_bytes_per_second"))
