"""The plan's pages in Chromium: split and merge by hand, approval by another person, two revisions side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host
from tests.browser_fixtures import signing_in
from tests.transfers import jobs
from tests.transfers.factories import make_host, make_resource
from tests.transfers.test_plans import draft_with
from transfers.models import Build, Revision, RevisionState
from transfers.services import plans

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
expect.set_options(timeout=30_000)

Signed = Callable[[Person], Page]


@pytest.fixture
def pages(browser: Browser, live_server: LiveServer) -> Iterator[Signed]:
    """A signed-in page of a person, each in a browser of its own. What a browser complains about fails the test.

    A form that is refused comes back with status 422, of which the browser tells as of an error.
    """
    with signing_in(browser, live_server.url, forgives="422") as sign_in:
        yield sign_in


@pytest.fixture
def host(alice: Person, bob: Person, tmp_path: Path) -> Host:
    """A host whose first revision, with two packs, is in force."""
    jobs.landing_make(tmp_path)
    host = make_host("lab")
    tools = make_resource(host, "tools", b"/opt/tools", {b"a.bin": 4_000_000, b"b.bin": 5_000_000, b"c.txt": 70})
    docs = make_resource(host, "docs", b"/opt/docs", {b"x": 10})
    draft_with(host, alice, "docs", docs)
    item = draft_with(host, alice, "tools", tools)
    revision = plans.revision_propose(revision=item.revision, actor=Actor.of(alice))
    plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(bob))
    return host


def test_packs_are_split_and_merged_and_another_person_approves_what_came_of_it(
    pages: Signed, host: Host, alice: Person, bob: Person
) -> None:
    page = pages(alice)
    page.goto(reverse("transfers:packs"))
    page.get_by_role("link", name="Split or copy tools").click()
    page.get_by_label("packs of at most so many megabytes").check()
    page.get_by_label("Megabytes at most").fill("4.5")
    page.get_by_role("button", name="Split").click()
    expect(page.get_by_text("tools is split into 3 packs.")).to_be_visible()
    page.get_by_role("link", name="Merge packs").click()
    page.get_by_role("checkbox", name="tools-2").check()
    page.get_by_role("checkbox", name="docs").check()
    page.get_by_role("button", name="Merge the chosen packs").click()
    expect(page.get_by_role("alert")).to_contain_text("parts of different resources")
    expect(page.get_by_role("checkbox", name="tools-2")).to_be_checked()
    page.get_by_role("checkbox", name="docs").uncheck()
    page.get_by_role("checkbox", name="tools-3").check()
    page.get_by_role("button", name="Merge the chosen packs").click()
    expect(page.get_by_text("The packs are one now: tools-2.")).to_be_visible()
    page.get_by_label("Note").fill("tools in two parts")
    page.get_by_role("button", name="Propose").click()
    expect(page.get_by_text("You proposed it, so somebody else approves it.")).to_be_visible()
    expect(page.get_by_role("button", name="Approve this digest")).to_have_count(0)
    assert Revision.objects.get(number=2).state == RevisionState.PROPOSED

    other = pages(bob)
    other.get_by_role("link", name="Plan", exact=True).first.click()
    other.goto(reverse("transfers:revision", args=["lab", 2]))
    expect(other.get_by_text("tools in two parts")).to_be_visible()
    other.get_by_role("button", name="Approve this digest").click()
    expect(other.get_by_text("Revision 2 is in force.")).to_be_visible()
    assert sorted(Build.objects.exclude(state="replaced").values_list("pack__name", "number")) == [
        ("docs", 1),
        ("tools", 2),
        ("tools-2", 1),
    ]

    page.goto(reverse("transfers:plan", args=["lab"]))
    page.get_by_role("link", name="Compare revisions").click()
    expect(page.get_by_role("heading", name="Revisions of lab side by side")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="tools-2")
    expect(row).to_contain_text("added")
    page.get_by_text("List: 0 entries added, 2 removed, 0 changed").click()
    expect(page.get_by_text("− /opt/tools/b.bin")).to_be_visible()
    page.get_by_label("Before").select_option("2")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("row").filter(has_text="tools-2")).to_contain_text("same")
