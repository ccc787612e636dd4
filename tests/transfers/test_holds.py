"""A hold ends by a person's word or by its condition: a time, all else opened, or a link that is fast enough."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from calculet.audit.models import Event
from calculet.http import new_act_key
from calculet.lifecycle import Actor
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from tests.transfers.factories import PlannedHost
from transfers.models import Build, BuildState, Pack
from transfers.selectors.board import board_of
from transfers.selectors.forecast import forecast_board
from transfers.services.orders import HoldUntil, holds_release_due, pack_hold, pack_release

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path)


def hold(pack: Pack, person: Person, **until: datetime | bool | int) -> None:
    pack_hold(pack=pack, reason="comes last", actor=Actor.of(person), until=HoldUntil(**until))  # type: ignore[arg-type]


def is_held(pack: Pack) -> bool:
    return Pack.objects.get(pk=pack.pk).on_hold


def test_a_hold_without_a_condition_waits_for_a_person(lab: PlannedHost, alice: Person) -> None:
    pack = lab.add("model", BuildState.PACKED)
    hold(pack, alice)
    assert holds_release_due() == 0 and is_held(pack)
    pack_release(pack=pack, actor=Actor.of(alice))
    assert not is_held(pack)


def test_a_time_ends_a_hold(lab: PlannedHost, alice: Person) -> None:
    soon, due = lab.add("soon", BuildState.PACKED), lab.add("due", BuildState.PACKED)
    hold(soon, alice, at=timezone.now() + timedelta(minutes=5))
    hold(due, alice, at=timezone.now() - timedelta(seconds=1))
    assert holds_release_due() == 1
    assert is_held(soon) and not is_held(due)
    event = Event.objects.order_by("-pk")[0]
    assert (event.act, json.loads(event.detail)["condition"]) == ("pack.release", "its time has come")
    assert holds_release_due() == 0


def test_parameters_wait_until_all_that_nobody_holds_is_opened(lab: PlannedHost, alice: Person) -> None:
    first, second, other = (lab.add(name, BuildState.PACKED) for name in ("first", "second", "other"))
    model = lab.add("model", BuildState.PACKED)
    hold(other, alice)
    hold(model, alice, rest=True)
    Build.objects.filter(pack=first).update(state=BuildState.OPENED)
    assert holds_release_due() == 0
    Build.objects.filter(pack=second).update(state=BuildState.VERIFIED)
    assert holds_release_due() == 0
    Build.objects.filter(pack=second).update(state=BuildState.OPENED)
    assert holds_release_due() == 1
    assert not is_held(model) and is_held(other)


def test_nothing_else_is_not_all_else(lab: PlannedHost, alice: Person) -> None:
    model = lab.add("model", BuildState.PACKED)
    hold(model, alice, rest=True)
    assert holds_release_due() == 0 and is_held(model)


def test_a_faster_link_ends_a_hold(lab: PlannedHost, alice: Person) -> None:
    model = lab.add("model", BuildState.PACKED)
    hold(model, alice, rate=500_000)
    assert holds_release_due() == 0
    lab.measure(bytes_per_second=400_000)
    assert holds_release_due() == 0
    lab.host.goodput_samples.update(new_bytes=500_000)
    assert holds_release_due() == 1 and not is_held(model)


def test_a_new_hold_begins_without_the_old_conditions(lab: PlannedHost, alice: Person) -> None:
    model = lab.add("model", BuildState.PACKED)
    hold(model, alice, at=timezone.now() - timedelta(days=1), rest=True, rate=5)
    pack_release(pack=model, actor=Actor.of(alice))
    hold(model, alice)
    assert holds_release_due() == 0
    found = Pack.objects.get(pk=model.pk)
    assert (found.hold_until_at, found.hold_until_rest, found.hold_until_rate) == (None, False, None)


def test_a_condition_is_refused_when_it_makes_no_sense_or_a_person_may_not(
    lab: PlannedHost, alice: Person, bob: Person
) -> None:
    model = lab.add("model", BuildState.PACKED)
    with pytest.raises(ValidationError):
        hold(model, alice, rate=0)
    with pytest.raises(NotAllowed):
        hold(model, bob, rest=True)
    assert not is_held(model)


def test_a_pack_that_waits_for_the_rest_is_forecast_behind_it(lab: PlannedHost, alice: Person) -> None:
    model, small = lab.add("model", BuildState.PACKED), lab.add("small", BuildState.PACKED)
    lab.measure(bytes_per_second=100_000)
    hold(model, alice, rest=True)
    board = forecast_board(board_of(lab.plan))
    times = {row.pack.name: row.times.expected_seconds for row in board.rows if row.times is not None}
    assert times == {"small": pytest.approx(42, rel=0.02), "model": pytest.approx(84, rel=0.02)}
    hold(small, alice)
    assert forecast_board(board_of(lab.plan)).rows[1].times is None


def test_the_page_takes_the_conditions_and_shows_them(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    pack = lab.add("model", BuildState.PACKED)
    form = {"reason": "comes last", "until_rest": "on", "until_kilobytes": "500", "until_at": "2031-05-01T10:00"}
    client = signed_in(alice)
    page = client.post("/packs/lab/model/hold/", {**form, "act_key": new_act_key()}, follow=True).content.decode()
    shown = " ".join(page.split()).replace("\xa0", " ")
    assert "It ends by itself: when everything else is opened; when the link brings 500 kB/s; at <time" in shown
    assert "It ends by itself" in client.get("/packs/").content.decode()
    found = Pack.objects.get(pk=pack.pk)
    assert (found.hold_until_rest, found.hold_until_rate) == (True, 500_000)
    assert found.hold_until_at is not None and found.hold_until_at.year == 2031
    pack_release(pack=found, actor=Actor.of(alice))
    refused = client.post("/packs/lab/model/hold/", {"reason": "x", "until_kilobytes": "-1", "act_key": new_act_key()})
    assert refused.status_code == 422 and not is_held(pack)
