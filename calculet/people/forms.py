"""Forms about people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, SetPasswordForm, UsernameField
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.utils.translation import gettext_lazy as _

from calculet.people.models import Person
from calculet.people.roles import Role

ROLE_WORDS = {
    Role.VIEWER: _("viewer: sees everything but the log"),
    Role.PLANNER: _("planner: names and ranks what is there, plans packs"),
    Role.OPERATOR: _("operator: hosts, scans, order, pause, unpack"),
    Role.APPROVER: _("approver: approves what somebody else planned"),
    Role.AUDITOR: _("auditor: reads and exports the log"),
    Role.ADMIN: _("admin: people and hosts"),
}


class NameField(UsernameField):
    """A sign-in name, checked as the model does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            label=_("Sign-in name"),
            max_length=150,
            validators=[UnicodeUsernameValidator()],
            help_text=_("Letters, digits and @ . + - _"),
            widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}),
            **options,
        )


class SignInForm(AuthenticationForm):
    """Name and password. Why a sign-in was refused is not told: it would tell strangers who is here."""

    error_messages = {
        "invalid_login": _("Name or password is wrong. Both heed capital letters."),
        "inactive": _("Name or password is wrong. Both heed capital letters."),
    }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["username"].label = _("Sign-in name")


class PersonForm(forms.Form):
    """A new person."""

    username = NameField()
    full_name = forms.CharField(label=_("Full name"), max_length=150, required=False)
    roles = forms.MultipleChoiceField(
        label=_("Roles"),
        required=False,
        choices=[(role.value, words) for role, words in ROLE_WORDS.items()],
        widget=forms.CheckboxSelectMultiple,
    )

    def clean_roles(self) -> list[Role]:
        return [Role(name) for name in self.cleaned_data["roles"]]


if TYPE_CHECKING:
    _SetPassword = SetPasswordForm[Person]
else:
    _SetPassword = SetPasswordForm  # not generic while it runs


class SetupForm(_SetPassword):
    """The first admin: a name and a password."""

    field_order = ["username", "new_password1", "new_password2"]

    username = NameField()
