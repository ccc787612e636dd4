"""Resources' pages: by hand, as they are scanned, and with names that nobody may trust."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from django.urls import reverse

from calculet.actors import SYSTEM, Actor
from calculet.lifecycle import advance
from calculet.people.models import Person
from inventory.models import Host, Resource, Scan, ScanState, SizeBasis
from inventory.services import scans
from tests.hosts import host_make, resource_make
from tests.inventory.browser import HTMX, SignedIn, act_of, key_of
from tests.sshd import Sshd

pytestmark = pytest.mark.django_db

HOSTILE = [b"<script>alert(1)</script>".replace(b"/", b"_"), b"a\nb", b"\xff\xfe", "\u202egnp.exe".encode(), b"&amp;"]

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
    assert len(set(links)) == len(HOSTILE)
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
