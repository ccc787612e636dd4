"""Pages say when a pack and a capability will be usable, what that goes by, and ask for no more than a look."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from calculet.audit.models import Event
from calculet.http import ACT_KEY_FIELD, new_act_key
from calculet.people.models import Person
from inventory.models import Channel
from tests.transfers.factories import MEBIBYTE, PlannedHost
from transfers.models import EVERYTHING, BandwidthLimit, Build, BuildState, GoodputMinute, LaneSetting, Pack, Plan
from transfers.selectors.board import board_of
from transfers.selectors.forecast import forecast_board
from transfers.selectors.paces import paces_of

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path)


def words(response: HttpResponse | Any) -> str:
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def order_of(lab: PlannedHost) -> list[str]:
    return list(lab.plan.packs.order_by("position").values_list("name", flat=True))


def times_of(lab: PlannedHost, order: list[Pack] | None = None) -> dict[str, float]:
    board = forecast_board(board_of(lab.plan), order=[pack.pk for pack in order] if order else None)
    return {row.pack.name: row.times.expected_seconds for row in board.rows if row.times is not None}


def test_before_anything_is_measured_no_time_is_given_and_a_rate_can_be_stated(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    pack = lab.add("sdk", BuildState.FETCHING, chunk_count=10)
    lab.capability("Read it", [pack])
    client, address = signed_in(alice), reverse("transfers:forecast", args=["lab"])
    assert "no rate is stated, so no time can be given" in words(client.get(address))
    form = {"kilobytes_per_second": "70", "packed_percent": "30", ACT_KEY_FIELD: new_act_key()}
    page = words(client.post(reverse("transfers:rate-state", args=["lab"]), form, follow=True))
    assert "Nothing is measured behind these times: they go by the stated 70.0 kB/s." in page
    assert "Archives are taken to shrink to the stated 30 %." in page
    assert re.search(r"Read it: expected in 2 min 30 s, .*?likely by <time", page)  # 10 MiB at 70 kB/s
    assert Event.objects.order_by("-pk")[0].act == "plan.state_rate"
    assert Plan.objects.get().stated_packed_percent == 30
    lab.measure(bytes_per_second=200_000)
    page = words(client.get(address))
    assert "Times go by what was measured over 9 min" in page or "Times go by what was measured over 10 min" in page
    assert "200 kB/s on average" in page and "stated 70" not in page


@pytest.mark.parametrize(("field", "value"), [("kilobytes_per_second", "0"), ("packed_percent", "201")])
def test_a_statement_that_cannot_be_is_refused_beside_its_field(
    signed_in: SignedIn, alice: Person, lab: PlannedHost, field: str, value: str
) -> None:
    form = {field: value, ACT_KEY_FIELD: new_act_key()}
    response = signed_in(alice).post(reverse("transfers:rate-state", args=["lab"]), form)
    assert response.status_code == 422
    assert "Nothing was changed" in response.content.decode()
    assert Plan.objects.get().stated_bytes_per_second is None


def test_only_an_operator_states_a_rate(signed_in: SignedIn, bob: Person, carol: Person, lab: PlannedHost) -> None:
    address, form = reverse("transfers:rate-state", args=["lab"]), {"kilobytes_per_second": "70"}
    assert signed_in(bob).post(address, form).status_code == 403
    assert "State this" not in signed_in(bob).get(reverse("transfers:forecast", args=["lab"])).content.decode()
    assert signed_in(carol).get(reverse("transfers:times", args=["lab"])).status_code == 403


def test_an_order_is_forecast_without_being_saved(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    first, second = lab.add("first", BuildState.PACKED), lab.add("second", BuildState.PACKED)
    lab.capability("Second", [second])
    lab.measure(bytes_per_second=100_000)
    address = reverse("transfers:times", args=["lab"])
    events = Event.objects.count()
    page = words(signed_in(bob).get(address, {"order": f"{second.pk},{first.pk}"}))
    assert re.search(rf'id="times-{second.pk}">expected in 42 s,', page)
    assert re.search(rf'id="times-{first.pk}">expected in 1 min 24 s,', page)
    assert "Second: expected in 42 s," in page
    page = words(signed_in(bob).get(address, {"order": f"{first.pk},{second.pk}"}))
    assert "Second: expected in 1 min 24 s," in page
    assert order_of(lab) == ["first", "second"]
    assert Event.objects.count() == events


def test_an_order_of_nonsense_is_the_order_in_force(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    pack = lab.add("first", BuildState.PACKED)
    lab.measure()
    page = words(signed_in(bob).get(reverse("transfers:times", args=["lab"]), {"order": f"x,-1,{9**30},999,,"}))
    assert f'id="times-{pack.pk}"' in page


def test_the_first_page_the_board_and_the_pack_say_expected_and_likely_by(
    signed_in: SignedIn, bob: Person, lab: PlannedHost
) -> None:
    pack = lab.add("sdk", BuildState.FETCHING, chunk_count=10)
    lab.capability("Read it", [pack])
    lab.measure(bytes_per_second=100_000)
    client = signed_in(bob)
    for address in ("/", reverse("transfers:packs"), reverse("transfers:pack", args=["lab", "sdk"])):
        page = words(client.get(address))
        assert "expected in 1 min 45 s" in page and "likely by <time" in page, address


def test_paused_packs_have_no_time_and_their_order_changes_nothing(lab: PlannedHost) -> None:
    one, two = lab.add("one", BuildState.PACKED, is_paused=True), lab.add("two", BuildState.PACKED, on_hold=True)
    three, four = lab.add("three", BuildState.PACKED), lab.add("four", BuildState.PACKED)
    lab.measure()
    found = times_of(lab)
    assert set(found) == {"three", "four"}
    assert times_of(lab, [two, three, one, four]) == times_of(lab, [three, four, one, two]) == found


def test_a_capability_whose_packs_are_held_is_told_as_stopped(
    signed_in: SignedIn, bob: Person, lab: PlannedHost
) -> None:
    lab.capability("Run", [lab.add("model", BuildState.PACKED, on_hold=True, hold_reason="a faster channel")])
    lab.measure()
    assert "Run: stopped: see what waits" in words(signed_in(bob).get(reverse("transfers:packs")))


def test_archives_shrink_as_those_before_did(lab: PlannedHost) -> None:
    paces = paces_of(lab.plan, rate=1e5)
    assert paces.is_share_assumed and paces.share == 1.0
    done = lab.add("done", BuildState.OPENED, files=[(b"a", 20 * MEBIBYTE)], chunk_count=5)
    now = timezone.now()
    Build.objects.filter(pack=done).update(
        packing_began_at=now - timedelta(seconds=30),
        packed_at=now - timedelta(seconds=20),
        received_at=now - timedelta(seconds=10),
        opened_at=now - timedelta(seconds=5),
    )
    paces = paces_of(lab.plan, rate=1e5)
    assert paces.paces is not None and not (paces.is_share_assumed or paces.is_packing_assumed)
    assert paces.share == 0.25
    assert paces.paces.packing_rates == pytest.approx((2 * MEBIBYTE,))
    assert paces.paces.proof_rates == pytest.approx((MEBIBYTE,))
    lab.add("next", BuildState.PLANNED, files=[(b"b", 40 * MEBIBYTE)])
    board = forecast_board(board_of(lab.plan), paces=paces)
    next_times = board.rows[1].times
    assert next_times is not None  # 20 s of packing, 10 MiB at 100 kB/s, 10 s of proof
    assert next_times.expected_seconds == pytest.approx(20 + 105 + 10, rel=0.2)


def test_the_link_is_slow_where_a_packed_build_waited_for_it(lab: PlannedHost) -> None:
    pack = lab.add("sdk", BuildState.FETCHING)
    now = timezone.now()
    for ago in (9, 1):
        at = now.replace(second=0, microsecond=0) - timedelta(minutes=ago)
        channel = lab.host.channels.get()
        GoodputMinute.objects.create(host=lab.host, channel=channel, at=at, seconds=60.0, new_bytes=6_000_000, lanes=8)
    Build.objects.filter(pack=pack).update(packed_at=now - timedelta(minutes=20))
    stalled = paces_of(lab.plan).goodput
    Pack.objects.update(is_paused=True)
    idle = paces_of(lab.plan).goodput
    assert stalled is not None and idle is not None
    assert stalled.mean == pytest.approx(12_000_000 / 540)
    assert idle.mean == pytest.approx(100_000)


def test_an_order_of_more_packs_than_a_common_form_has_fields_is_taken(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    lab.plan.packs.bulk_create(Pack(plan=lab.plan, name=f"pack-{at}", position=at) for at in range(1, 1101))
    ids = list(lab.plan.packs.order_by("position").values_list("pk", flat=True))
    order = [*ids[1:], ids[0]]
    asked = {"pack_ids": order, "seen_ids": ",".join(map(str, ids)), ACT_KEY_FIELD: new_act_key()}
    assert signed_in(alice).post(reverse("transfers:order", args=["lab"]), asked).status_code == 302
    assert list(lab.plan.packs.order_by("position").values_list("pk", flat=True)) == order
    times = signed_in(alice).post(reverse("transfers:times", args=["lab"]), {"order": ",".join(map(str, order))})
    assert times.status_code == 200


def test_times_go_by_the_channel_and_the_lanes_that_are_set(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    first = lab.host.channels.get()
    other = Channel.objects.create(host=lab.host, address="192.0.2.8", username="guest", position=5)
    lab.add("sdk", BuildState.PACKED)
    lab.minutes([400_000] * 30, lanes=16, channel=other, ended=20)
    lab.minutes([50_000] * 20, lanes=4, channel=first)
    setting = LaneSetting.objects.create(host=lab.host, level=4)
    client, address = signed_in(bob), reverse("transfers:forecast", args=["lab"])
    page = words(client.get(address))
    assert "over 20 min 0 s of the last hours with the 4 lanes that are set: 50.0 kB/s on average" in page
    assert "guest@192.0.2.7:22, 4 lanes: 50.0 kB/s over 20 min 0 s" in page
    assert "guest@192.0.2.8:22, 16 lanes: 400 kB/s over 30 min 0 s" in page
    LaneSetting.objects.filter(pk=setting.pk).update(level=8)
    page = words(client.get(address))
    assert "Too little was measured with the 8 lanes that are set, so every number of lanes counts." in page
    assert "50.0 kB/s on average" in page
    Channel.objects.filter(pk=first.pk).update(position=9)
    assert "400 kB/s on average" in words(client.get(address))
    Channel.objects.create(host=lab.host, address="192.0.2.9", username="guest", position=1)
    assert "so other channels count too" in words(client.get(address))


def test_times_keep_to_the_bandwidth_limits_of_the_hours_ahead(
    signed_in: SignedIn, bob: Person, lab: PlannedHost
) -> None:
    lab.add("sdk", BuildState.PACKED, chunk_count=100)
    lab.measure(bytes_per_second=1_000_000)
    client, address = signed_in(bob), reverse("transfers:forecast", args=["lab"])
    assert "No faster than" not in words(client.get(address))
    free = times_of(lab)["sdk"]
    everything = BandwidthLimit.objects.create(scope=EVERYTHING, bytes_per_second=100_000)
    assert times_of(lab)["sdk"] == pytest.approx(free * 10, rel=0.1)
    assert "No faster than the limit of 100 kB/s." in words(client.get(address))
    everything.delete()
    now = timezone.now()
    minute = now.hour * 60 + now.minute
    begins, ends = (minute + 1) % 1440, (minute + 61) % 1440
    window = {"days": list(range(7)), "begins": begins, "ends": ends, "bytes_per_second": 0}
    BandwidthLimit.objects.create(scope="lab", host=lab.host, windows=[window])
    assert times_of(lab)["sdk"] == pytest.approx(free + 3600, abs=90)
    assert "at each hour of the week ahead" in words(client.get(address))


def test_times_that_go_by_minutes_under_a_limit_say_so(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    lab.add("sdk", BuildState.PACKED)
    lab.minutes([400_000] * 30, lanes=16, channel=lab.host.channels.get())
    client, address = signed_in(bob), reverse("transfers:forecast", args=["lab"])
    sentence = "A bandwidth limit held some of it back, so the link may be faster."
    assert sentence not in words(client.get(address))
    GoodputMinute.objects.update(is_limited=True)
    assert sentence in words(client.get(address))
