"""The filter above the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from calculet.audit.selectors import values_known


class LogFilter(forms.Form):
    """Which events to show. A value that is not in the log is told as wrong and left out."""

    act = forms.ChoiceField(label=_("Act"), required=False)
    host = forms.ChoiceField(label=_("Host"), required=False)
    person = forms.ChoiceField(label=_("Who"), required=False)
    begin = forms.DateField(label=_("From"), required=False, widget=forms.DateInput(attrs={"type": "date"}))
    end = forms.DateField(label=_("To"), required=False, widget=forms.DateInput(attrs={"type": "date"}))

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._choose("act", values_known("act"))
        self._choose("host", values_known("host"))
        self._choose("person", values_known("actor"))

    def _choose(self, name: str, values: Sequence[str]) -> None:
        field = self.fields[name]
        if isinstance(field, forms.ChoiceField):
            field.choices = [("", _("all")), *((value, value) for value in values)]
