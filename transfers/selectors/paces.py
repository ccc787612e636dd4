"""What forecasts of a host are drawn from: goodput of the last hours, and how former builds were packed and proven."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import F
from django.utils import timezone

from inventory.models import Host
from transfers.forecast.futures import Paces
from transfers.forecast.goodput import LOOK_BACK_SECONDS, Goodput, Reading, measured_goodput, stated_goodput
from transfers.forecast.limits import WEEK_SECONDS, Limits
from transfers.models import Build, GoodputMinute, LaneSetting, Mode, Plan
from transfers.selectors.allowance import limit_of, rates_allowed, weekly_limit

ASSUMED_PACKING_RATE = 20e6  # bytes a second, read and compressed on the host, before any pack was made there
ASSUMED_PROOF_RATE = 100e6  # bytes a second, read back and opened here
_HISTORY = 50  # builds
_TELLING_BYTES = 10**6  # a smaller build's time says nothing of a pace


@dataclass(frozen=True, slots=True)
class HostPaces:
    """What a host's forecast is drawn from; `paces` is None when no goodput is measured and none stated.

    The `is_…_assumed` are true when nothing of the kind was seen on this host yet.
    """

    at: datetime
    goodput: Goodput | None
    paces: Paces | None
    is_share_assumed: bool
    is_packing_assumed: bool
    is_proof_assumed: bool
    channels: Mapping[int, str] = field(default_factory=dict)  # how each is called, by its key

    @property
    def share(self) -> float:
        """The share of their size that packs are taken to shrink to, in the middle."""
        shares = sorted(self.paces.shares) if self.paces is not None else [1.0]
        return shares[len(shares) // 2]


def paces_of(plan: Plan, *, rate: float | None = None, at: datetime | None = None) -> HostPaces:
    """What forecasts of the plan's host are drawn from. `rate` in bytes a second is asked for in place of any other."""
    now = at or timezone.now()
    goodput = stated_goodput(rate) if rate is not None else measured_on(plan.host, now)
    if goodput is None and plan.stated_bytes_per_second:
        goodput = stated_goodput(plan.stated_bytes_per_second)
    shares, packing, proof = _shares(plan), _packing_rates(plan), _proof_rates(plan)
    is_share_assumed = not shares
    if is_share_assumed:
        percent = plan.stated_packed_percent
        shares = (1.0 if percent is None else percent / 100,)
    paces = None
    if goodput is not None:
        limits = limits_ahead(plan.host, now)
        paces = Paces(goodput, shares, packing or (ASSUMED_PACKING_RATE,), proof or (ASSUMED_PROOF_RATE,), limits)
    channels = {channel.pk: str(channel) for channel in plan.host.channels.all()}
    return HostPaces(now, goodput, paces, is_share_assumed, not packing, not proof, channels)


def measured_on(host: Host, at: datetime) -> Goodput | None:
    """The goodput of the last hours, in whole minutes; None when too little was measured."""
    end = at.replace(second=0, microsecond=0)
    begin = end - timedelta(seconds=LOOK_BACK_SECONDS)
    rows = GoodputMinute.objects.filter(host=host, at__gte=begin, at__lt=end).order_by("at")
    columns = rows.values_list("at", "seconds", "new_bytes", "lanes", "channel", "is_limited")
    readings = [
        Reading(_minute(minute), seconds, count, lanes, channel, is_limited)
        for minute, seconds, count, lanes, channel, is_limited in columns
    ]
    setting = LaneSetting.objects.filter(host=host).first()
    channel = host.channels.order_by("position").first()
    return measured_goodput(
        readings,
        had_work=_spans_with_work(host, begin, end),
        lanes=_level(setting),
        channel=channel.pk if channel is not None else None,
    )


def _level(setting: LaneSetting | None) -> int | None:
    """The number of lanes that a person set; None where they are steered."""
    if setting is None or setting.level is None:
        return None
    return setting.level if setting.most is None else min(setting.level, setting.most)


def limits_ahead(host: Host, at: datetime) -> Limits | None:
    """What bandwidth limits allow from a time on, for a week; None where nothing is limited."""
    both = [weekly_limit(limit_of(one)) for one in (host, None)]
    if all(one.bytes_per_second is None and not one.windows for one in both):
        return None
    begin = at.replace(second=0, microsecond=0)
    moments, end = {begin}, begin + timedelta(seconds=WEEK_SECONDS)
    for limit in both:
        change = limit.next_change(begin)
        while change is not None and change < end:
            moments.add(change)
            change = limit.next_change(change)
    rising = sorted(moments)
    rates = rates_allowed(host, rising)
    return Limits(
        tuple((moment - begin).total_seconds() for moment in rising),
        tuple(math.inf if rate is None else float(rate) for rate in rates),
    )


def _minute(at: datetime) -> int:
    return int(at.timestamp()) // 60


def _spans_with_work(host: Host, begin: datetime, end: datetime) -> list[tuple[int, int]]:
    """Minutes in which a build lay packed on the host and had not wholly arrived."""
    builds = Build.objects.filter(pack__plan__host=host, packed_at__lt=end)
    done = builds.filter(received_at__gte=begin).values_list("packed_at", "received_at")
    under_way = builds.filter(received_at__isnull=True, state__in=["packed", "fetching"])
    free = under_way.filter(pack__is_paused=False, pack__on_hold=False).values_list("packed_at", flat=True)
    spans = [*done, *((packed, end) for packed in free)]
    return [(_minute(first), _minute(last)) for first, last in spans if first is not None and last is not None]


def _shares(plan: Plan) -> tuple[float, ...]:
    """What archives shrank to, by the share of their members' bytes; shares above one are packed overhead."""
    rows = (
        Build.objects.filter(pack__plan=plan, mode=Mode.ARCHIVE, size_bytes__gt=0, packed_at__isnull=False)
        .filter(entry_list__total_bytes__gte=_TELLING_BYTES)
        .order_by("-packed_at")
        .values_list("size_bytes", "entry_list__total_bytes")[:_HISTORY]
    )
    return tuple((size or 0) / total for size, total in rows)


def _packing_rates(plan: Plan) -> tuple[float, ...]:
    rows = (
        Build.objects.filter(pack__plan=plan, packed_at__gt=F("packing_began_at"))
        .order_by("-packed_at")
        .values_list("entry_list__total_bytes", "packing_began_at", "packed_at")[:_HISTORY]
    )
    return _rates(rows)


def _proof_rates(plan: Plan) -> tuple[float, ...]:
    rows = (
        Build.objects.filter(pack__plan=plan, opened_at__gt=F("received_at"))
        .order_by("-opened_at")
        .values_list("size_bytes", "received_at", "opened_at")[:_HISTORY]
    )
    return _rates(rows)


def _rates(rows: Iterable[tuple[int | None, datetime | None, datetime | None]]) -> tuple[float, ...]:
    return tuple(
        count / (after - before).total_seconds()
        for count, before, after in rows
        if count and count >= _TELLING_BYTES and before is not None and after is not None
    )
