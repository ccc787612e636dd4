"""The inventory's pages: who may see and do what, and the board of tiers."""

from __future__ import annotations

import html

import pytest
from django.test import Client
from django.urls import reverse

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host, Proposal, Resource, Scan, ScanState
from inventory.remote.names import RemoteName
from inventory.services import scans
from tests.hosts import resource_make
from tests.inventory.browser import HTMX, SignedIn, key_of

pytestmark = pytest.mark.django_db


# -- who may -----------------------------------------------------------------------------------------------------------


def addresses(resource: Resource, scan: Scan, proposal: Proposal) -> list[tuple[str, str, str]]:
    """Every address: method, path, who may (by persons' names)."""
    host = resource.host.name
    everybody, operators, planners = "alice bob ada audrey", "alice ada", "alice"
    return [
        ("get", reverse("inventory:index"), everybody),
        ("get", reverse("inventory:hosts"), everybody),
        ("get", reverse("inventory:host", args=[host]), everybody),
        ("get", reverse("inventory:resource", args=[resource.pk]), everybody),
        ("get", reverse("inventory:entries", args=[scan.pk]), everybody),
        ("get", reverse("inventory:proposals"), everybody),
        ("get", reverse("inventory:host-add"), operators),
        ("get", reverse("inventory:host-change", args=[host]), operators),
        ("get", reverse("inventory:resource-add", args=[host]), planners),
        ("get", reverse("inventory:resource-change", args=[resource.pk]), planners),
        ("post", reverse("inventory:host-add"), operators),
        ("post", reverse("inventory:host-change", args=[host]), operators),
        ("post", reverse("inventory:host-pin", args=[host]), operators),
        ("post", reverse("inventory:resource-add", args=[host]), planners),
        ("post", reverse("inventory:resource-change", args=[resource.pk]), planners),
    ]


def test_every_page_asks_for_the_right_role(
    resource: Resource, scan: Scan, proposal: Proposal, signed_in: SignedIn, request: pytest.FixtureRequest
) -> None:
    people = {name: request.getfixturevalue(name) for name in ("alice", "bob", "ada", "audrey", "carol")}
    for name, person in people.items():
        client = signed_in(person)
        for method, path, may in addresses(resource, scan, proposal):
            status = getattr(client, method)(path).status_code
            assert (status != 403) == (name in may.split()), f"{name} {method} {path}: {status}"
            assert status in (200, 302, 403, 422), f"{name} {method} {path}: {status}"


@pytest.mark.parametrize("who", ["carol", "audrey"])
def test_acts_are_refused_to_those_without_the_role_and_change_nothing(
    resource: Resource, scan: Scan, proposal: Proposal, signed_in: SignedIn, request: pytest.FixtureRequest, who: str
) -> None:
    client, host = signed_in(request.getfixturevalue(who)), resource.host.name
    for name, argument in [
        ("host-look", host),
        ("host-pin", host),
        ("host-probe", host),
        ("scan-all", host),
        ("resource-scan", resource.pk),
        ("scan-cancel", scan.pk),
        ("proposal-approve", proposal.pk),
        ("proposal-decline", proposal.pk),
        ("proposal-withdraw", proposal.pk),
    ]:
        assert client.post(reverse(f"inventory:{name}", args=[argument])).status_code == 403, name
        assert client.get(reverse(f"inventory:{name}", args=[argument])).status_code == 405, name
    scan.refresh_from_db()
    proposal.refresh_from_db()
    assert (scan.state, proposal.state, Scan.objects.count()) == (ScanState.QUEUED, "proposed", 1)


def test_without_sign_in_there_is_only_the_way_to_it(resource: Resource, scan: Scan, proposal: Proposal) -> None:
    for method, path, _may in addresses(resource, scan, proposal):
        response = getattr(Client(), method)(path)
        assert response.status_code == 302 and "sign-in" in response["Location"]


def test_buttons_are_shown_to_those_who_may(
    resource: Resource, signed_in: SignedIn, alice: Person, bob: Person
) -> None:
    pages = [
        reverse("inventory:index") + "?host=far",
        reverse("inventory:resource", args=[resource.pk]),
        reverse("inventory:hosts"),
        reverse("inventory:host", args=["far"]),
    ]
    acts = ["/scan/", "/change/", "/look/", "/add/"]
    seen_by_alice = "".join(signed_in(alice).get(page).text for page in pages)
    seen_by_bob = "".join(signed_in(bob).get(page).text for page in pages)
    assert all(act in seen_by_alice for act in acts) and not any(act in seen_by_bob for act in acts)


# -- the board ---------------------------------------------------------------------------------------------------------


def test_an_empty_inventory_says_what_to_do_first(signed_in: SignedIn, alice: Person, audrey: Person) -> None:
    page = signed_in(alice).get(reverse("inventory:index")).text
    assert "No host yet" in page and reverse("inventory:host-add") in page
    assert reverse("inventory:host-add") not in signed_in(audrey).get(reverse("inventory:index")).text


def test_a_host_without_resources_says_how_they_come(host: Host, signed_in: SignedIn, alice: Person) -> None:
    page = signed_in(alice).get(reverse("inventory:index")).text
    assert "Nothing is named yet" in page and "load_plan" in page
    assert reverse("inventory:resource-add", args=["far"]) in page


def test_sizes_of_different_trust_are_summed_apart_and_named(
    host: Host, resource: Resource, signed_in: SignedIn, alice: Person
) -> None:
    sizes = [(1_000, "exact"), (20_000, "exact"), (300_000, "declared"), (4_000_000, "about"), (None, "unknown")]
    for number, (size, basis) in enumerate(sizes):
        row = resource_make(host, alice, "", name=f"r{number}", tier=resource.tier)
        Resource.objects.filter(pk=row.pk).update(size_bytes=size, size_basis=basis)
    page = html.unescape(signed_in(alice).get(reverse("inventory:index")).text).replace("\xa0", " ")
    for words in ("21.0 kB</span> exact", "300 kB</span> declared", "4.00 MB</span> about"):
        assert words in page
    assert "4.32 MB" not in page


def test_the_board_keeps_to_one_host_when_asked(
    host: Host, resource: Resource, signed_in: SignedIn, alice: Person
) -> None:
    other = Host.objects.create(name="other", staging_path=RemoteName(b"/s"))
    resource_make(other, alice, "/x", name="elsewhere")
    client = signed_in(alice)
    assert "elsewhere" in client.get(reverse("inventory:index")).text
    assert "elsewhere" not in client.get(reverse("inventory:index"), {"host": "far"}).text
    assert client.get(reverse("inventory:index"), {"host": "unknown"}).status_code == 404


def test_the_board_asks_again_only_while_a_scan_is_under_way(scan: Scan, signed_in: SignedIn, alice: Person) -> None:
    client, page = signed_in(alice), reverse("inventory:index")
    part = client.get(page, headers=HTMX).text
    assert 'data-refresh="2"' in part and "<html" not in part
    scans.scan_cancel(scan=scan, actor=Actor.of(alice))
    assert "hx-trigger" not in client.get(page, headers=HTMX).text


def test_scan_all_asks_for_every_path_once(host: Host, resource: Resource, signed_in: SignedIn, alice: Person) -> None:
    resource_make(host, alice, "/data/other", name="other")
    resource_make(host, alice, "", name="idea")
    client, page = signed_in(alice), reverse("inventory:index") + "?host=far"
    key = key_of(client, page)
    first = client.post(reverse("inventory:scan-all", args=["far"]), {"act_key": key}, follow=True)
    assert "2 scans are asked for" in first.text and Scan.objects.count() == 2
    again = client.post(reverse("inventory:scan-all", args=["far"]), {"act_key": key}, follow=True)
    assert "already done" in again.text and Scan.objects.count() == 2
