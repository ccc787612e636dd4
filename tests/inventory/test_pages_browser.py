"""The inventory's pages in Chromium: the board of tiers by drag, by keyboard, and with two people at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from calculet.people.models import Person
from calculet.people.roles import Role
from inventory.models import Host, Proposal, ProposalState, Resource, Tier
from tests.browser_fixtures import signing_in
from tests.hosts import resource_make

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
expect.set_options(timeout=15_000)


@pytest.fixture
def page_of(browser: Browser, live_server: LiveServer) -> Iterator[Callable[[Person], Page]]:
    """A signed-in page of a person. What the browser complains about fails the test."""
    with signing_in(browser, live_server.url) as sign_in:
        yield sign_in


@pytest.fixture
def board(host: Host, alice: Person) -> str:
    """Two tiers with a resource each; the board's address."""
    for number, name in enumerate(("top", "low"), 1):
        tier = Tier.objects.create(position=number, name=name)
        resource_make(host, alice, f"/{name}", name=f"thing {number}", tier=tier)
    return reverse("inventory:tiers", args=[host.name])


def tier_of(name: str) -> str:
    tier = Resource.objects.select_related("tier").get(name=name).tier
    return "" if tier is None else tier.name


def test_a_resource_is_dragged_moved_by_keyboard_proposed_and_approved(
    page_of: Callable[[Person], Page], board: str, alice: Person, bob: Person
) -> None:
    page = page_of(alice)
    page.goto(board)
    page.locator(".tile", has_text="thing 1").drag_to(page.locator(".column[data-tier='2']"))
    expect(page.locator("#draft")).to_contain_text("thing 1: from tier 1 to tier 2")
    expect(page.locator(".column[data-tier='2']")).to_contain_text("thing 1")

    page.get_by_role("button", name="Move thing 2 left").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#draft")).to_contain_text("thing 2: from tier 2 to tier 1")
    assert page.evaluate("document.activeElement.id").endswith(f"-{Resource.objects.get(name='thing 2').pk}")
    assert (tier_of("thing 1"), tier_of("thing 2")) == ("top", "low")

    page.get_by_role("button", name="Propose", exact=True).click()
    expect(page.get_by_text("The changes are proposed.")).to_be_visible()
    approver = page_of(bob)
    approver.goto(reverse("inventory:proposals"))
    approver.get_by_role("button", name="Approve").click()
    expect(approver.get_by_text("The proposal is approved and applied.")).to_be_visible()
    assert (tier_of("thing 1"), tier_of("thing 2")) == ("low", "top")
    assert Proposal.objects.get().state == ProposalState.APPROVED


def test_of_two_browsers_the_later_one_gets_the_fresh_board(
    page_of: Callable[[Person], Page], board: str, alice: Person, person: Callable[..., Person]
) -> None:
    first, second = page_of(alice), page_of(person("erin", Role.PLANNER))
    first.goto(board)
    second.goto(board)
    first.get_by_role("button", name="Move thing 1 right").click()
    expect(first.locator("#draft")).to_contain_text("thing 1")
    second.get_by_role("button", name="Move thing 2 left").click()
    expect(second.get_by_text("was changed by somebody else since you saw it")).to_be_visible()
    expect(second.locator("#draft")).to_contain_text("thing 1: from tier 1 to tier 2")
    expect(second.locator("#draft")).not_to_contain_text("thing 2")
    second.get_by_role("button", name="Move thing 2 left").click()
    expect(second.locator("#draft")).to_contain_text("thing 2: from tier 2 to tier 1")
    assert len(Proposal.objects.get().changes) == 2
