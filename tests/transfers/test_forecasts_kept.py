"""A forecast is kept when work on a pack begins, and compared with what happened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from calculet.people.models import Person
from tests.transfers.factories import PlannedHost
from transfers.models import Build, BuildState, KeptForecast, Pack
from transfers.selectors.calibration import calibration_of
from transfers.services.forecasts import forecasts_keep

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path)


def keep(pack: Pack, taken_seconds: float | None, *, made_ago: float = 1000, basis: str = "measured") -> KeptForecast:
    """A forecast of 100 s expected and 200 s likely; the pack was opened after `taken_seconds` (None: not yet)."""
    build, made = pack.builds.get(), timezone.now() - timedelta(seconds=made_ago)
    if taken_seconds is not None:
        Build.objects.filter(pk=build.pk).update(opened_at=made + timedelta(seconds=taken_seconds))
    return KeptForecast.objects.create(
        build=build,
        made_at=made,
        expected_at=made + timedelta(seconds=100),
        likely_by_at=made + timedelta(seconds=200),
        basis=basis,
        bytes_per_second=1e5,
    )


def test_a_forecast_is_kept_once_for_each_pack_that_has_begun(lab: PlannedHost) -> None:
    begun = lab.add("begun", BuildState.FETCHING)
    lab.add("planned")
    lab.add("done", BuildState.OPENED)
    lab.add("held", BuildState.PACKED, on_hold=True)
    assert forecasts_keep() == 0  # nothing is measured and nothing is stated
    lab.measure(bytes_per_second=100_000)
    assert forecasts_keep() == 1
    kept = KeptForecast.objects.get()
    assert (kept.build.pack, kept.basis) == (begun, "measured")
    assert kept.bytes_per_second == pytest.approx(100_000)
    assert (kept.expected_at - kept.made_at).total_seconds() == pytest.approx(42, rel=0.02)
    assert kept.likely_by_at > kept.expected_at
    assert forecasts_keep() == 0
    assert KeptForecast.objects.get() == kept


def test_a_stated_rate_is_kept_as_that(lab: PlannedHost) -> None:
    lab.add("begun", BuildState.PACKED)
    lab.plan.stated_bytes_per_second = 70_000
    lab.plan.save()
    assert forecasts_keep() == 1
    assert KeptForecast.objects.get().basis == "stated"


def test_likely_by_times_are_counted_by_whether_they_held(lab: PlannedHost) -> None:
    for name, taken in (("early", 50), ("late", 150), ("missed", 400)):
        keep(lab.add(name, BuildState.OPENED), taken)
    keep(lab.add("guess", BuildState.OPENED), 999, basis="stated")
    found = calibration_of(lab.host)
    assert found.measured is not None and found.stated is not None
    assert (found.measured.count, found.measured.held, found.measured.within_expected) == (3, 2, 1)
    assert found.measured.ratio == pytest.approx(1.5)
    assert (found.stated.count, found.stated.held) == (1, 0)


def test_what_is_overdue_is_missed_unless_somebody_keeps_it_back(lab: PlannedHost) -> None:
    keep(lab.add("overdue", BuildState.FETCHING), None)
    keep(lab.add("under-way", BuildState.FETCHING), None, made_ago=150)
    keep(lab.add("paused", BuildState.FETCHING, is_paused=True), None)
    keep(lab.add("replaced", BuildState.REPLACED), None)
    found = calibration_of(lab.host)
    assert [(row.pack_name, row.ended_at, row.kept.has_held) for row in found.rows] == [("overdue", None, False)]


def test_the_page_tells_how_forecasts_turned_out(
    signed_in: Callable[[Person], Client], bob: Person, lab: PlannedHost
) -> None:
    def page() -> str:
        response = signed_in(bob).get("/plans/lab/forecast/")
        assert response.status_code == 200
        return " ".join(response.content.decode().split())

    assert "No forecast has come to its end yet." in page()
    keep(lab.add("early", BuildState.OPENED), 50)
    keep(lab.add("overdue", BuildState.FETCHING), None)
    text = page()
    assert "By measured goodput: 1 of 2 likely-by times held (50 %; 90 % are meant to)." in text
    assert "16 min 40 s and more" in text and "missed" in text
