"""The page on which bytes that are here are offered, compared and agreed to; and the whole of it in Chromium."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect
from pytest_django.fixtures import Settings
from pytest_django.live_server_helper import LiveServer

from calculet.http import new_act_key
from calculet.people.models import Person
from tests.browser_fixtures import signing_in
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd
from tests.transfers import jobs
from tests.transfers.factories import MEBIBYTE, PlannedHost
from transfers.models import Adoption, AdoptionState, AdoptionWay, BuildState
from transfers.selectors.specs import landed_path
from transfers.services.adoptions import adoption_run
from transfers.services.links import link_run
from transfers.services.verification import open_run, verify_run

SignedIn = Callable[[Person], Client]


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    made = tmp_path / "left"
    made.mkdir()
    (made / "pack.tar.zst.incoming").write_bytes(b"x")
    settings.ADOPT_DIRS = [made]
    return made


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path / "home")


def _text(response: Any, status: int = 200) -> str:
    assert response.status_code == status
    return " ".join(response.content.decode().split())


def _address(lab: PlannedHost, act: str = "adopt", *more: object) -> str:
    return reverse(f"transfers:{act}", args=[lab.host.name, "one", *more])


@pytest.mark.django_db
def test_what_may_be_offered_is_suggested_and_a_path_elsewhere_is_refused_and_kept(
    lab: PlannedHost, folder: Path, alice: Person, signed_in: SignedIn
) -> None:
    lab.add("one", BuildState.PACKED)
    client = signed_in(alice)
    seen = _text(client.get(_address(lab)))
    assert f'<option value="{folder}/pack.tar.zst.incoming">' in seen
    fields = {"act_key": new_act_key(), "path": "/etc/passwd", "way": "ask"}
    told = _text(client.post(_address(lab), fields, follow=True))
    assert "does not lie below a folder" in told and "/etc/passwd" in told
    assert not Adoption.objects.exists()


@pytest.mark.django_db
def test_who_may_not_fetch_is_offered_nothing_and_refused(
    lab: PlannedHost, folder: Path, audrey: Person, carol: Person, signed_in: SignedIn
) -> None:
    pack = lab.add("one", BuildState.PACKED)
    made = Adoption.objects.create(build=pack.builds.get(), path=b"/left", state=AdoptionState.COMPARED)
    assert signed_in(carol).get(_address(lab)).status_code == 403
    client = signed_in(audrey)
    seen = _text(client.get(_address(lab)))
    assert "An operator may offer files." in seen and "Copy what matches" not in seen
    for address in (
        _address(lab),
        _address(lab, "adoption-accept", made.pk, "copy"),
        _address(lab, "adoption-leave", made.pk),
    ):
        assert client.post(address, {"act_key": new_act_key()}).status_code == 403


@pytest.mark.django_db
def test_what_matched_waits_for_a_word_on_the_packs_page_too(
    lab: PlannedHost, folder: Path, alice: Person, signed_in: SignedIn
) -> None:
    pack = lab.add("one", BuildState.PACKED)
    made = Adoption.objects.create(
        build=pack.builds.get(),
        path=b"/left/\xff",
        state=AdoptionState.COMPARED,
        offered_bytes=4 * MEBIBYTE,
        matched_bytes=3 * MEBIBYTE,
        remarks=["1 files are no parts of it and are left out: “notes”"],
        not_taken="it lies on another disk than the landing",
    )
    client = signed_in(alice)
    assert "the pack waits for your word" in _text(client.get(reverse("transfers:pack", args=["lab", "one"])))
    assert "3.15 MB of one are here already: copy or take them" in _text(client.get(reverse("transfers:overview")))
    seen = _text(client.get(_address(lab)))
    assert "/left/\\xff" in seen and "need not be fetched" in seen and "left out" in seen
    assert "cannot be taken itself: it lies on another disk" in seen and "Take the file itself" not in seen
    assert client.post(_address(lab, "adoption-accept", made.pk, "eat"), {"act_key": "x"}).status_code == 404
    key = {"act_key": new_act_key()}
    _text(client.post(_address(lab, "adoption-accept", made.pk, "copy"), key, follow=True))
    made.refresh_from_db()
    assert (made.state, made.way) == (AdoptionState.COPYING, AdoptionWay.COPY)
    left = _text(client.post(_address(lab, "adoption-leave", made.pk), {"act_key": new_act_key()}, follow=True))
    assert "It is left alone" in left


@pytest.fixture
def page(browser: Browser, live_server: LiveServer, alice: Person) -> Iterator[Page]:
    """Alice's page. What the browser complains about fails the test."""
    with signing_in(browser, live_server.url) as sign_in:
        yield sign_in(alice)


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_a_prefix_is_adopted_in_the_browser_and_only_the_rest_is_fetched(
    page: Page, sshd: Sshd, folder: Path, tmp_path: Path, alice: Person, bob: Person
) -> None:
    expect.set_options(timeout=15_000)
    host, source = host_make(sshd, alice), tmp_path / "blob"
    content = os.urandom(6 * MEBIBYTE)
    source.write_bytes(content)
    (folder / "blob.incoming").write_bytes(content[: 4 * MEBIBYTE + 5])
    jobs.landing_make(tmp_path / "home")
    resource = resource_make(host, alice, source, kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("blob", "existing", [resource])), bob)
    jobs.until_packed(build)
    page.goto(reverse("transfers:pack", args=[host.name, "blob"]))
    page.get_by_role("link", name="Adopt bytes that are here").click()
    page.get_by_label("File or folder on this machine").fill(str(folder / "blob.incoming"))
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#live .state")).to_have_text("queued")
    adoption_run(Adoption.objects.get().pk)  # what a worker does meanwhile; the page follows by itself
    expect(page.locator("#live .state")).to_have_text("compared")
    expect(page.get_by_text("4.19 MB of 6.29 MB need not be fetched.")).to_be_visible()
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.get_by_role("button", name="Copy what matches").click()
    adoption_run(Adoption.objects.get().pk)
    expect(page.locator("#live .state")).to_have_text("finished")
    summary = link_run(host.pk)
    assert summary is not None and summary.new_bytes == 2 * MEBIBYTE
    verify_run(build.pk)
    open_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.OPENED, build.problem
    assert landed_path(build).read_bytes() == content
