"""Forms of plans and packs. They read what was typed; services decide whether it may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from inventory.models import Host, Resource, Scan, ScanState
from transfers.models import Item, Mode, Plan

MEBIBYTE = 2**20
LARGEST_PLAN_FILE_BYTES = 4 * MEBIBYTE

MODE_WORDS = {
    Mode.ARCHIVE: _("archive: made on the host from the list, then fetched as one file"),
    Mode.FILES: _("files: fetched as they are, nothing is written on the host"),
    Mode.EXISTING: _("existing archive: one file that is there already"),
    Mode.PARTS: _("set of parts: chunk files that are there already"),
}


class PageForm(forms.Form):
    """A form whose labels stand above their fields, without a colon."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("label_suffix", "")
        super().__init__(*args, **options)


class HoldForm(PageForm):
    """Why a pack is kept back."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=500,
        strip=True,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=_("What the pack waits for. Everybody sees it."),
    )
    until_rest = forms.BooleanField(label=_("Until everything else is opened"), required=False)
    until_kilobytes = forms.DecimalField(
        label=_("Until the link brings so many kB/s"),
        required=False,
        min_value=Decimal("0.001"),
        max_value=Decimal(10**9),
        decimal_places=3,
        help_text=_("On average over five minutes, as after a change to a faster channel."),
    )
    until_at = forms.DateTimeField(
        label=_("Until a time"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text=_("In the time zone of this installation. Without any of the three, a person ends the hold."),
    )

    def until(self) -> dict[str, Any]:
        """The conditions that end the hold, as the fields of `HoldUntil`."""
        data = self.cleaned_data
        rate = data["until_kilobytes"]
        return {
            "at": data["until_at"],
            "rest": data["until_rest"],
            "rate": None if rate is None else int(rate * 1000),
        }


class PlaceForm(PageForm):
    """A pack's place in the execution order, counted from 1."""

    place = forms.IntegerField(label=_("Place"), min_value=1)


class NoteForm(PageForm):
    """A note that goes with an act; what it is for is said by the page."""

    note = forms.CharField(label=_("Note"), required=False, max_length=4000, widget=forms.Textarea(attrs={"rows": 2}))


class ReasonForm(PageForm):
    """A note that must be given."""

    note = forms.CharField(label=_("Note"), max_length=4000, widget=forms.Textarea(attrs={"rows": 2}))


VALUE_EARLY = "value"


class AdviceForm(PageForm):
    """What an advised order is for. It is a question: nothing is saved by it."""

    aim = forms.ChoiceField(label=_("Aim"), required=False)
    may_cross_tiers = forms.BooleanField(
        label=_("May put a worse tier before a better one"),
        required=False,
        help_text=_("Otherwise a pack of a better tier stays before those of worse tiers that stand behind it now."),
    )

    def __init__(self, *args: Any, names: Sequence[str], weights: Mapping[int, float], **options: Any) -> None:
        super().__init__(*args, **options)
        aim = self.fields["aim"]
        assert isinstance(aim, forms.ChoiceField)
        aim.choices = [
            *((f"need:{name}", gettext("earliest: %(name)s") % {"name": name}) for name in names),
            (VALUE_EARLY, gettext("most tier-weighted bytes early")),
        ]
        self._weights = dict(weights)
        for position, weight in weights.items():
            self.fields[f"weight_{position}"] = forms.FloatField(
                label=gettext("Weight of tier %(position)s") % {"position": position},
                required=False,
                min_value=0,
                max_value=1e6,
                initial=f"{weight:g}",
            )

    @property
    def names(self) -> Sequence[str]:
        """Names of the weights' fields."""
        return [f"weight_{position}" for position in self._weights]

    def question(self) -> tuple[str | None, dict[int, float], bool]:
        """(aim, weights, whether tiers may be crossed); what was not said, or wrongly, is as it is by default."""
        data = self.cleaned_data if self.is_bound and self.is_valid() else {}
        aims = [str(value) for value, _label in self.fields["aim"].choices]  # type: ignore[attr-defined]
        aim = data.get("aim") or aims[0]
        said = {position: data.get(f"weight_{position}") for position in self._weights}
        weights = {at: self._weights[at] if weight is None else float(weight) for at, weight in said.items()}
        return aim.removeprefix("need:") if aim != VALUE_EARLY else None, weights, bool(data.get("may_cross_tiers"))


class ClearByForm(PageForm):
    """The day on which a host will be cleared."""

    clear_by = forms.DateField(
        label=_("The host is cleared on"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text=_("What is not usable when that day begins is late. Empty: nobody named a day."),
    )


class RateForm(PageForm):
    """What forecasts go by as long as nothing is measured."""

    kilobytes_per_second = forms.DecimalField(
        label=_("Rate of the link in kB/s"),
        required=False,
        min_value=Decimal("0.001"),
        max_value=Decimal(10**9),
        decimal_places=3,
        help_text=_("What you take the link for. Empty: no time is given before something was measured."),
    )
    packed_percent = forms.IntegerField(
        label=_("Size after packing, in per cent"),
        required=False,
        min_value=1,
        max_value=200,
        help_text=_("What archives shrink to, before any was packed here. Empty: they are taken not to shrink."),
    )

    @classmethod
    def start_of(cls, plan: Plan) -> dict[str, Any]:
        """The initial values: what is stated."""
        rate = plan.stated_bytes_per_second
        return {
            "kilobytes_per_second": None if rate is None else Decimal(rate) / 1000,
            "packed_percent": plan.stated_packed_percent,
        }

    def values(self) -> dict[str, int | None]:
        """The arguments of `rate_state` beside plan and actor."""
        rate = self.cleaned_data["kilobytes_per_second"]
        return {
            "bytes_per_second": None if rate is None else int(rate * 1000),
            "packed_percent": self.cleaned_data["packed_percent"],
        }


if TYPE_CHECKING:
    _Resources = forms.ModelMultipleChoiceField[Resource]
else:
    _Resources = forms.ModelMultipleChoiceField  # not generic while it runs


class ResourceField(_Resources):
    """Resources of one host, each with its path."""

    def label_from_instance(self, obj: Any) -> str:
        words = f"{obj.name} · {obj.path}"
        return words if obj.is_scanned else gettext("%(resource)s · not scanned yet") % {"resource": words}


class ItemForm(PageForm):
    """What one pack carries in a draft."""

    pack_name = forms.SlugField(
        label=_("Pack"),
        max_length=100,
        help_text=_("Letters, digits, “-” and “_”; it names the folder at home. A known name changes that pack."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    aim = forms.CharField(label=_("Aim"), required=False, max_length=500, help_text=_("What the pack is good for."))
    mode = forms.ChoiceField(label=_("Mode"), choices=[(mode.value, words) for mode, words in MODE_WORDS.items()])
    resources = ResourceField(
        label=_("Resources"),
        queryset=Resource.objects.none(),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("A resource must have been scanned before it can be previewed."),
    )
    include_rules = forms.CharField(
        label=_("Only these"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=_("One pattern a line, with the meaning of gitignore, relative to the resource. Empty: everything."),
    )
    exclude_rules = forms.CharField(
        label=_("But not these"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=_("One pattern a line. What matches here stays out."),
    )
    leaves_out_carried = forms.BooleanField(
        label=_("Leave out what packs before this one carry"),
        required=False,
        help_text=_(
            "By digest, so take digests of the resources first. Unpacking makes the tree whole; it is usable when "
            "those packs are. Archive and files."
        ),
    )
    leaves_out_here = forms.BooleanField(
        label=_("Leave out what is already here"),
        required=False,
        help_text=_("Files with a digest that a declared folder, landing or checksum list holds. Archive and files."),
    )
    chunk_mebibytes = forms.IntegerField(
        label=_("Chunk size in MiB"),
        initial=64,
        min_value=1,
        max_value=1024,
        help_text=_("Unit of proof. 64 unless there is a reason."),
    )

    def __init__(self, *args: Any, host: Host, **options: Any) -> None:
        super().__init__(*args, **options)
        resources = self.fields["resources"]
        assert isinstance(resources, ResourceField)
        resources.queryset = resources_with_place(host)

    @classmethod
    def start_of(cls, item: Item) -> dict[str, Any]:
        """The initial values for changing an item."""
        return {
            "pack_name": item.pack.name,
            "aim": item.pack.aim,
            "mode": item.mode,
            "resources": list(item.resources.values_list("pk", flat=True)),
            "include_rules": "\n".join(item.include_rules),
            "exclude_rules": "\n".join(item.exclude_rules),
            "leaves_out_carried": item.leaves_out_carried,
            "leaves_out_here": item.leaves_out_here,
            "chunk_mebibytes": item.chunk_bytes // MEBIBYTE,
        }

    def clean_include_rules(self) -> list[str]:
        return _lines(self.cleaned_data["include_rules"])

    def clean_exclude_rules(self) -> list[str]:
        return _lines(self.cleaned_data["exclude_rules"])

    def values(self) -> dict[str, Any]:
        """The arguments of `item_set` beside revision and actor."""
        data = dict(self.cleaned_data)
        data["resources"] = list(data["resources"])
        data["chunk_bytes"] = data.pop("chunk_mebibytes") * MEBIBYTE
        return data

    def take_errors(self, error: ValidationError) -> None:
        """Show a service's refusal beside the fields that it names."""
        if not hasattr(error, "error_dict"):
            self.add_error(None, error)
            return
        for name, errors in error.error_dict.items():
            field = {"chunk_bytes": "chunk_mebibytes"}.get(name, name)
            self.add_error(field if field in self.fields else None, errors)


class PlanFileForm(PageForm):
    """A plan file to load."""

    file = forms.FileField(
        label=_("Plan file"),
        help_text=_("YAML, as the product exports it. The same file again changes nothing."),
        widget=forms.FileInput(attrs={"accept": ".yaml,.yml"}),
    )

    def clean_file(self) -> Any:
        upload = self.cleaned_data["file"]
        if upload.size > LARGEST_PLAN_FILE_BYTES:
            raise ValidationError(
                gettext("The file is larger than 4 MiB, which no plan file is. Nothing was loaded. Choose another one.")
            )
        return upload


def resources_with_place(host: Host) -> QuerySet[Resource, Resource]:
    """Resources that packs can carry: those with a path on the host. `is_scanned` is added to each."""
    scans = Scan.objects.filter(resource=OuterRef("pk"), state=ScanState.FINISHED)
    rows = Resource.objects.filter(host=host).exclude(path=b"").annotate(is_scanned=Exists(scans))
    return rows.order_by("tier__position", "position", "name")


def _lines(text: str) -> list[str]:
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]
