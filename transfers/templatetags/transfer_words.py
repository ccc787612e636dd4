"""Words of the transfers pages: chunks, lanes, what differs, and counts in groups. `{% load transfer_words %}`."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from calculet.pages.templatetags.shown import NOTHING
from transfers.selectors.chunks import HERE, MISSING, PART, PROVEN, WRONG

register = template.Library()

_CHUNK_CLASSES = {PROVEN: "v", HERE: "h", PART: "b", WRONG: "x", MISSING: ""}
_CHUNK_WORDS = {
    PROVEN: gettext_lazy("proven"),
    HERE: gettext_lazy("here, not proven yet"),
    PART: gettext_lazy("here in part"),
    WRONG: gettext_lazy("wrong, fetched again"),
    MISSING: gettext_lazy("missing"),
}
_LANE_WORDS = {
    "dialling": pgettext_lazy("lane", "connecting"),
    "working": pgettext_lazy("lane", "working"),
    "waiting": pgettext_lazy("lane", "waiting for work"),
    "redialling": pgettext_lazy("lane", "connecting again"),
    "closed": pgettext_lazy("lane", "closed"),
}
_FIELD_WORDS = {
    "mode": gettext_lazy("mode"),
    "resources": gettext_lazy("resources"),
    "include rules": gettext_lazy("what goes in"),
    "exclude rules": gettext_lazy("what stays out"),
    "chunk size": gettext_lazy("chunk size"),
    "list of files": gettext_lazy("list of files"),
}


@register.filter
def group(count: int | None) -> str:
    """A count in groups of three figures; a dash when it is not known."""
    return NOTHING if count is None else f"{int(count):,}"


@register.filter
def files_words(count: int) -> str:
    """“1 file”, “1,234 files”."""
    return ngettext("%(count)s file", "%(count)s files", count) % {"count": group(count)}


@register.filter
def entries_words(count: int) -> str:
    """“1 entry”, “1,234 entries”."""
    return ngettext("%(count)s entry", "%(count)s entries", count) % {"count": group(count)}


@register.filter
def members_words(count: int) -> str:
    """“1 member”, “1,234 members”."""
    return ngettext("%(count)s member", "%(count)s members", count) % {"count": group(count)}


@register.filter
def mebibytes(count: int | None) -> str:
    """A chunk size in MiB, the unit in which it is chosen."""
    return NOTHING if count is None else _("%(count)s MiB") % {"count": f"{count / 2**20:g}"}


@register.filter
def chunk_class(state: str) -> str:
    """The class of a chunk's square."""
    return _CHUNK_CLASSES.get(state, "")


@register.filter
def chunk_words(state: str) -> str:
    """A chunk's state in words."""
    return str(_CHUNK_WORDS.get(state, state))


@register.filter
def lane_words(state: str) -> str:
    """A lane's state in words."""
    return str(_LANE_WORDS.get(state, state))


@register.filter
def field_words(name: str) -> str:
    """What differs between two items, in words."""
    return str(_FIELD_WORDS.get(name, name))
