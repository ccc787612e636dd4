"""{% load names %}: names that stand in no row, shown as rows' names are."""

from __future__ import annotations

from django import template

from inventory.remote.names import escape

register = template.Library()


@register.filter
def escaped_name(raw: bytes) -> str:
    """A name's bytes as one line of text."""
    return escape(raw)
