"""What links measured lately: the pace now, the pace of the last minutes, and the points of a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.utils import timezone

from inventory.models import Host
from transfers.models import GoodputSample, LinkStatus

CHART_SECONDS = 600
BUCKET_SECONDS = 10
ESTIMATE_SECONDS = 300  # an estimate goes by the pace of this long
_ENOUGH_SECONDS = 5.0  # less than this measured is no pace
_STATUS_SECONDS = 15  # a link writes about once a second; after this long its figures are history


@dataclass(frozen=True, slots=True)
class Pace:
    """A host's goodput: distinct bytes that became durable.

    `now_bytes_per_second` is None while no link runs; `mean_bytes_per_second` is None until enough was measured in the
    last minutes. `buckets` holds bytes a second for each `BUCKET_SECONDS`, oldest first, ending at `at`.
    """

    host: Host
    at: datetime
    status: LinkStatus | None
    is_running: bool
    now_bytes_per_second: float | None
    mean_bytes_per_second: float | None
    measured_seconds: float
    buckets: tuple[float, ...] = field(default=())

    @property
    def has_chart(self) -> bool:
        """True when anything was measured in the chart's time."""
        return any(self.buckets)

    @property
    def highest_bytes_per_second(self) -> float:
        return max(self.buckets, default=0.0)

    @property
    def problem(self) -> str:
        """The link's last sentence, as long as the link is heard of."""
        return self.status.problem if self.status is not None else ""


def pace_of(host: Host, *, now: datetime | None = None) -> Pace:
    """The pace of one host from its samples."""
    at = now or timezone.now()
    status = LinkStatus.objects.filter(host=host).first()
    samples = list(
        GoodputSample.objects.filter(host=host, at__gt=at - timedelta(seconds=CHART_SECONDS), at__lte=at)
        .order_by("at")
        .values_list("at", "seconds", "new_bytes")
    )
    lately = [row for row in samples if row[0] > at - timedelta(seconds=ESTIMATE_SECONDS)]
    measured = sum(seconds for _at, seconds, _count in lately)
    total = sum(count for _at, _seconds, count in lately)
    is_running = status is not None and at - status.at < timedelta(seconds=_STATUS_SECONDS)
    return Pace(
        host=host,
        at=at,
        status=status,
        is_running=is_running,
        now_bytes_per_second=status.bytes_per_second if status is not None and is_running else None,
        mean_bytes_per_second=total / measured if total and measured >= _ENOUGH_SECONDS else None,
        measured_seconds=measured,
        buckets=_buckets(samples, at),
    )


def _buckets(samples: Sequence[tuple[datetime, float, int]], at: datetime) -> tuple[float, ...]:
    counts = [0] * (CHART_SECONDS // BUCKET_SECONDS)
    for sampled, _seconds, count in samples:
        age = (at - sampled).total_seconds()
        counts[len(counts) - 1 - min(int(age // BUCKET_SECONDS), len(counts) - 1)] += count
    return tuple(count / BUCKET_SECONDS for count in counts)
