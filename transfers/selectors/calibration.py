"""Forecasts that were kept, beside what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from inventory.models import Host
from transfers.forecast.calibration import Calibration, Kept, calibrate
from transfers.models import BuildState, KeptForecast


@dataclass(frozen=True, slots=True)
class KeptRow:
    """One forecast and what came of it. `ended_at` is None while it is overdue: past its likely-by time, not opened."""

    forecast: KeptForecast
    ended_at: datetime | None
    kept: Kept

    @property
    def pack_name(self) -> str:
        return self.forecast.build.pack.name


@dataclass(frozen=True, slots=True)
class HostCalibration:
    """All of a host's forecasts that can be judged, newest first, and what each basis was worth."""

    rows: tuple[KeptRow, ...]
    measured: Calibration | None
    stated: Calibration | None


def calibration_of(host: Host, *, at: datetime | None = None) -> HostCalibration:
    """Forecasts of builds that are opened, or overdue though nobody paused or held them; replaced ones are left out."""
    now = at or timezone.now()
    overdue = Q(
        build__opened_at__isnull=True,
        likely_by_at__lt=now,
        build__pack__is_paused=False,
        build__pack__on_hold=False,
    )
    found = (
        KeptForecast.objects.filter(build__pack__plan__host=host)
        .filter(Q(build__opened_at__isnull=False) | overdue)
        .exclude(build__state=BuildState.REPLACED)
        .select_related("build__pack")
        .defer("build__source_identity", "build__deviations")
        .order_by("-made_at")
    )
    rows = tuple(_row(one, now) for one in found)
    return HostCalibration(rows, _calibrated(rows, "measured"), _calibrated(rows, "stated"))


def _row(one: KeptForecast, now: datetime) -> KeptRow:
    ended = one.build.opened_at
    kept = Kept(
        expected_seconds=(one.expected_at - one.made_at).total_seconds(),
        likely_by_seconds=(one.likely_by_at - one.made_at).total_seconds(),
        taken_seconds=((ended or now) - one.made_at).total_seconds(),
    )
    return KeptRow(one, ended, kept)


def _calibrated(rows: Sequence[KeptRow], basis: str) -> Calibration | None:
    return calibrate(row.kept for row in rows if row.forecast.basis == basis)
