"""Words of the links' pages: rates in bits, trials and what they found. `{% load link_words %}`."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from calculet.pages.templatetags.shown import NOTHING, moment
from inventory.models import Host
from transfers.engine.trial import Answer, Difference, Result
from transfers.models import LaneDecision, LaneSetting, Trial, TrialEnd
from transfers.selectors.allowance import allowance_of

register = template.Library()

_ENDS = {
    TrialEnd.DONE: gettext_lazy("All blocks were done."),
    TrialEnd.PERSON: gettext_lazy("A person stopped it before its end."),
    TrialEnd.DRY: gettext_lazy("It ended early: there was nothing left to fetch from this host."),
    TrialEnd.LATE: gettext_lazy("It ended early: its blocks were not done within a day, nor in four times its length."),
}
_SOURCES = {
    LaneDecision.Source.STEERING: gettext_lazy("steering"),
    LaneDecision.Source.TRIAL: gettext_lazy("trial"),
    LaneDecision.Source.PERSON: gettext_lazy("person"),
}


@register.filter
def bits_rate(bytes_per_second: float | None) -> str:
    """Bytes a second as Mbit/s; a dash when it is not known."""
    if bytes_per_second is None:
        return NOTHING
    megabits = bytes_per_second * 8 / 1e6
    return f"{megabits:,.1f} Mbit/s" if abs(megabits) >= 1 else f"{megabits * 1000:,.0f} kbit/s"


@register.filter
def bits(bytes_per_second: float) -> str:
    """The number alone, in Mbit/s."""
    return f"{bytes_per_second * 8 / 1e6:,.2f}"


@register.filter
def lanes_words(count: int) -> str:
    """“1 lane”, “8 lanes”."""
    return ngettext("%(count)s lane", "%(count)s lanes", count) % {"count": count}


@register.filter
def span_words(minutes: int) -> str:
    """“10 min”, “6 h”."""
    if minutes < 60:
        return _("%(minutes)s min") % {"minutes": minutes}
    return _("%(hours)s h") % {"hours": minutes // 60}


@register.filter
def source_words(decision: LaneDecision) -> str:
    """Who decided."""
    return str(_SOURCES[LaneDecision.Source(decision.source)])


@register.filter
def setting_words(setting: LaneSetting | None) -> str:
    """Where the number of lanes comes from while no trial runs."""
    if setting is None or setting.level is None:
        return _("auto: the link finds the number of lanes itself")
    if setting.trial_id is not None:
        return _("%(count)s, kept after trial %(trial)s") % {"count": setting.level, "trial": setting.trial_id}
    return _("%(count)s, set by a person") % {"count": setting.level}


@register.simple_tag
def limit_words(host: Host) -> str | SafeString:
    """What a limit says of a host's link now; empty without one."""
    allowance = allowance_of(host)
    if allowance.bytes_per_second is None:
        return ""
    if not allowance.is_quiet:
        return _("limited to %(rate)s") % {"rate": bits_rate(allowance.bytes_per_second)}
    if allowance.until is None:
        return _("a limit says that nothing is transferred")
    return format_html(_("quiet hours: nothing is transferred until {time}"), time=moment(allowance.until))


@register.filter
def end_words(trial: Trial) -> str:
    """Why a trial ended; empty while it runs."""
    return str(_ENDS[TrialEnd(trial.ended_because)]) if trial.ended_because else ""


@register.filter
def levels_words(trial: Trial) -> str:
    """“4, 8 and 12 lanes”."""
    *first, last = [str(level) for level in trial.levels]
    return _("%(first)s and %(last)s lanes") % {"first": ", ".join(first), "last": last}


@register.filter
def answer_words(result: Result) -> str:
    """What a trial found, in a sentence."""
    top = ", ".join(str(lanes) for lanes in result.top)
    if result.answer is Answer.TOO_FEW:
        return _("Too few blocks are done to say anything: it takes three complete rounds.")
    if result.answer is Answer.NO_DIFFERENCE:
        return _("No difference was shown between these numbers of lanes; the fewest, %(lanes)s, are enough.") % {
            "lanes": result.advised
        }
    if result.answer is Answer.BETTER:
        return _("%(lanes)s lanes bring more than any other number compared.") % {"lanes": top}
    return _(
        "Of %(top)s lanes none is shown to be better, the others are worse; the fewest, %(lanes)s, are enough."
    ) % {
        "top": top,
        "lanes": result.advised,
    }


@register.filter
def difference_words(one: Difference) -> str:
    """Whether a difference is shown."""
    if not one.is_shown:
        return _("no difference shown")
    return _("%(lanes)s lanes bring more") % {"lanes": one.more if one.low > 0 else one.fewer}
