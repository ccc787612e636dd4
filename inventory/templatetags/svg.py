"""{% load svg %}: figures of pictures, written the same in every language."""

from __future__ import annotations

from django import template

register = template.Library()

_INSET, _BASELINE = 5.0, 15.0


@register.filter
def svg(figure: float) -> str:
    """A coordinate or extent."""
    return f"{figure:.1f}"


@register.filter
def svg_in(figure: float) -> str:
    """Where a box's label begins."""
    return svg(figure + _INSET)


@register.filter
def svg_down(figure: float) -> str:
    """The baseline of a box's label."""
    return svg(figure + _BASELINE)


@register.filter
def svg_share(figure: float) -> str:
    """A share of 1, as opacities are."""
    return f"{figure:.2f}"
