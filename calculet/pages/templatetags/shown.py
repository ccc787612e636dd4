"""How bytes, digests, times and states are shown, on every page alike. A builtin: templates need no {% load %}.

{{ build.size_bytes|bytes_short }}      16.3 GB        {{ …|bytes_exact }}    16,312,044,121 bytes
{% size build.size_bytes %}             short, with the exact figure as its title
{% digest build.sha256 %}               9f3c41d2…a71e with a copy button
{% moment scan.finished_at %}           <time> in UTC; times.js makes it local
{{ seconds|duration }}                  1 h 12 min
{{ rate|bytes_rate }}                   211 kB/s
{% state build.state build.get_state_display %}     word, shape and colour
{% tier resource.tier.position resource.tier.name %}
{% act_key %}                           the hidden field that makes a form's act happen once
"""

from __future__ import annotations

from datetime import UTC, datetime

from django import template
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from calculet.http import ACT_KEY_FIELD, new_act_key

register = template.Library()

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_SHORT_DIGEST = 8
NOTHING = "–"


@register.filter
def bytes_short(count: float | None) -> str:
    """A number of bytes in three figures and a decimal unit; a dash when it is not known."""
    if count is None:
        return NOTHING
    size, unit = float(count), 0
    # 999.5 would be rounded to a four-figure number, so it already belongs to the next unit.
    while abs(size) >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    places = 0 if unit == 0 or abs(size) >= 99.95 else 1 if abs(size) >= 9.995 else 2
    return f"{number_format(round(size, places), decimal_pos=places, force_grouping=False)}\u00a0{_UNITS[unit]}"


@register.filter
def bytes_exact(count: int | None) -> str:
    """Every figure of a number of bytes, in groups."""
    if count is None:
        return NOTHING
    return ngettext("%(count)s byte", "%(count)s bytes", int(count)) % {"count": f"{int(count):,}"}


@register.filter
def bytes_rate(bytes_per_second: float | None) -> str:
    """Bytes a second in three figures; a dash when it is not known."""
    return NOTHING if bytes_per_second is None else f"{bytes_short(bytes_per_second)}/s"


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds in the two largest units that say something."""
    if seconds is None:
        return NOTHING
    left = max(round(float(seconds)), 0)
    days, hours, minutes = left // 86_400, left % 86_400 // 3600, left % 3600 // 60
    if days:
        return _("%(days)s d %(hours)s h") % {"days": days, "hours": hours}
    if hours:
        return _("%(hours)s h %(minutes)s min") % {"hours": hours, "minutes": minutes}
    if minutes:
        return _("%(minutes)s min %(seconds)s s") % {"minutes": minutes, "seconds": left % 60}
    return _("%(seconds)s s") % {"seconds": left}


@register.filter
def percent(part: float | None, whole: float | None) -> str:
    """A part of a whole in per cent, rounded down: 100 % means all of it."""
    if part is None or not whole:
        return NOTHING
    return f"{int(part * 100 // whole)}\u00a0%"


@register.simple_tag
def size(count: int | None) -> SafeString:
    """A short size whose title is the exact one."""
    if count is None:
        return SafeString(NOTHING)
    return format_html('<span class="nowrap" title="{}">{}</span>', bytes_exact(count), bytes_short(count))


@register.simple_tag
def digest(value: str | bytes | memoryview | None, what: str = "SHA-256") -> SafeString:
    """A digest's two ends, and a button that copies all of it."""
    if not value:
        return SafeString(NOTHING)
    text = value if isinstance(value, str) else bytes(value).hex()
    short = f"{text[:_SHORT_DIGEST]}…{text[-4:]}" if len(text) > 2 * _SHORT_DIGEST else text
    return format_html(
        '<span class="digest"><code title="{what} {text}">{short}</code>'
        '<button type="button" class="copy" data-copy="{text}" aria-label="{label}"></button></span>',
        what=_(what),
        text=text,
        short=short,
        label=_("Copy %(what)s") % {"what": _(what)},
    )


@register.simple_tag
def moment(at: datetime | None, none: str = NOTHING) -> str | SafeString:
    """A time in UTC that times.js makes local."""
    if at is None:
        return none
    utc = at.astimezone(UTC)
    # Nothing but figures goes in, so nothing is escaped: boards have thousands of these.
    return SafeString(f'<time datetime="{utc.isoformat(timespec="seconds")}">{utc:%Y-%m-%d %H:%M} UTC</time>')


@register.simple_tag
def state(name: str, words: str = "") -> SafeString:
    """A state as word, shape and colour."""
    return format_html('<span class="state {}">{}</span>', name, _(words or str(name).replace("_", " ")))


@register.simple_tag
def tier(position: int | None, name: str = "") -> SafeString:
    """A tier's chip; its name is read out and shown as the title."""
    if position is None:
        return format_html('<span class="tier" title="{0}" aria-label="{0}">?</span>', _("no tier yet"))
    label = _("tier %(position)s") % {"position": position}
    spoken = f"{label}: {name}" if name else label
    return format_html(
        '<span class="tier t{0}" role="img" title="{1}" aria-label="{1}">{0}</span>', int(position), spoken
    )


@register.simple_tag
def act_key() -> SafeString:
    """The hidden field whose key a view passes to `claim_act`."""
    return format_html('<input type="hidden" name="{}" value="{}">', ACT_KEY_FIELD, new_act_key())
