"""Pages of links: what lanes did and why, trials and their results, limits; who may do what."""

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

from calculet.actors import Actor
from calculet.http import ACT_KEY_FIELD, new_act_key
from calculet.people.models import Person
from tests.transfers.factories import PlannedHost
from transfers.models import (
    BandwidthLimit,
    BuildState,
    LaneDecision,
    LaneMinute,
    LaneSetting,
    Trial,
    TrialBlock,
    TrialState,
)
from transfers.selectors.lanes import history_of, lane_chart
from transfers.services.trials import trial_start
from transfers.steering import finish_trial

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    made = PlannedHost(alice, tmp_path)
    made.add("one", BuildState.FETCHING, chunk_count=8)
    return made


def words(response: HttpResponse | Any) -> str:
    assert response.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def post(client: Client, name: str, *args: object, **values: str) -> Any:
    address = reverse(f"transfers:{name}", args=args)
    return client.post(address, {ACT_KEY_FIELD: new_act_key(), **values}, follow=True)


def link_address() -> str:
    return reverse("transfers:link", args=["lab"])


def done_trial(lab: PlannedHost, person: Person, rates: dict[int, int]) -> Trial:
    """A trial whose every block brought these bytes a second, give or take a per mille."""
    trial = trial_start(host=lab.host, levels=list(rates), seed=1, actor=Actor.of(person))
    for block in trial.blocks.all():
        brought = rates[block.lanes] * 60 + block.position % 7 * 100
        TrialBlock.objects.filter(pk=block.pk).update(
            done_at=timezone.now(), seconds=60, new_bytes=brought, wire_bytes=brought
        )
    finish_trial(trial, timezone.now())
    return trial


def minutes(lab: PlannedHost, rows: dict[int, list[list[float]]]) -> None:
    """What lanes did so many minutes ago."""
    now = timezone.now().replace(second=0, microsecond=0)
    for ago, lanes in rows.items():
        LaneMinute.objects.create(
            host=lab.host,
            at=now - timedelta(minutes=ago),
            seconds=60,
            new_bytes=sum(int(lane[1]) for lane in lanes),
            lanes=lanes,
        )


def test_decisions_stand_below_the_chart_with_their_figures_and_reasons(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    client = signed_in(alice)
    assert "The link did not run in this time." in words(client.get(link_address()))
    lab.measure(700_000, lanes=8)
    LaneDecision.objects.create(
        host=lab.host,
        at=timezone.now() - timedelta(minutes=2),
        lanes=16,
        bytes_per_second=700_000,
        low_bytes_per_second=650_000,
        high_bytes_per_second=750_000,
        reason="8 lanes bring 5.6 Mbit/s; 16 are tried.",
    )
    answer = client.get(link_address())
    text = words(answer)
    assert "16 steering 5.6 Mbit/s 5.20 – 6.00 8 lanes bring 5.6 Mbit/s; 16 are tried." in text
    assert answer.content.decode().count('class="decision"') == 1
    assert "auto: the link finds the number of lanes itself" in text


def test_a_stretch_without_a_link_is_a_gap_and_no_zero(lab: PlannedHost) -> None:
    minutes(lab, {30: [[0, 600_000, 0, 0], [1, 600_000, 0, 0]]})
    history = history_of(lab.host, 60)
    known = [one for one in history.stretches if one.bytes_per_second is not None]
    assert len(known) == 1 and known[0].lanes == 2
    assert known[0].bytes_per_second == pytest.approx(20_000)


def test_collapse_minutes_are_told_from_beginnings_ends_and_the_link_s_own(lab: PlannedHost) -> None:
    usual: list[list[float]] = [[lane, 6_000_000, 0, 0] for lane in range(5)]
    slow: list[list[float]] = [[0, 100_000, 40, 2], *usual[1:]]
    newcomer: list[list[float]] = [*usual, [5, 100_000, 0, 0]]
    stalled: list[list[float]] = [[lane, 60_000, 0, 0] for lane in range(6)]
    six: list[list[float]] = [*usual, [5, 6_000_000, 0, 0]]
    minutes(lab, {9: usual, 8: slow, 7: usual, 6: newcomer, 5: six, 4: stalled, 3: six, 2: six, 1: six})
    chart = lane_chart(lab.host)
    collapsed = {lane.number: len(lane.collapsed) for lane in chart.lanes}
    assert collapsed == {0: 1, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0}
    assert len(chart.collapsed) == 1  # the minute in which all were slow is the link's, and no lane's
    first = chart.lanes[0]
    assert (first.silent_seconds, first.redials) == (40, 2)


def test_lanes_are_drawn_and_said_in_figures(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    usual: list[list[float]] = [[lane, 6_000_000, 0, 0] for lane in range(4)]
    minutes(lab, {3: usual, 2: [[0, 0, 58, 3], *usual[1:]], 1: usual})
    page = signed_in(alice).get(link_address())
    assert page.content.decode().count('class="chart small"') == 4
    assert "Lane 0: 533 kbit/s on average, 1 collapse minutes" in page.content.decode()


def test_an_operator_sets_lanes_a_cap_and_leaves_it_to_auto(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    client = signed_in(alice)
    assert "6 lanes are used from now on." in words(post(client, "level-choose", "lab", **{"lanes-level": "6"}))
    assert "6, set by a person" in words(client.get(link_address()))
    assert "No more than 4 lanes are used." in words(post(client, "lane-cap", "lab", **{"cap-most": "4"}))
    refused = words(post(client, "level-choose", "lab", **{"lanes-level": "5"}))
    assert "there may be 1 to 4. Nothing was changed." in refused
    assert "finds the number of lanes by itself" in words(post(client, "level-choose", "lab", **{"lanes-level": ""}))
    row = LaneSetting.objects.get(host=lab.host)
    assert (row.level, row.most) == (None, 4)


def test_a_trial_is_started_watched_and_its_result_kept(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    client = signed_in(alice)
    page = words(post(client, "trial-start", "lab", **{"trial-levels": "4, 8", "trial-minutes": "5"}))
    assert "The trial runs." in page and "compares 4 and 8 lanes" in page and "0 of 10 blocks done" in page
    running = Trial.objects.get()
    assert "Too few blocks are done" in words(client.get(reverse("transfers:trial", args=["lab", running.pk])))
    stopped = words(post(client, "trial-stop", "lab", running.pk))
    assert "A person stopped it before its end." in stopped
    trial = done_trial(lab, alice, {4: 350_000, 8: 690_000})
    result = words(client.get(reverse("transfers:trial", args=["lab", trial.pk])))
    assert "8 lanes bring more than any other number compared." in result
    assert "8 against 4 2.72" in result and "Keep 8 lanes" in result
    kept = words(post(client, "level-choose", "lab", **{"lanes-level": "8", "lanes-trial": str(trial.pk)}))
    assert f"8, kept after trial {trial.pk}" in kept


def test_no_difference_is_said_as_an_answer(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    trial = done_trial(lab, alice, {8: 690_000, 12: 690_000})
    result = words(signed_in(alice).get(reverse("transfers:trial", args=["lab", trial.pk])))
    assert "No difference was shown between these numbers of lanes; the fewest, 8, are enough." in result


def test_a_host_s_limit_is_set_drawn_and_lifted(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    client = signed_in(alice)
    values = {
        "limit-rate": "2.5 MB/s",
        "limit-windows": "mon-fri 08:00-18:00 2 Mbit/s\ndaily 00:00-24:00 10 Mbit/s",
        "limit-time_zone": "Asia/Shanghai",
    }
    page = words(post(client, "limit", "lab", **values))
    assert "The limit is in force." in page and "hours of Asia/Shanghai" in page
    assert "mon-fri 08:00-18:00 2 Mbit/s" in page and "At all hours: 20.0 Mbit/s" in page
    lifted = {"limit-rate": "", "limit-windows": "", "limit-time_zone": "UTC"}
    assert "no limit" in words(post(client, "limit", "lab", **lifted))
    row = BandwidthLimit.objects.get()
    assert (row.bytes_per_second, row.windows) == (None, [])


def test_the_limit_of_all_links_is_set_beside_the_hosts(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    client = signed_in(alice)
    values = {"limit-rate": "4 Mbit/s", "limit-windows": "", "limit-time_zone": "UTC"}
    page = words(post(client, "limit-of-all", **values))
    assert "The limit is in force." in page and "4.0 Mbit/s" in page
    assert "The limit of all links counts here." in words(client.get(link_address()))


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("limit-rate", "fast", "is no rate"),
        ("limit-rate", "none", "write a window"),
        ("limit-windows", "monday 8-9 1 Mbit/s", "Line 1"),
        ("limit-time_zone", "Mars/Base", "no such time zone"),
    ],
)
def test_what_a_limit_cannot_be_is_said_beside_its_field_and_what_was_typed_stays(
    signed_in: SignedIn, alice: Person, lab: PlannedHost, field: str, value: str, why: str
) -> None:
    values = {"limit-rate": "2 Mbit/s", "limit-windows": "daily 01:00-02:00 none", "limit-time_zone": "UTC"}
    for name, args in (("limit", ["lab"]), ("limit-of-all", [])):
        address = reverse(f"transfers:{name}", args=args)
        answer = signed_in(alice).post(address, {ACT_KEY_FIELD: new_act_key(), **values, field: value})
        assert answer.status_code == 422
        assert why in answer.content.decode() and value in answer.content.decode()
    assert not BandwidthLimit.objects.exists()


def test_a_form_sent_twice_acts_once(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    client, key = signed_in(alice), new_act_key()
    values = {ACT_KEY_FIELD: key, "trial-levels": "4 8", "trial-minutes": "5"}
    for _ in range(2):
        client.post(reverse("transfers:trial-start", args=["lab"]), values)
    assert Trial.objects.count() == 1


def test_who_may_only_look_sees_the_figures_and_no_forms(
    signed_in: SignedIn, alice: Person, bob: Person, carol: Person, lab: PlannedHost
) -> None:
    trial = done_trial(lab, alice, {4: 350_000, 8: 690_000})
    pages = [
        link_address(),
        reverse("transfers:links"),
        reverse("transfers:trial", args=["lab", trial.pk]),
    ]
    for address in pages:
        page = signed_in(bob).get(address)
        assert page.status_code == 200 and ACT_KEY_FIELD not in page.content.decode()
        assert signed_in(carol).get(address).status_code == 403
    acts: list[tuple[str, list[object]]] = [
        ("level-choose", ["lab"]),
        ("lane-cap", ["lab"]),
        ("limit", ["lab"]),
        ("limit-of-all", []),
        ("trial-start", ["lab"]),
        ("trial-stop", ["lab", trial.pk]),
    ]
    for name, args in acts:
        for who in (bob, carol):
            assert post(signed_in(who), name, *args).status_code == 403
    assert not LaneSetting.objects.exists()
    trial.refresh_from_db()
    assert trial.state == TrialState.FINISHED


def test_what_is_not_there_is_told(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    client = signed_in(alice)
    for address in ("/links/none/", "/links/lab/trials/999/"):
        assert client.get(address).status_code == 404
    assert client.get(link_address(), {"minutes": "7"}).status_code == 200
    assert client.get(link_address(), {"minutes": "٧"}).status_code == 200
