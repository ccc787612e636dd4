"""Sentences of the plain parts in the reader's language."""

from __future__ import annotations

from django.utils.translation import gettext

from inventory.manifests.said import Said


def said_here(sentence: str) -> str:
    """A sentence in the language that is active now; one that is plain text stays as it is."""
    if not isinstance(sentence, Said):
        return sentence
    values = {name: said_here(value) if isinstance(value, str) else value for name, value in sentence.values.items()}
    return gettext(sentence.text) % values
