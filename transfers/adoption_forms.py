"""The form that offers bytes of this machine to a pack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from transfers.forms import PageForm
from transfers.models import AdoptionWay

WAY_WORDS = {
    AdoptionWay.ASK: _("compare first, and show me what matches"),
    AdoptionWay.COPY: _("copy what matches; what is there stays as it is"),
    AdoptionWay.TAKE: _("take the file itself, if it can be: it is moved into the landing, wrong blocks are replaced"),
}


class AdoptForm(PageForm):
    """Which file or folder, and how."""

    path = forms.CharField(
        label=_("File or folder on this machine"),
        max_length=4096,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "list": "offered"}),
        help_text=_(
            "A partial file of any tool, a folder with a set of parts, or a folder with copies. Digests decide what is "
            "taken over; names and sizes only say where it may lie."
        ),
    )
    way = forms.ChoiceField(
        label=_("What is done with it"),
        choices=[(way.value, words) for way, words in WAY_WORDS.items()],
        initial=AdoptionWay.ASK.value,
        widget=forms.RadioSelect,
    )

    def asked(self) -> dict[str, Any]:
        """The path and the way, for the service."""
        return {"path": Path(self.cleaned_data["path"]), "way": AdoptionWay(self.cleaned_data["way"])}
