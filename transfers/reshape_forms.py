"""Forms of splitting, copying and merging packs. They read what was typed; services decide whether it may be."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from transfers.forms import PageForm
from transfers.models import Item

BY_RESOURCE, BY_FOLDER, BY_BYTES = "resource", "folder", "bytes"
_BY = [
    (BY_RESOURCE, _("a pack of each resource")),
    (BY_FOLDER, _("a pack of each top folder; loose files go with the folder before them")),
    (BY_BYTES, _("packs of at most so many megabytes, in the order of the list")),
]


class SplitForm(PageForm):
    """How a pack is split."""

    by = forms.ChoiceField(label=_("Into"), choices=_BY, widget=forms.RadioSelect, initial=BY_FOLDER)
    megabytes = forms.DecimalField(
        label=_("Megabytes at most"),
        required=False,
        min_value=Decimal("0.001"),
        max_value=Decimal(10**9),
        decimal_places=3,
        help_text=_("Before packing, and only for the last choice. One file that is larger makes a pack of its own."),
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("by") == BY_BYTES and data.get("megabytes") is None and "megabytes" not in self.errors:
            self.add_error("megabytes", gettext("Say how many megabytes a part may have."))
        return data

    @property
    def most_bytes(self) -> int:
        """What a part may have."""
        return int(self.cleaned_data["megabytes"] * 10**6)


class CopyForm(PageForm):
    """The name of a copy."""

    new_name = forms.SlugField(
        label=_("Name of the copy"),
        max_length=100,
        help_text=_("Letters, digits, “-” and “_”; it names the folder at home."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


class MergeForm(PageForm):
    """Which packs become one."""

    packs = forms.MultipleChoiceField(label=_("Packs"), widget=forms.CheckboxSelectMultiple)

    def __init__(self, *args: Any, items: Sequence[Item], **options: Any) -> None:
        super().__init__(*args, **options)
        packs = self.fields["packs"]
        assert isinstance(packs, forms.MultipleChoiceField)
        packs.choices = [(item.pack.name, item.pack.name) for item in items]

    def clean_packs(self) -> list[str]:
        names: list[str] = self.cleaned_data["packs"]
        if len(names) < 2:
            raise ValidationError(gettext("Choose two packs or more."))
        return names
