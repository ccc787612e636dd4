"""The filter above the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from calculet.audit.exports import Form
from calculet.audit.filters import NAME_CHARACTERS, Filter, values_known

_PACKS_OFFERED = 500


class LogFilter(forms.Form):
    """Which events to show. A value that makes no sense is told as wrong and left out."""

    act = forms.CharField(label=_("Act"), required=False, max_length=500)
    person = forms.ChoiceField(label=_("Who"), required=False)
    host = forms.ChoiceField(label=_("Host"), required=False)
    pack = forms.CharField(
        label=_("Pack"), required=False, max_length=100, widget=forms.TextInput(attrs={"list": "packs-known"})
    )
    begin = forms.DateField(label=_("From"), required=False, widget=forms.DateInput(attrs={"type": "date"}))
    end = forms.DateField(label=_("To"), required=False, widget=forms.DateInput(attrs={"type": "date"}))

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["act"].widget = forms.Select(choices=self._acts())
        self._choose("host", values_known("host"))
        self._choose("person", values_known("actor"))

    @property
    def wanted(self) -> Filter:
        """The filter that was asked for, without the parts that make no sense."""
        self.is_valid()
        return Filter(**{name: value for name, value in self.cleaned_data.items() if value})

    @property
    def packs_known(self) -> list[str]:
        """Names to choose from; others can be written."""
        return values_known("pack")[:_PACKS_OFFERED]

    def _acts(self) -> list[tuple[str, Any]]:
        """Every act in the log, by what it is about; and what was asked for, when it is none of these."""
        choices: list[tuple[str, Any]] = [("", _("all"))]
        known = values_known("act")
        for noun, acts in groupby(known, key=lambda act: act.partition(".")[0]):
            choices.append((noun, [(f"{noun}.*", f"{noun}.*"), *((act, act) for act in acts)]))
        asked = self.data.get("act", "")
        offered = {*known, *(f"{act.partition('.')[0]}.*" for act in known), ""}
        return choices if asked in offered else [*choices, (asked, asked)]

    def _choose(self, name: str, values: Sequence[str]) -> None:
        field = self.fields[name]
        if isinstance(field, forms.ChoiceField):
            field.choices = [("", _("all")), *((value, value) for value in values)]


class ExportForm(forms.Form):
    """How an export is written."""

    form = forms.TypedChoiceField(
        choices=[(form, form) for form in Form], coerce=Form, required=False, empty_value=Form.JSON_LINES
    )


class ViewForm(forms.Form):
    """The name of a view."""

    name = forms.CharField(label=_("Name of the view"), max_length=NAME_CHARACTERS)
