"""Limits of links: by host and in all, by the hours of the week, kept with events and known to the link."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.leases.services import lease_acquire
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import Host
from tests.transfers.factories import PlannedHost, make_host
from transfers.engine.types import LaneReading, Sample
from transfers.ledger import RowLedger
from transfers.models import BuildState, LinkStatus
from transfers.selectors.allowance import allowance_of, rates_allowed
from transfers.selectors.board import boards
from transfers.selectors.overview import boards_silent
from transfers.selectors.work import hosts_to_link
from transfers.services.links import link_lease_name
from transfers.services.steering import limit_set
from transfers.windows import read_windows

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

MONDAY_NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    made = PlannedHost(alice, tmp_path)
    made.add("one", BuildState.FETCHING)
    return made


@pytest.fixture
def asks(alice: Person) -> Actor:
    return Actor.of(alice)


def _limit(
    host: Host | None, actor: Actor, *, rate: int | None = None, windows: str = "", time_zone: str = "UTC"
) -> None:
    limit_set(host=host, bytes_per_second=rate, windows=read_windows(windows), time_zone=time_zone, actor=actor)


def _status(name: str, *, rate: float, allowed: float | None, ago: float = 1.0, lanes: int = 1) -> Host:
    host = make_host(name)
    LinkStatus.objects.create(
        host=host,
        at=timezone.now() - timedelta(seconds=ago),
        bytes_per_second=rate,
        allowed_bytes_per_second=allowed,
        lanes=[{"number": number} for number in range(lanes)],
    )
    return host


def test_the_lower_of_the_hosts_limit_and_its_part_of_all_counts(lab: PlannedHost, asks: Actor) -> None:
    assert allowance_of(lab.host).bytes_per_second is None
    _limit(None, asks, rate=1_000_000)
    assert allowance_of(lab.host).bytes_per_second == 1_000_000 and allowance_of(lab.host).is_of_all
    _limit(lab.host, asks, rate=300_000)
    assert allowance_of(lab.host).bytes_per_second == 300_000 and not allowance_of(lab.host).is_of_all


def test_links_divide_the_limit_of_all_and_a_modest_one_leaves_the_rest(lab: PlannedHost, asks: Actor) -> None:
    _limit(None, asks, rate=900_000)
    _status("busy", rate=450_000, allowed=450_000)
    assert allowance_of(lab.host).bytes_per_second == 450_000
    _status("modest", rate=50_000, allowed=300_000)
    assert allowance_of(lab.host).bytes_per_second == pytest.approx((900_000 - 60_000) / 2)
    _status("ended", rate=0, allowed=300_000, lanes=0)
    _status("gone", rate=300_000, allowed=300_000, ago=60)
    assert allowance_of(lab.host).bytes_per_second == pytest.approx((900_000 - 60_000) / 2)


def test_three_links_settle_on_fair_parts_of_the_limit_of_all(asks: Actor) -> None:
    _limit(None, asks, rate=900_000)
    could = {"slow": 100_000.0, "fast": 5_000_000.0, "fastest": 9_000_000.0}
    hosts = {name: make_host(name) for name in could}
    brought: dict[str, float] = {}
    for _second in range(6):
        now = timezone.now()
        for name, host in hosts.items():
            allowed = allowance_of(host).bytes_per_second
            assert allowed is not None
            brought[name] = min(could[name], allowed)
            row = {"at": now, "bytes_per_second": brought[name], "allowed_bytes_per_second": allowed, "lanes": [{}]}
            LinkStatus.objects.update_or_create(host=host, defaults=row)
    assert brought["slow"] == 100_000
    assert brought["fast"] == pytest.approx(390_000, rel=0.02) and brought["fastest"] == pytest.approx(
        390_000, rel=0.02
    )
    assert sum(brought.values()) <= 900_000


def test_quiet_hours_start_no_link_and_end_a_running_one(lab: PlannedHost, asks: Actor) -> None:
    held = lease_acquire(name=link_lease_name(lab.host.pk))
    assert held is not None
    ledger = RowLedger(lab.host, held)
    assert ledger.directions().builds and hosts_to_link() == [lab.host]
    _limit(lab.host, asks, windows="daily 00:00-24:00 none")
    told = ledger.directions()
    assert not told.builds and not told.more_expected and hosts_to_link() == []
    _limit(lab.host, asks)
    assert ledger.directions().builds and hosts_to_link() == [lab.host]


def test_quiet_hours_are_said_on_the_board_and_are_no_fault(
    lab: PlannedHost, asks: Actor, alice: Person, signed_in: Callable[[Person], Client]
) -> None:
    client = signed_in(alice)
    assert boards_silent(boards()) and "quiet hours" not in client.get("/packs/").content.decode()
    _limit(lab.host, asks, windows="mon-sun 00:00-24:00 none\nmon 00:00-24:00 1 Mbit/s")
    assert not boards_silent(boards())
    assert "a limit says that nothing is transferred" in client.get("/packs/").content.decode()
    _limit(lab.host, asks, rate=250_000)
    assert "limited to 2.0 Mbit/s" in client.get("/packs/").content.decode()


def test_a_running_link_hears_of_a_limit_and_says_what_it_may(lab: PlannedHost, asks: Actor) -> None:
    held = lease_acquire(name=link_lease_name(lab.host.pk))
    assert held is not None
    ledger = RowLedger(lab.host, held)
    assert ledger.directions().bytes_per_second is None
    _limit(lab.host, asks, rate=200_000)
    assert ledger.directions().bytes_per_second == 200_000
    lane = LaneReading(0, "working", "", 1.0, 0.1, 0)
    for _ in range(40):
        ledger.directions()
        ledger.record_sample(Sample(1.0, 199_000, 199_000, (lane,), 0, 0), {})
    assert LinkStatus.objects.get(host=lab.host).allowed_bytes_per_second == 200_000
    assert lab.host.lane_decisions.count() == 1  # a rate that a limit holds says nothing about lanes


def test_forecasts_can_ask_what_will_be_allowed(lab: PlannedHost, asks: Actor) -> None:
    _limit(lab.host, asks, rate=1_000_000, windows="mon-fri 08:00-18:00 800 kbit/s", time_zone="Europe/Berlin")
    _limit(None, asks, windows="mon 20:00-22:00 none")
    hours = (0, 5, 5.5, 9, 24)
    moments = [MONDAY_NOON + timedelta(hours=hour) for hour in hours]
    assert rates_allowed(lab.host, moments) == [100_000, 1_000_000, 1_000_000, 0, 100_000]
    allowance = allowance_of(lab.host, at=MONDAY_NOON)
    assert allowance.until == MONDAY_NOON + timedelta(hours=5)


def test_each_change_is_one_event_and_no_change_is_none(lab: PlannedHost, asks: Actor, bob: Person) -> None:
    for _ in range(2):
        _limit(lab.host, asks, rate=250_000, windows="daily 22:00-06:00 none", time_zone="Asia/Shanghai")
    (event,) = Event.objects.filter(act="limit.set")
    assert "daily 22:00-06:00 none" in event.detail and "Asia/Shanghai" in event.detail
    assert event.host == lab.host.name
    with pytest.raises(NotAllowed):
        _limit(lab.host, Actor.of(bob), rate=None)


@pytest.mark.parametrize(
    ("rate", "zone", "why"), [(100, "UTC", "64 kbit"), (2**41, "UTC", "64 kbit"), (None, "Mars/X", "no time zone")]
)
def test_a_limit_that_makes_no_sense_is_refused(
    lab: PlannedHost, asks: Actor, rate: int | None, zone: str, why: str
) -> None:
    with pytest.raises(ValidationError, match=why):
        _limit(lab.host, asks, rate=rate, time_zone=zone)
    assert not Event.objects.filter(act="limit.set").exists()
