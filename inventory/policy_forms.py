"""The form of a digest policy."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from inventory.forms import SizeFormField
from inventory.models import DigestPolicy, Host, Resource

_CHOICES = [
    (DigestPolicy.NEVER.value, gettext_lazy("Only when somebody asks")),
    (DigestPolicy.OVER.value, gettext_lazy("Of files from a size on")),
    (DigestPolicy.ALL.value, gettext_lazy("Of all files")),
]


class DigestPolicyForm(forms.Form):
    """Which digests are taken by themselves after each scan."""

    policy = forms.ChoiceField(label=gettext_lazy("Digests after each scan"), required=False)
    over_bytes = SizeFormField(label=gettext_lazy("From this size on"), help_text=gettext_lazy("For instance 100 MB."))

    def __init__(self, row: Host | Resource, data: Any = None) -> None:
        given = {"policy": row.digest_policy, "over_bytes": row.digest_over_bytes}
        super().__init__(data, initial=given, prefix=None)
        own = [("", gettext_lazy("As the host's policy says"))] if isinstance(row, Resource) else []
        self.fields["policy"].choices = [*own, *_CHOICES]  # type: ignore[attr-defined]
