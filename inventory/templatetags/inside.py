"""{% load inside %}: why not all of an archive is known, in a sentence."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

register = template.Library()

SENTENCES = {
    "cut-off": gettext_noop("The archive is cut off: what lies after the cut is not known."),
    "damaged": gettext_noop("The archive is damaged: what lies after the damage is not known."),
    "no-archive": gettext_noop("It is no tar archive that this program reads."),
    "too-large": gettext_noop("Its content is larger than any honest archive of this size; reading stopped there."),
    "too-many": gettext_noop("It has more members than are read of one archive (1,000,000); the rest is not known."),
    "unreadable": gettext_noop("It could not be read."),
    "changed": gettext_noop("It changed while it was read."),
    "window": gettext_noop("It was compressed with a window of more than 128 MiB, which is not read."),
    "no-zstd": gettext_noop("It is compressed with zstd, which the host does not have; at home it can be read."),
    "layers-closed": gettext_noop("It is an image, and its layers were not opened: the host has no python3."),
    "layers-missing": gettext_noop("The image names layers that are not in it."),
}


@register.filter
def fault_sentence(word: str) -> str:
    """What an archive's fault means; the word itself when it is of another version of this program."""
    return _(SENTENCES[word]) if word in SENTENCES else word
