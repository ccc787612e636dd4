"""The inventory's pages: who sees what, what acts do, and names that nobody may trust."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from calculet.actors import SYSTEM, Actor
from calculet.leases.services import lease_acquire
from calculet.lifecycle import advance
from calculet.people.models import Person
from inventory.models import Host, HostKey, Proposal, Resource, Scan, ScanState, SizeBasis, Tier
from inventory.remote.names import RemoteName
from inventory.services import hosts, scans
from inventory.services.tiers import changes_digest
from tests.hosts import host_make, key_put, resource_make
from tests.sshd import Sshd

pytestmark = pytest.mark.django_db

SignedIn = Callable[[Person], Client]
HOSTILE = [b"<script>alert(1)</script>".replace(b"/", b"_"), b"a\nb", b"\xff\xfe", "\u202egnp.exe".encode(), b"&amp;"]
HTMX = {"HX-Request": "true"}


@pytest.fixture
def host(alice: Person) -> Host:
    """A host that nobody answers for."""
    return hosts.host_add(
        name="far",
        address="192.0.2.1",
        port=22,
        username="user",
        key_name="",
        staging_path="/home/user/staging",
        actor=Actor.of(alice),
    )


@pytest.fixture
def resource(host: Host, alice: Person) -> Resource:
    return resource_make(host, alice, "/data/tree", tier=Tier.objects.create(position=1, name="first"))


@pytest.fixture
def proposal(resource: Resource, alice: Person) -> Proposal:
    """Alice's file says another value."""
    changes = [{"resource": resource.name, "field": "value", "from": "", "to": "headers"}]
    digest = changes_digest(resource.host, changes)
    return Proposal.objects.create(host=resource.host, title="File", changes=changes, digest=digest, author=alice)


@pytest.fixture
def scan(resource: Resource, alice: Person) -> Scan:
    return scans.scan_request(resource=resource, actor=Actor.of(alice))


def key_of(client: Client, address: str) -> str:
    """A fresh key of a form on a page."""
    found = re.search(r'name="act_key" value="([^"]+)"', client.get(address).text)
    assert found is not None, f"{address} has no form with a key"
    return found.group(1)


def act_of(client: Client, page: str, target: str, /, **values: Any) -> Any:
    """Send a form with the key of a page that has one; follows to the page after."""
    return client.post(target, {"act_key": key_of(client, page), **values}, follow=True)


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


# -- resources, scans and entries --------------------------------------------------------------------------------------


def test_a_resource_is_added_changed_and_scanned_by_hand(host: Host, signed_in: SignedIn, alice: Person) -> None:
    client, add = signed_in(alice), reverse("inventory:resource-add", args=["far"])
    values = {"name": "sdk", "path": "/opt/a\\xffb", "kind": "folder", "size_bytes": "85.5 MB", "size_basis": "about"}
    page = act_of(client, add, add, **values)
    row = Resource.objects.get()
    assert (row.path.raw, row.size_bytes, row.size_basis) == (b"/opt/a\xffb", 85_500_000, SizeBasis.ABOUT)
    assert "is in the inventory" in page.text

    change = reverse("inventory:resource-change", args=[row.pk])
    assert "/opt/a\\xffb" in client.get(change).text
    act_of(client, change, change, **{**values, "value": "headers", "position": row.position})
    row.refresh_from_db()
    assert (row.value, row.path.raw) == ("headers", b"/opt/a\xffb")

    here = reverse("inventory:resource", args=[row.pk])
    page = act_of(client, here, reverse("inventory:resource-scan", args=[row.pk]))
    assert "is asked for" in page.text and Scan.objects.get().root.raw == b"/opt/a\xffb"
    assert "hx-trigger" in client.get(here, headers=HTMX).text


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"path": "relative"}, "is not a plain absolute path"),
        ({"path": "/a\\q"}, "starts no known escape"),
        ({"size_bytes": "many"}, "is no size"),
        ({"size_bytes": "5 MB"}, "A size needs its basis"),
        ({"name": "taken"}, "called “taken” already"),
    ],
)
def test_a_wrong_resource_form_says_why_and_adds_nothing(
    host: Host, signed_in: SignedIn, alice: Person, values: dict[str, str], sentence: str
) -> None:
    resource_make(host, alice, "/x", name="taken")
    client, add = signed_in(alice), reverse("inventory:resource-add", args=["far"])
    given = {"name": "sdk", "path": "/opt", "kind": "folder", "size_basis": "unknown", **values}
    page = act_of(client, add, add, **given)
    assert page.status_code == 422 and sentence in page.text and Resource.objects.count() == 1


def test_a_measured_size_is_not_asked_for(resource: Resource, signed_in: SignedIn, alice: Person) -> None:
    Resource.objects.update(size_bytes=7, size_basis=SizeBasis.EXACT)
    client, change = signed_in(alice), reverse("inventory:resource-change", args=[resource.pk])
    assert 'name="size_bytes"' not in client.get(change).text
    act_of(client, change, change, name="tree", path="/data/tree", kind="folder", value="new", tier=resource.tier_id)
    row = Resource.objects.get()
    assert (row.size_bytes, row.value) == (7, "new")


def test_a_running_scan_shows_what_it_has_seen_and_can_be_cancelled(
    scan: Scan, signed_in: SignedIn, alice: Person
) -> None:
    advance(scan, ScanState.RUNNING, act="scan.started", actor=SYSTEM, entries_seen=4321)
    client, page = signed_in(alice), reverse("inventory:resource", args=[scan.resource_id])
    assert "4321 entries seen" in client.get(page).text.replace(",", "")
    shown = act_of(client, page, reverse("inventory:scan-cancel", args=[scan.pk]))
    scan.refresh_from_db()
    assert scan.state == ScanState.CANCELLED and "was cancelled" in shown.text
    again = client.post(
        reverse("inventory:scan-cancel", args=[scan.pk]), {"act_key": key_of(client, page)}, follow=True
    )
    assert "cannot become" in again.text


def test_a_failed_scan_says_why(scan: Scan, signed_in: SignedIn, alice: Person) -> None:
    advance(scan, ScanState.RUNNING, act="scan.started", actor=SYSTEM)
    advance(scan, ScanState.FAILED, act="scan.failed", actor=SYSTEM, problem="It is <gone>.")
    client = signed_in(alice)
    for page in (reverse("inventory:index"), reverse("inventory:resource", args=[scan.resource_id])):
        assert "It is &lt;gone&gt;." in client.get(page).text


@pytest.fixture
def scanned(sshd: Sshd, alice: Person, tmp_path: Path) -> Scan:
    """A finished scan of a tree with hostile names, folders among them."""
    top = tmp_path / "top"
    for name in HOSTILE:
        folder = top / os.fsdecode(b"dir " + name)
        folder.mkdir(parents=True)
        (folder / os.fsdecode(name)).write_bytes(b"12345")
    host = host_make(sshd, alice)
    scan = scans.scan_request(resource=resource_make(host, alice, top), actor=Actor.of(alice))
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FINISHED, scan.problem
    return scan


def test_hostile_names_are_shown_escaped_and_every_folder_can_be_entered(
    scanned: Scan, signed_in: SignedIn, alice: Person
) -> None:
    client, address = signed_in(alice), reverse("inventory:entries", args=[scanned.pk])
    page = client.get(address).text
    assert "<script>alert" not in page and "&lt;script&gt;" in page
    assert "\u202e" not in page and "dir a\\nb/" in page and "dir \\xff\\xfe/" in page and "&amp;amp;" in page
    links = re.findall(rf'href="({re.escape(address)}\?in=[^"]+)"', page)
    assert len(links) == len(HOSTILE)
    for link in links:
        assert re.fullmatch(r"[A-Za-z0-9/?=%._~-]+", link), link
        inside = client.get(html.unescape(link))
        assert inside.status_code == 200 and "1 entry below" in inside.text and "<script>alert" not in inside.text
        assert html.escape(unquote(link.partition("?in=")[2]).removeprefix("dir ")) in inside.text


def test_a_resources_page_shows_counts_by_kind_and_its_first_entries(
    scanned: Scan, signed_in: SignedIn, alice: Person
) -> None:
    page = signed_in(alice).get(reverse("inventory:resource", args=[scanned.resource_id])).text
    assert "finished" in page and f"Browse all {2 * len(HOSTILE)} entries" in page and "25\xa0B" in page
    assert "hx-trigger" not in page


@pytest.mark.parametrize("key", ["absent", "\\q", "../etc", "\\x00"])
def test_an_entry_that_is_not_there_is_a_page_that_says_so(
    scanned: Scan, signed_in: SignedIn, alice: Person, key: str
) -> None:
    response = signed_in(alice).get(reverse("inventory:entries", args=[scanned.pk]), {"in": key, "from": "x"})
    assert response.status_code == 404 and "no such entry" in response.text


def test_an_unfinished_scans_entries_are_told_as_missing(scan: Scan, signed_in: SignedIn, alice: Person) -> None:
    page = signed_in(alice).get(reverse("inventory:entries", args=[scan.pk]))
    assert page.status_code == 200 and "no entries" in page.text


# -- hosts -------------------------------------------------------------------------------------------------------------


def test_a_host_is_added_looked_at_pinned_and_probed_in_the_browser(
    sshd: Sshd, signed_in: SignedIn, alice: Person
) -> None:
    client, add = signed_in(alice), reverse("inventory:host-add")
    key = key_put(sshd.key_path, f"browser-{sshd.port}")
    values = {
        "name": "far",
        "address": "127.0.0.1",
        "port": sshd.port,
        "username": sshd.username,
        "key_name": key,
        "staging_path": str(sshd.home / "staging"),
        "lanes": 8,
        "no_data_timeout_seconds": 600,
    }
    page = act_of(client, add, add, **values)
    assert "Look at its key next" in page.text and "no key pinned" in page.text

    looked = client.post(reverse("inventory:host-look", args=["far"]))
    assert sshd.pinned.fingerprint in html.unescape(looked.text) and not HostKey.objects.exists()
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in looked.text
    fields = dict(re.findall(r'name="(act_key|key_type|blob|fingerprint)" value="([^"]+)"', looked.text))
    pinned = client.post(
        reverse("inventory:host-pin", args=["far"]), {k: html.unescape(v) for k, v in fields.items()}, follow=True
    )
    assert "The key is pinned" in pinned.text and HostKey.objects.get().fingerprint == sshd.pinned.fingerprint
    assert "hx-trigger" in pinned.text  # a probe follows by itself

    host = Host.objects.get()
    hosts.host_probe_run(host.pk)
    shown = client.get(reverse("inventory:host", args=["far"])).text
    assert "free at" in shown and "Linux" in shown and "hx-trigger" not in shown
    looked = client.post(reverse("inventory:host-look", args=["far"]))
    assert "This is the key that is pinned" in looked.text and "act_key" not in looked.text


def test_a_changed_key_is_shown_with_both_fingerprints(sshd: Sshd, signed_in: SignedIn, alice: Person) -> None:
    host_make(sshd, alice)
    old = sshd.pinned.fingerprint
    sshd.change_host_key()
    sshd.restart()
    page = html.unescape(signed_in(alice).post(reverse("inventory:host-look", args=["far"])).text)
    assert old in page and len(set(re.findall(r"SHA256:[A-Za-z0-9+/]{43}", page))) == 2
    assert "not the key that is pinned" in page


@pytest.mark.parametrize(
    "fields", [{}, {"blob": "!!"}, {"blob": "YQ==", "key_type": "ssh-ed25519", "fingerprint": "SHA256:x"}]
)
def test_a_pin_form_that_does_not_fit_pins_nothing(
    host: Host, signed_in: SignedIn, alice: Person, fields: dict[str, str]
) -> None:
    client = signed_in(alice)
    key = key_of(client, reverse("inventory:host-change", args=["far"]))
    page = client.post(reverse("inventory:host-pin", args=["far"]), {"act_key": key, **fields}, follow=True)
    assert "Nothing was pinned" in page.text and not HostKey.objects.exists()


def test_a_host_that_is_off_is_said_when_looking(sshd: Sshd, signed_in: SignedIn, alice: Person) -> None:
    host_make(sshd, alice)
    sshd.stop()
    page = signed_in(alice).post(reverse("inventory:host-look", args=["far"]), follow=True)
    assert "cannot be reached" in page.text


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"name": "two words"}, "cannot be a host's name"),
        ({"name": "far"}, "called “far” already"),
        ({"staging_path": "relative"}, "must be absolute"),
        ({"key_name": "../secret"}, "Select a valid choice"),
        ({"port": "0"}, "greater than or equal to 1"),
    ],
)
def test_a_wrong_host_form_says_why_and_adds_nothing(
    host: Host, signed_in: SignedIn, alice: Person, values: dict[str, str], sentence: str
) -> None:
    client, add = signed_in(alice), reverse("inventory:host-add")
    given = {
        "name": "new",
        "address": "192.0.2.2",
        "port": 22,
        "username": "user",
        "key_name": "",
        "staging_path": "/s/t",
        "lanes": 8,
        "no_data_timeout_seconds": 600,
        **values,
    }
    page = act_of(client, add, add, **given)
    assert page.status_code == 422 and sentence in html.unescape(page.text) and Host.objects.count() == 1


def test_a_host_is_changed_in_the_browser(host: Host, signed_in: SignedIn, alice: Person) -> None:
    client, change = signed_in(alice), reverse("inventory:host-change", args=["far"])
    assert "192.0.2.1" in client.get(change).text
    given = {"address": "192.0.2.9", "port": 22, "username": "user", "key_name": "", "staging_path": "/s/t", "lanes": 3}
    act_of(client, change, change, **given, no_data_timeout_seconds=60, note="moved")
    host.refresh_from_db()
    assert (host.lanes, host.no_data_timeout_seconds, host.channels.get().address) == (3, 60, "192.0.2.9")


def test_a_hosts_problem_and_missing_steps_are_told_in_sentences(
    host: Host, signed_in: SignedIn, alice: Person
) -> None:
    Host.objects.update(problem="The host is <away>.")
    client = signed_in(alice)
    for page in (reverse("inventory:host", args=["far"]), reverse("inventory:hosts")):
        assert "The host is &lt;away&gt;." in client.get(page).text


def test_the_host_page_waits_for_a_probe_that_runs_or_was_just_asked_for(
    host: Host, signed_in: SignedIn, alice: Person
) -> None:
    client, page = signed_in(alice), reverse("inventory:host", args=["far"])
    now = int(timezone.now().timestamp())
    assert "hx-trigger" not in client.get(page).text
    assert "hx-trigger" in client.get(page, {"asked": now}).text
    assert "hx-trigger" not in client.get(page, {"asked": now - 3600}).text
    assert "hx-trigger" not in client.get(page, {"asked": now + 3600}).text
    assert "hx-trigger" not in client.get(page, {"asked": "x" * 30}).text
    assert lease_acquire(name=hosts.probe_lease(host.pk)) is not None
    assert "hx-trigger" in client.get(page).text


def test_a_probe_is_asked_for_once_per_form(sshd: Sshd, signed_in: SignedIn, alice: Person) -> None:
    host_make(sshd, alice)
    client, page = signed_in(alice), reverse("inventory:host", args=["far"])
    assert "A probe is asked for" in act_of(client, page, reverse("inventory:host-probe", args=["far"])).text
    assert "without its key" in client.post(reverse("inventory:host-probe", args=["far"])).text


# -- proposals ---------------------------------------------------------------------------------------------------------


def test_another_person_sees_the_difference_and_approves_it(
    proposal: Proposal, signed_in: SignedIn, bob: Person
) -> None:
    client, page = signed_in(bob), reverse("inventory:proposals")
    assert "headers" in client.get(page).text
    approve = reverse("inventory:proposal-approve", args=[proposal.pk])
    shown = act_of(client, page, approve, digest=proposal.digest, note="agreed")
    assert "approved and applied" in shown.text and Resource.objects.get().value == "headers"
    assert "agreed" in shown.text and "No proposal waits" in shown.text


def test_another_person_declines_it(proposal: Proposal, signed_in: SignedIn, bob: Person) -> None:
    client, page = signed_in(bob), reverse("inventory:proposals")
    decline = reverse("inventory:proposal-decline", args=[proposal.pk])
    assert "declined" in act_of(client, page, decline, digest=proposal.digest).text
    assert Resource.objects.get().value == ""


def test_its_author_may_only_withdraw_it(proposal: Proposal, signed_in: SignedIn, alice: Person) -> None:
    client, page = signed_in(alice), reverse("inventory:proposals")
    text = client.get(page).text
    assert "/approve/" not in text and "/withdraw/" in text
    shown = act_of(client, page, reverse("inventory:proposal-withdraw", args=[proposal.pk]))
    assert "is withdrawn" in shown.text


def test_a_proposal_whose_resource_moved_on_says_so_and_cannot_be_approved(
    proposal: Proposal, signed_in: SignedIn, bob: Person
) -> None:
    Resource.objects.update(value="newer")
    client, page = signed_in(bob), reverse("inventory:proposals")
    assert "changed since" in client.get(page).text
    approve = reverse("inventory:proposal-approve", args=[proposal.pk])
    assert "was changed since" in act_of(client, page, approve, digest=proposal.digest).text
    assert Resource.objects.get().value == "newer"


def test_an_old_page_does_not_approve_other_content(proposal: Proposal, signed_in: SignedIn, bob: Person) -> None:
    client, page = signed_in(bob), reverse("inventory:proposals")
    approve = reverse("inventory:proposal-approve", args=[proposal.pk])
    assert "no longer fits" in act_of(client, page, approve, digest="0" * 64).text
    proposal.refresh_from_db()
    assert proposal.state == "proposed" and proposal.created_at > timezone.now() - timedelta(minutes=5)
