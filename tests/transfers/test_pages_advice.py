"""The forecast advises an order, says why and what it gains, and adopts it by one act; its curve has a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from calculet.audit.models import Event
from calculet.people.models import Person
from inventory.models import Resource, Tier
from tests.transfers.factories import PlannedHost, make_resource
from transfers.models import BuildState, Item, Pack

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]
ADDRESS = "/plans/lab/forecast/"


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    """Two packs of tier 2 and one of tier 1, the one that work needs at the end; 1 MiB takes 10.5 s."""
    made = PlannedHost(alice, tmp_path)
    made.measure(bytes_per_second=100_000)
    for name, chunks, position in (("large", 60, 2), ("middle", 12, 2), ("needed", 6, 1)):
        in_tier(made.add(name, BuildState.PACKED, chunk_count=chunks), made, position)
    made.capability("Work", [Pack.objects.get(name="needed")])
    made.capability("Run", [Pack.objects.get(name="large")])
    return made


def in_tier(pack: Pack, lab: PlannedHost, position: int) -> None:
    resource: Resource = make_resource(lab.host, f"of {pack.name}", f"/{pack.name}".encode())
    resource.tier = Tier.objects.get_or_create(position=position, defaults={"name": f"tier {position}"})[0]
    resource.save()
    Item.objects.get(pack=pack).resources.add(resource)


def words(response: HttpResponse | Any) -> str:
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def advised(page: str) -> list[str]:
    card = page.split('id="advice"')[1].split("</ol>")[0]
    return re.findall(r'<a href="/packs/lab/[\w-]+/">([\w-]+)</a>', card)


def test_the_advice_says_what_it_gains_and_why_for_each_pack(
    signed_in: SignedIn, bob: Person, lab: PlannedHost
) -> None:
    page = words(signed_in(bob).get(ADDRESS))
    assert advised(page) == ["needed", "large", "middle"]
    assert "<b>Work: 12 min 35 s earlier</b>" in page
    assert "Run: 1 min 3 s later" in page
    assert "“Work” needs it, and 6.29 MB are left." in page
    assert "After the aim, “Run” needs it; 62.9 MB are left." in page
    assert "By value: " in page and "(now 3)" in page
    assert re.search(r"A tier-weighted byte, on average: \d+ s earlier", page)
    assert "Adopt this order" not in page  # bob orders nothing


def test_the_advice_is_adopted_by_one_act(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    client = signed_in(alice)
    page = words(client.get(ADDRESS))
    form = page.split('action="/plans/lab/order/"')[1].split("</form>")[0]
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form):
        fields.setdefault(name, []).append(value)
    before = Event.objects.count()
    page = words(client.post("/plans/lab/order/", fields, follow=True))
    assert "The order is as you set it." in page
    assert list(lab.plan.packs.order_by("position").values_list("name", flat=True)) == ["needed", "large", "middle"]
    assert Event.objects.count() == before + 1
    assert Event.objects.order_by("-pk")[0].act == "pack.reorder"
    assert "The order in force is as good for this aim" in page and "Adopt this order" not in page
    page = words(client.post("/plans/lab/order/", {**fields, "act_key": "f" * 32}, follow=True))
    assert "Somebody changed the order" in page  # the advice was made from another order


def test_another_aim_and_other_weights_are_a_question(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    client, before = signed_in(alice), Event.objects.count()
    page = words(client.get(ADDRESS, {"aim": "need:Run"}))
    assert advised(page) == ["large", "needed", "middle"]
    assert "<b>Run: as now</b>" in page and "Work: 2 min 6 s earlier" in page
    weighted = {"aim": "value", "may_cross_tiers": "on", "weight_1": "1", "weight_2": "9"}
    assert advised(words(client.get(ADDRESS, weighted))) == ["middle", "large", "needed"]
    assert advised(words(client.get(ADDRESS, {**weighted, "weight_1": "10"})))[0] == "needed"
    assert Event.objects.count() == before


@pytest.mark.parametrize(
    "asked", [{"aim": "need:nothing of the kind"}, {"weight_1": "many"}, {"weight_1": "-1"}, {"aim": ""}]
)
def test_a_question_that_makes_no_sense_is_answered_as_the_first_one(
    signed_in: SignedIn, alice: Person, lab: PlannedHost, asked: dict[str, str]
) -> None:
    assert advised(words(signed_in(alice).get(ADDRESS, asked))) == ["needed", "large", "middle"]


def test_a_pack_that_does_not_run_keeps_its_place_in_the_advice(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    Pack.objects.filter(name="middle").update(on_hold=True, hold_reason="a faster channel")
    page = words(signed_in(alice).get(ADDRESS))
    assert advised(page) == ["needed", "middle", "large"]
    assert "Nothing moves it at present, so it keeps its place." in page


def test_the_value_curve_has_a_table_that_says_the_same(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    page = words(signed_in(bob).get(ADDRESS))
    assert len(re.findall(r'<path class="line (?:in_force|advised|largest_first)" d="M44 [^"]*H632"/>', page)) == 3
    assert len(re.findall(r'<circle class="need', page)) == 6
    table = page.split("Expected times of capabilities in three orders")[1].split("</table>")[0]
    assert re.findall(r"<th[^>]*>([^<]*)</th>", table) == ["Usable in", "order in force", "advice", "largest first"]
    work = table.split('<td class="wrap">Work</td>')[1].split("</tr>")[0]
    assert re.findall(r">([^<>]+)</td>", work) == ["13 min 38 s", "1 min 3 s", "13 min 38 s"]
    figures = page.split('id="shares"')[1].split("</table>")[0]
    assert re.findall(r">(\d+) %<", figures.split("<tr>")[-1]) == ["100", "100", "100"]


def test_without_a_rate_there_is_advice_but_no_curve(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    lab.host.goodput_minutes.all().delete()
    page = words(signed_in(alice).get(ADDRESS))
    assert "the advice goes by bytes alone" in page and advised(page) == ["needed", "large", "middle"]
    assert "curve-title" not in page


def test_a_plan_without_packs_says_where_to_begin(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    other = PlannedHost(alice, Path(lab.landing.path), name="empty")
    page = words(signed_in(alice).get(reverse("transfers:forecast", args=[other.host.name])))
    assert "The plan holds no pack yet." in page and 'id="advice"' not in page
