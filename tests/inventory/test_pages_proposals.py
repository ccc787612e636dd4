"""The page of proposals: what another person may do about them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from calculet.people.models import Person
from inventory.models import Proposal, Resource
from tests.inventory.browser import SignedIn, act_of

pytestmark = pytest.mark.django_db


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
