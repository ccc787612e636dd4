"""Forms of the inventory. What a field may hold is decided by the services; forms turn text into values."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from inventory.manifests.formats import READABLE
from inventory.manifests.sizes import format_size, parse_size
from inventory.matching import Search
from inventory.models import Entry, EntryState, Host, Resource, ResourceKind, SizeBasis, Tier
from inventory.remote.names import RemoteName, unescape
from inventory.selectors import key_file_names

_PLAIN = {"autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}


class RemoteNameFormField(forms.CharField):
    """A remote path as pages show it: text that is turned back into exactly its bytes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=16_384, strip=False, widget=forms.TextInput(attrs=_PLAIN), **options)

    def prepare_value(self, value: Any) -> Any:
        return str(value) if isinstance(value, RemoteName) else value

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            return RemoteName(unescape(text))
        except ValueError as error:
            raise forms.ValidationError(
                _("%(error)s Write a backslash as two, and a byte that is no text as \\xNN.") % {"error": error}
            ) from error


class SizeFormField(forms.CharField):
    """A number of bytes with or without a unit; empty means that it is not known."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=40, required=False, widget=forms.TextInput(attrs=_PLAIN), **options)

    def prepare_value(self, value: Any) -> Any:
        return format_size(value) if isinstance(value, int) else value

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        size = parse_size(text)
        if size is None:
            raise forms.ValidationError(_("“%(text)s” is no size. Write for instance 85.5 MB.") % {"text": text})
        return size


class HostChangeForm(forms.Form):
    """How a host is reached, and where our folder lies there."""

    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=255,
        help_text=gettext_lazy("A name or an IP address, as this machine reaches it."),
        widget=forms.TextInput(attrs=_PLAIN),
    )
    port = forms.IntegerField(label=gettext_lazy("Port"), initial=22, min_value=1, max_value=65535)
    username = forms.CharField(
        label=gettext_lazy("User"), max_length=64, widget=forms.TextInput(attrs={**_PLAIN, "autocomplete": "off"})
    )
    key_name = forms.ChoiceField(label=gettext_lazy("Key"), required=False)
    staging_path = RemoteNameFormField(
        label=gettext_lazy("Staging folder on the host"),
        help_text=gettext_lazy(
            "The only folder there that is ever written to: an absolute path, new or empty, with room for the packs."
        ),
    )
    lanes = forms.IntegerField(
        label=gettext_lazy("Lanes"),
        initial=8,
        min_value=1,
        max_value=256,
        help_text=gettext_lazy(
            "Connections to begin with. From there the link finds their number itself; see its page."
        ),
    )
    no_data_timeout_seconds = forms.IntegerField(
        label=gettext_lazy("No-data timeout, seconds"),
        min_value=10,
        max_value=86_400,
        help_text=gettext_lazy("When an attempt that gets no data is given up."),
    )
    note = forms.CharField(label=gettext_lazy("Note"), required=False, widget=forms.Textarea(attrs={"rows": 3}))

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["no_data_timeout_seconds"].initial = settings.NO_DATA_TIMEOUT_SECONDS
        names = key_file_names()
        kept = self.initial.get("key_name")
        if kept and kept not in names:
            names.append(kept)
        key: Any = self.fields["key_name"]
        key.choices = [("", _("the agent of the account that runs this program")), *((name, name) for name in names)]
        key.help_text = _("Files in %(folder)s.") % {"folder": settings.KEY_DIR}

    @classmethod
    def of(cls, host: Host, data: Any = None) -> HostChangeForm:
        """The form with a host's values."""
        channel = host.channels.order_by("position").first()
        initial = {
            "staging_path": host.staging_path,
            "lanes": host.lanes,
            "no_data_timeout_seconds": host.no_data_timeout_seconds,
            "note": host.note,
        }
        if channel is not None:
            initial |= {name: getattr(channel, name) for name in ("address", "port", "username", "key_name")}
        return cls(data, initial=initial)


class HostForm(HostChangeForm):
    """A new host."""

    field_order = ["name"]

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=63,
        help_text=gettext_lazy("Letters, digits, “-” and “_”; folders at home are named after it."),
        widget=forms.TextInput(attrs=_PLAIN),
    )


class ResourceForm(forms.Form):
    """What is said about a resource. A size that a scan measured is not asked for."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=120)
    path = RemoteNameFormField(
        label=gettext_lazy("Path on the host"),
        required=False,
        help_text=gettext_lazy("Absolute, as pages show it. Empty for what has no one place there."),
    )
    kind = forms.ChoiceField(
        label=gettext_lazy("Kind"), choices=[(kind, gettext_lazy(kind.label)) for kind in ResourceKind]
    )
    tier = forms.ModelChoiceField(
        label=gettext_lazy("Tier"), queryset=Tier.objects.all(), required=False, empty_label=gettext_lazy("none yet")
    )
    position = forms.IntegerField(
        label=gettext_lazy("Place in its tier"),
        required=False,
        min_value=0,
        max_value=2_147_483_647,
        help_text=gettext_lazy("Lowest first; empty puts a new one last."),
    )
    size_bytes = SizeFormField(
        label=gettext_lazy("Size"), help_text=gettext_lazy("As far as it is known, for instance 85.5 MB.")
    )
    size_basis = forms.ChoiceField(
        label=gettext_lazy("How sure"),
        choices=[
            (SizeBasis.UNKNOWN.value, gettext_lazy("not known")),
            (SizeBasis.ABOUT.value, gettext_lazy("about: an estimate")),
            (SizeBasis.DECLARED.value, gettext_lazy("declared: somebody stated this number")),
        ],
        help_text=gettext_lazy("A scan makes it exact."),
    )
    value = forms.CharField(
        label=gettext_lazy("Value"),
        required=False,
        help_text=gettext_lazy("What it is good for."),
        widget=forms.Textarea(attrs={"rows": 4}),
    )
    recommendation = forms.CharField(
        label=gettext_lazy("Recommendation"), required=False, widget=forms.Textarea(attrs={"rows": 3})
    )

    def __init__(self, *args: Any, is_measured: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if is_measured:
            del self.fields["size_bytes"], self.fields["size_basis"]

    @classmethod
    def of(cls, resource: Resource, data: Any = None) -> ResourceForm:
        """The form with a resource's values."""
        names = ("name", "path", "kind", "tier", "position", "size_bytes", "size_basis", "value", "recommendation")
        initial = {name: getattr(resource, name) for name in names}
        return cls(data, initial=initial, is_measured=resource.size_basis == SizeBasis.EXACT)


class SearchForm(forms.Form):
    """What is looked for among entries. Every field may stay empty."""

    name = forms.CharField(
        label=gettext_lazy("Name"), required=False, max_length=4096, strip=False, widget=forms.TextInput(attrs=_PLAIN)
    )
    kind = forms.ChoiceField(
        label=gettext_lazy("Kind"),
        required=False,
        choices=[("", gettext_lazy("any")), *((kind.value, gettext_lazy(kind.label)) for kind in Entry.Kind)],
    )
    state = forms.ChoiceField(
        label=gettext_lazy("State"),
        required=False,
        choices=[("", gettext_lazy("any")), *((one.label, gettext_lazy(one.label)) for one in EntryState)],
    )
    tier = forms.ModelChoiceField(
        label=gettext_lazy("Tier"), queryset=Tier.objects.all(), required=False, empty_label=gettext_lazy("any")
    )
    least = SizeFormField(label=gettext_lazy("At least"))
    most = SizeFormField(label=gettext_lazy("At most"))
    sort = forms.ChoiceField(
        label=gettext_lazy("Order"),
        required=False,
        choices=[
            ("", gettext_lazy("by name")),
            ("size", gettext_lazy("largest first")),
            ("time", gettext_lazy("newest first")),
        ],
    )
    bare = forms.BooleanField(label=gettext_lazy("without a digest"), required=False)
    host = forms.ModelChoiceField(
        label=gettext_lazy("Host"),
        queryset=Host.objects.order_by("name"),
        to_field_name="name",
        required=False,
        empty_label=gettext_lazy("any"),
    )

    def __init__(self, data: Any, *, is_everywhere: bool = False) -> None:
        super().__init__(data, auto_id="search-%s")
        if not is_everywhere:
            del self.fields["host"]

    def wanted(self) -> Search:
        """The search; the form must be valid."""
        given = self.cleaned_data
        state = next((one.value for one in EntryState if one.label == given["state"]), "")
        return Search(
            name=given["name"],
            kind=given["kind"],
            least_bytes=given["least"],
            most_bytes=given["most"],
            sort=given["sort"],
            has_no_digest=given["bare"],
            state=state,
            tier=given["tier"].pk if given["tier"] is not None else None,
        )

    def asked(self) -> dict[str, str]:
        """The fields that ask something, as an address carries them."""
        return {name: self.data[name] for name in self.fields if self.data.get(name)}


class OverlapForm(forms.Form):
    """How much of a resource is said to lie in another one."""

    resource = forms.ModelChoiceField(
        label=gettext_lazy("Of this resource"), queryset=Resource.objects.select_related("host").order_by("name")
    )
    percent = forms.IntegerField(label=gettext_lazy("about so many per cent"), min_value=0, max_value=100)
    other = forms.ModelChoiceField(
        label=gettext_lazy("lie in this one as well"), queryset=Resource.objects.select_related("host").order_by("name")
    )
    note = forms.CharField(
        label=gettext_lazy("Note"), required=False, max_length=500, help_text=gettext_lazy("How it is known.")
    )


class ListForm(forms.Form):
    """A list that somebody has, and what it is a list of."""

    file = forms.FileField(
        label=gettext_lazy("List"),
        help_text=gettext_lazy("Up to 64 MiB. Nothing is made before you have seen what it says."),
    )
    format_name = forms.ChoiceField(label=gettext_lazy("Format"), required=False)
    resource_name = forms.CharField(
        label=gettext_lazy("Resource"),
        max_length=120,
        help_text=gettext_lazy("What it is a list of: a resource of this host, or the name of a new one."),
        widget=forms.TextInput(attrs={**_PLAIN, "list": "resource-names"}),
    )
    root = RemoteNameFormField(
        label=gettext_lazy("Folder"),
        required=False,
        help_text=gettext_lazy(
            "Which folder on the host the names lie below. Empty for a resource that is there: its path."
        ),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("label_suffix", "")
        super().__init__(*args, **options)
        chosen: Any = self.fields["format_name"]
        chosen.choices = [("", _("as it looks")), *((one.name, one.words) for one in READABLE)]


class NoteForm(forms.Form):
    """A decision's reason."""

    note = forms.CharField(label=gettext_lazy("Note"), required=False, max_length=2000)
    digest = forms.CharField(widget=forms.HiddenInput, max_length=64)


class PinForm(forms.Form):
    """The host key that was shown, to be pinned as it is."""

    key_type = forms.CharField(max_length=64)
    blob = forms.RegexField(r"\A[A-Za-z0-9+/=]+\Z", max_length=8192)
    fingerprint = forms.CharField(max_length=64)
