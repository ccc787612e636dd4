"""What limits allow a host's link at a moment: its own, and its part of the limit of all links together.

Links divide that limit by themselves, from the same rows: each reads what the others bring (`LinkStatus`, written every
second) and takes what they leave. A link that brings clearly less than it may keeps what it brings and a fifth more;
the others share the rest in equal parts. After a change the sum may be exceeded for the second or two in which the
others read of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import timezone

from inventory.models import Host
from transfers.engine.pace import fair_share
from transfers.models import EVERYTHING, BandwidthLimit, LaneSetting, LinkStatus
from transfers.windows import WeeklyLimit, Window

_RUNNING_SECONDS = 5.0  # a link that runs writes its row every second
_MODEST = 0.8  # of what it may: a link that brings less than this leaves the rest to others
_ROOM = 1.2
_LEAST_SHARE = 8_000.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """Bytes a second that a link may bring now (None: no limit, 0: nothing), and whose limit says so."""

    bytes_per_second: float | None
    is_of_all: bool = False  # the limit of all links is the one that counts
    until: datetime | None = None  # when the limits say something else, as far as windows tell

    @property
    def is_quiet(self) -> bool:
        """True when nothing may be transferred."""
        return self.bytes_per_second == 0


def weekly_limit(limit: BandwidthLimit | None) -> WeeklyLimit:
    """A limit's row as what can be asked for a moment; without a row nothing is limited."""
    if limit is None:
        return WeeklyLimit(None, (), ZoneInfo("UTC"))
    windows = tuple(Window.from_json(row) for row in limit.windows)
    return WeeklyLimit(limit.bytes_per_second, windows, ZoneInfo(limit.time_zone))


def limit_of(host: Host | None) -> BandwidthLimit | None:
    """The limit of a host, or of all links together."""
    if host is None:
        return BandwidthLimit.objects.filter(scope=EVERYTHING).first()
    return BandwidthLimit.objects.filter(host=host).first()


def allowance_of(host: Host, *, at: datetime | None = None) -> Allowance:
    """What the host's link may bring now."""
    now = at or timezone.now()
    own, everything = weekly_limit(limit_of(host)), weekly_limit(limit_of(None))
    mine, total = own.allowed(now), everything.allowed(now)
    changes = [change for change in (own.next_change(now), everything.next_change(now)) if change is not None]
    part = total if total is None or not total else _part_of(float(total), host, now)
    is_of_all = part is not None and (mine is None or part < mine)
    return Allowance(part if is_of_all else mine, is_of_all, min(changes, default=None))


def _part_of(total: float, host: Host, now: datetime) -> float:
    running = LinkStatus.objects.filter(at__gt=now - timedelta(seconds=_RUNNING_SECONDS)).exclude(host=host)
    others = [_wish(status) for status in running if status.lanes]
    return max(_LEAST_SHARE, fair_share(total, others))


def _wish(status: LinkStatus) -> float | None:
    """What another link takes of the whole; None when it takes all it gets."""
    allowed = status.allowed_bytes_per_second
    if allowed is None or status.bytes_per_second >= _MODEST * allowed:
        return None
    return status.bytes_per_second * _ROOM


def is_quiet(host: Host, *, at: datetime | None = None) -> bool:
    """True while a window of the host, or of all links, says that nothing is transferred."""
    return allowance_of(host, at=at).is_quiet


def rates_allowed(host: Host, moments: Sequence[datetime]) -> list[int | None]:
    """For forecasts: bytes a second that limits allow at each moment (None: no limit, 0: nothing).

    The limit of all links is taken whole: which other links will run then, nobody knows.
    """
    own, everything = weekly_limit(limit_of(host)), weekly_limit(limit_of(None))
    pairs = ((own.allowed(at), everything.allowed(at)) for at in moments)
    return [min((rate for rate in pair if rate is not None), default=None) for pair in pairs]


def lanes_at_most(host: Host) -> int:
    """The largest number of lanes that steering and trials may use on a host."""
    return lanes_under(LaneSetting.objects.filter(host=host).first())


def lanes_under(setting: LaneSetting | None) -> int:
    """The same from a host's row, if it has one."""
    most = setting.most if setting is not None else None
    return min(settings.LANES_AT_MOST, most) if most is not None else settings.LANES_AT_MOST
