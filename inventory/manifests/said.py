"""Sentences of the plain parts, which know no translation: English text that remembers what it was made of.

    _("“%(name)s” stands there twice.", name=…)

makes a `str`, ready to be printed; whoever shows it to a person in another language makes it anew from its parts (see
`inventory.saying`). Catalogs find these sentences by the name `_`.
"""

from __future__ import annotations

from typing import Self


class Said(str):
    """A sentence in English, with the text and the values that it was made of. Values may be such sentences."""

    __slots__ = ("text", "values")
    text: str
    values: dict[str, object]

    def __new__(cls, text: str, values: dict[str, object]) -> Self:
        made = super().__new__(cls, text % values)
        made.text, made.values = text, values
        return made

    def __add__(self, other: str) -> Said:
        return Said("%(first)s%(second)s", {"first": self, "second": other})


def _(text: str, /, **values: object) -> Said:
    """A sentence whose text has `%(name)s` for each value; a lone per cent sign is written twice."""
    return Said(text, values)
