"""Forms of a link's page: lanes, trials, limits."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from transfers.engine.trial import DEFAULT_LEVEL_SECONDS, DEFAULT_LEVELS
from transfers.forms import PageForm
from transfers.models import BandwidthLimit, LaneSetting
from transfers.selectors.allowance import weekly_limit
from transfers.windows import Window, WindowWrong, rate_text, read_rate, read_windows, write_windows

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class LevelForm(PageForm):
    """The number of lanes: steered, or set."""

    level = forms.IntegerField(
        label=_("Lanes"),
        required=False,
        min_value=1,
        max_value=256,
        widget=forms.NumberInput(attrs={**_PLAIN, "placeholder": "auto"}),
        help_text=_("Empty is auto: the link finds the number itself, and goes on adjusting it."),
    )
    trial = forms.IntegerField(required=False, widget=forms.HiddenInput)

    @classmethod
    def of(cls, setting: LaneSetting | None) -> LevelForm:
        """The form with what is set."""
        return cls(initial={"level": setting.level if setting is not None else None}, prefix="lanes")


class CapForm(PageForm):
    """A cap for a host that is shared with others."""

    most = forms.IntegerField(
        label=_("No more lanes than"),
        required=False,
        min_value=1,
        max_value=256,
        widget=forms.NumberInput(attrs=_PLAIN),
        help_text=_("For a host that others use as well. Steering, trials and levels stay below. Empty: no cap."),
    )

    @classmethod
    def of(cls, setting: LaneSetting | None) -> CapForm:
        """The form with what is set."""
        return cls(initial={"most": setting.most if setting is not None else None}, prefix="cap")


class TrialForm(PageForm):
    """Which numbers of lanes a trial compares, and for how long."""

    levels = forms.CharField(
        label=_("Numbers of lanes"),
        max_length=60,
        initial=" ".join(map(str, DEFAULT_LEVELS)),
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=_("Two to six numbers with spaces between them."),
    )
    minutes = forms.DecimalField(
        label=_("Minutes for each of them"),
        min_value=0,
        max_value=360,
        decimal_places=2,
        initial=DEFAULT_LEVEL_SECONDS // 60,
        widget=forms.NumberInput(attrs={**_PLAIN, "step": "any"}),
        help_text=_("Counted in all, in blocks of about a minute; after each change the ramp is not counted."),
    )

    def clean_levels(self) -> list[int]:
        words = str(self.cleaned_data["levels"]).replace(",", " ").split()
        if not all(word.isascii() and word.isdigit() and len(word) < 4 for word in words):
            raise ValidationError(_("Write numbers of lanes, for instance “4 8 12”."))
        return [int(word) for word in words]

    def values(self) -> dict[str, Any]:
        """The arguments of `trial_start` beside host and actor."""
        return {"levels": self.cleaned_data["levels"], "level_seconds": float(self.cleaned_data["minutes"]) * 60}


class LimitForm(PageForm):
    """A bandwidth limit for all hours, and windows with limits of their own."""

    rate = forms.CharField(
        label=_("Limit at all hours"),
        required=False,
        max_length=40,
        widget=forms.TextInput(attrs={**_PLAIN, "placeholder": "2 Mbit/s"}),
        help_text=_("As in “2 Mbit/s” or “500 kB/s”. Empty: no limit beside the windows."),
    )
    windows = forms.CharField(
        label=_("Windows of the week"),
        required=False,
        max_length=4000,
        widget=forms.Textarea(attrs={**_PLAIN, "rows": 4, "placeholder": "mon-fri 08:00-18:00 2 Mbit/s"}),
        help_text=_(
            "One a line: days, hours, limit, as in “mon-fri 08:00-18:00 2 Mbit/s” or “daily 22:00-06:00 none”. "
            "In hours with “none” nothing is transferred. The lowest limit counts."
        ),
    )
    time_zone = forms.CharField(
        label=_("Time zone of these hours"),
        max_length=64,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=_("As in Asia/Shanghai, Europe/Berlin or UTC."),
    )

    @classmethod
    def of(cls, limit: BandwidthLimit | None, zone: str) -> LimitForm:
        """The form with what is set; `zone` is the installation's own."""
        weekly = weekly_limit(limit)
        rate = weekly.bytes_per_second
        initial = {
            "rate": rate_text(rate) if rate is not None else "",
            "windows": write_windows(weekly.windows),
            "time_zone": limit.time_zone if limit is not None else zone,
        }
        return cls(initial=initial, prefix="limit")

    def clean_rate(self) -> int | None:
        text = str(self.cleaned_data["rate"]).strip()
        if not text:
            return None
        try:
            rate = read_rate(text)
        except ValueError as error:
            raise ValidationError(str(error)) from error
        if not rate:
            raise ValidationError(_("For no transfer at all write a window: “daily 00:00-24:00 none”."))
        return rate

    def clean_windows(self) -> tuple[Window, ...]:
        try:
            return read_windows(str(self.cleaned_data["windows"]))
        except WindowWrong as error:
            raise ValidationError(str(error)) from error

    def clean_time_zone(self) -> str:
        name = str(self.cleaned_data["time_zone"]).strip()
        if name not in available_timezones():
            raise ValidationError(_("There is no such time zone; write for instance Asia/Shanghai or UTC."))
        return name

    def values(self) -> dict[str, Any]:
        """The arguments of `limit_set` beside host and actor."""
        return {
            "bytes_per_second": self.cleaned_data["rate"],
            "windows": self.cleaned_data["windows"],
            "time_zone": self.cleaned_data["time_zone"],
        }
