"""Words of packs that were split. `{% load reshape_words %}`."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from inventory.remote.names import escape
from transfers.models import Item

register = template.Library()


@register.simple_tag
def stretch_words(item: Item) -> SafeString:
    """The names that a part of a split pack is bound to."""
    names = {
        "first": format_html('<code class="name">{}</code>', escape(b"/" + item.stretch.first)),
        "end": format_html('<code class="name">{}</code>', escape(b"/" + item.stretch.end)),
    }
    if item.stretch.first and item.stretch.end:
        words = _("names from %(first)s on and before %(end)s")
    else:
        words = _("names from %(first)s on") if item.stretch.first else _("names before %(end)s")
    return format_html(words.replace("%(first)s", "{first}").replace("%(end)s", "{end}"), **names)
