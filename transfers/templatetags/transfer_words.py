"""Words of the transfers pages: chunks, lanes, what differs, and counts in groups. `{% load transfer_words %}`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from calculet.pages.templatetags.shown import NOTHING, bytes_rate, bytes_short, duration, moment
from transfers.forecast.advice import Why
from transfers.forecast.goodput import Alike, Goodput, LanePace
from transfers.forecast.simulate import Times
from transfers.models import Pack
from transfers.selectors.advice import AdvisedRow, Gain
from transfers.selectors.chunks import HERE, MISSING, PART, PROVEN, WRONG
from transfers.selectors.paces import HostPaces

register = template.Library()
_SAME_SHARE = 0.005  # of the time: less is the noise of a forecast
_FAR_SECONDS = 10 * 365 * 86_400.0

_CHUNK_CLASSES = {PROVEN: "v", HERE: "h", PART: "b", WRONG: "x", MISSING: ""}
_CHUNK_WORDS = {
    PROVEN: gettext_lazy("proven"),
    HERE: gettext_lazy("here, not proven yet"),
    PART: gettext_lazy("here in part"),
    WRONG: gettext_lazy("wrong, fetched again"),
    MISSING: gettext_lazy("missing"),
}
_LANE_WORDS = {
    "dialling": pgettext_lazy("lane", "connecting"),
    "working": pgettext_lazy("lane", "working"),
    "waiting": pgettext_lazy("lane", "waiting for work"),
    "redialling": pgettext_lazy("lane", "connecting again"),
    "closed": pgettext_lazy("lane", "closed"),
}
_ORDER_WORDS = {
    "in_force": gettext_lazy("order in force"),
    "advised": gettext_lazy("advice"),
    "largest_first": gettext_lazy("largest first"),
    "dragged": gettext_lazy("as it would be here"),
}
_FIELD_WORDS = {
    "mode": gettext_lazy("mode"),
    "resources": gettext_lazy("resources"),
    "include rules": gettext_lazy("what goes in"),
    "exclude rules": gettext_lazy("what stays out"),
    "chunk size": gettext_lazy("chunk size"),
    "list of files": gettext_lazy("list of files"),
    "names": gettext_lazy("the names that it is bound to"),
    "left to others": gettext_lazy("what is left to other packs"),
    "already here": gettext_lazy("what is already here"),
}


@register.filter
def group(count: int | None) -> str:
    """A count in groups of three figures; a dash when it is not known."""
    return NOTHING if count is None else f"{int(count):,}"


@register.filter
def files_words(count: int) -> str:
    """“1 file”, “1,234 files”."""
    return ngettext("%(count)s file", "%(count)s files", count) % {"count": group(count)}


@register.filter
def entries_words(count: int) -> str:
    """“1 entry”, “1,234 entries”."""
    return ngettext("%(count)s entry", "%(count)s entries", count) % {"count": group(count)}


@register.filter
def members_words(count: int) -> str:
    """“1 member”, “1,234 members”."""
    return ngettext("%(count)s member", "%(count)s members", count) % {"count": group(count)}


@register.filter
def mebibytes(count: int | None) -> str:
    """A chunk size in MiB, the unit in which it is chosen."""
    return NOTHING if count is None else _("%(count)s MiB") % {"count": f"{count / 2**20:g}"}


@register.filter
def chunk_class(state: str) -> str:
    """The class of a chunk's square."""
    return _CHUNK_CLASSES.get(state, "")


@register.filter
def chunk_words(state: str) -> str:
    """A chunk's state in words."""
    return str(_CHUNK_WORDS.get(state, state))


@register.filter
def lane_words(state: str) -> str:
    """A lane's state in words."""
    return str(_LANE_WORDS.get(state, state))


@register.filter
def field_words(name: str) -> str:
    """What differs between two items, in words."""
    return str(_FIELD_WORDS.get(name, name))


@register.simple_tag
def times_words(times: Times | None, at: datetime | None, none: str = "") -> str | SafeString:
    """“expected in 2 h 5 min, likely by 18:40”; `none` when no time can be given."""
    return none if times is None or at is None else times_writer(at)(times)


def times_writer(at: datetime) -> Callable[[Times], SafeString]:
    """What writes times that count from `at`: for a thousand packs, words are looked up once."""
    expected, likely = escape(_("expected in %(time)s")), escape(_("likely by"))

    def write(times: Times) -> SafeString:
        words = expected % {"time": escape(duration(times.expected_seconds))}
        if times.likely_by_seconds > _FAR_SECONDS:
            return format_html("{}, {}", SafeString(words), _("likely by a day more than ten years from now"))
        by = moment(at + timedelta(seconds=times.likely_by_seconds))
        return SafeString(f'{words}, <span class="nowrap">{likely} {by}</span>')

    return write


@register.simple_tag
def basis_words(paces: HostPaces | None) -> str:
    """What a host's times go by, in a sentence."""
    goodput = paces.goodput if paces is not None else None
    if goodput is None:
        return _("Nothing was measured in the last hours and no rate is stated, so no time can be given.")
    if goodput.basis == "stated":
        return _("Nothing is measured behind these times: they go by the stated %(rate)s.") % {
            "rate": bytes_rate(goodput.mean)
        }
    figures = {
        "rate": bytes_rate(goodput.mean),
        "slow": bytes_rate(goodput.share_slower(0.1)),
        "time": duration(goodput.measured_seconds),
        "count": goodput.lanes,
    }
    if goodput.alike is Alike.LANES:
        words = _(
            "Times go by what was measured over %(time)s of the last hours with the %(count)s lanes that are set: "
            "%(rate)s on average, in the slowest tenth %(slow)s or less."
        )
    else:
        words = _(
            "Times go by what was measured over %(time)s of the last hours: %(rate)s on average, in the slowest tenth "
            "%(slow)s or less."
        )
    return " ".join([words % figures, *(one % figures for one in _unlike(goodput))])


def _unlike(goodput: Goodput) -> list[str]:
    """What forecasts are drawn from for want of what is set, in sentences."""
    found = []
    if goodput.alike is Alike.HOST:
        found.append(
            _("Too little was measured over the channel in use, so other channels count too; that leaves more open.")
        )
    elif goodput.alike is Alike.CHANNEL and goodput.lanes is not None:
        found.append(
            _("Too little was measured with the %(count)s lanes that are set, so every number of lanes counts.")
        )
    if goodput.is_limited:
        found.append(_("A bandwidth limit held some of it back, so the link may be faster."))
    return found


@register.simple_tag
def pace_words(pace: LanePace, paces: HostPaces) -> str:
    """What a channel brought with a number of lanes: “8 lanes: 70 kB/s over 3 h 2 min”."""
    figures = {"count": pace.lanes, "rate": bytes_rate(pace.bytes_per_second), "time": duration(pace.seconds)}
    words = ngettext("%(count)s lane: %(rate)s over %(time)s", "%(count)s lanes: %(rate)s over %(time)s", pace.lanes)
    known = {one.channel for one in paces.goodput.by_lanes} if paces.goodput is not None else set()
    if len(known) < 2:
        return words % figures
    name = paces.channels.get(pace.channel or 0, _("a channel that is not there any more"))
    return f"{name}, {words % figures}"


@register.simple_tag
def limits_words(paces: HostPaces) -> str:
    """That bandwidth limits are kept to in the times; nothing where there is none."""
    limits = paces.paces.limits if paces.paces is not None else None
    if limits is None:
        return ""
    if len(limits.rates) == 1:
        return _("No faster than the limit of %(rate)s.") % {"rate": bytes_rate(limits.rates[0])}
    return _("No faster than the limits allow at each hour of the week ahead, and so week by week.")


@register.simple_tag
def why_words(one: AdvisedRow) -> str:
    """Why a pack stands where the advice puts it, in a sentence."""
    left, need = bytes_short(one.row.left_bytes), one.advised.need
    figures = {"need": need, "left": left, "tier": one.tier, "value": f"{one.advised.value:,.3g}"}
    match one.advised.why:
        case Why.NEEDED:
            return _("“%(need)s” needs it, and %(left)s are left.") % figures
        case Why.TIER:
            return _("Its tier %(tier)s stays before the worse tier of a pack that “%(need)s” needs.") % figures
        case Why.NEXT:
            return _("After the aim, “%(need)s” needs it; %(left)s are left.") % figures
        case Why.NEARLY_DONE:
            return _("More than half of it is here: the %(left)s left make all of it usable.") % figures
        case Why.VALUE:
            return _("By value: %(value)s weighted bytes become usable for each byte still to come.") % figures
        case Why.KEPT if one.row.pack.on_hold and one.row.pack.hold_until_rest:
            return _("It is on hold until everything else is opened, so it keeps its place.")
        case Why.KEPT:
            return _("Nothing moves it at present, so it keeps its place.")


@register.filter
def earlier_words(gain: Gain) -> str:
    """What an order changes for a capability: “2 h 10 min earlier”."""
    if gain.now is None or gain.then is None:
        return _("no time in either order")
    seconds = gain.earlier_seconds
    if abs(seconds) < _SAME_SHARE * max(gain.now.expected_seconds, 60.0):
        return _("as now")
    time = duration(abs(seconds))
    return _("%(time)s earlier") % {"time": time} if seconds > 0 else _("%(time)s later") % {"time": time}


@register.filter
def order_words(kind: str) -> str:
    """What an order of the value curve is called."""
    return str(_ORDER_WORDS.get(kind, kind))


@register.filter
def duration_tick(seconds: float) -> str:
    """A round time in one unit, for an axis: “10 min”."""
    for count, words in ((86_400, _("%(count)s d")), (3600, _("%(count)s h")), (60, _("%(count)s min"))):
        if seconds >= count:
            return words % {"count": int(seconds // count)}
    return _("%(count)s s") % {"count": int(seconds)}


@register.simple_tag
def hold_words(pack: Pack) -> str | SafeString:
    """What ends a hold by itself: “ends by itself when everything else is opened”; nothing when only a person does."""
    ways: list[str] = []
    if pack.hold_until_rest:
        ways.append(_("when everything else is opened"))
    if pack.hold_until_rate:
        ways.append(_("when the link brings %(rate)s") % {"rate": bytes_rate(pack.hold_until_rate)})
    if pack.hold_until_at:
        ways.append(format_html("{} {}", _("at"), moment(pack.hold_until_at)))
    if not ways:
        return ""
    return format_html("{} {}", _("It ends by itself:"), format_html_join("; ", "{}", ((way,) for way in ways)))
