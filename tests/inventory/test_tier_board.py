"""The board of tiers: a shared draft, proposed by one, decided by another who had no part in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.people.models import Person
from calculet.people.roles import NotAllowed, Role
from inventory.models import Host, Proposal, ProposalState, Resource, Tier
from inventory.services import tier_drafts, tiers
from inventory.services.errors import ApprovalRefused, BoardStale, ProposalStale, ValueWrong
from inventory.tier_board import board_of
from tests.hosts import resource_make
from tests.inventory.browser import SignedIn, act_of, key_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def board(host: Host, alice: Person) -> Host:
    """Three tiers, and a resource in the first two and in none."""
    made = [Tier.objects.create(position=number, name=name) for number, name in enumerate(("top", "mid", "low"), 1)]
    resource_make(host, alice, "/a", name="a", tier=made[0])
    resource_make(host, alice, "/b", name="b", tier=made[1])
    resource_make(host, alice, "/c", name="c")
    return host


def move(host: Host, person: Person, name: str, to: int | None, seen: str | None = None) -> None:
    tier_drafts.resource_move(
        host=host, resource_name=name, to=to, seen=board_of(host).seen if seen is None else seen, actor=Actor.of(person)
    )


def columns(host: Host) -> dict[str, list[str]]:
    return {column.name or "none": [card.resource.name for card in column.cards] for column in board_of(host).columns}


def in_force(host: Host) -> dict[str, str]:
    rows = Resource.objects.filter(host=host).select_related("tier")
    return {row.name: row.tier.name if row.tier else "none" for row in rows}


def propose(host: Host, person: Person) -> Proposal:
    return tier_drafts.draft_propose(host=host, title="New", seen=board_of(host).seen, actor=Actor.of(person))


def test_an_edit_changes_the_board_and_nothing_in_force(board: Host, alice: Person) -> None:
    before = in_force(board)
    move(board, alice, "a", 3)
    move(board, alice, "c", 1)
    move(board, alice, "b", None)
    assert columns(board) == {"top": ["c"], "mid": [], "low": ["a"], "none": ["b"]}
    assert in_force(board) == before and Proposal.objects.get().state == ProposalState.DRAFT


def test_a_columns_sizes_of_different_trust_are_never_added(board: Host, alice: Person) -> None:
    Resource.objects.filter(name="a").update(size_bytes=5, size_basis="about")
    Resource.objects.filter(name="b").update(size_bytes=7, size_basis="exact")
    move(board, alice, "b", 1)
    assert board_of(board).columns[0].sums == [("exact", 7), ("about", 5)]


def test_moving_back_undoes_the_move(board: Host, alice: Person) -> None:
    move(board, alice, "a", 2)
    move(board, alice, "a", 3)
    assert len(board_of(board).changes) == 1
    move(board, alice, "a", 1)
    assert board_of(board).changes == []


def test_everything_together_is_approved_by_another_person(board: Host, alice: Person, bob: Person) -> None:
    actor = Actor.of(alice)
    tier_drafts.tier_add(host=board, name="new", seen=board_of(board).seen, actor=actor)
    move(board, alice, "a", 4)
    tier_drafts.tier_rename(host=board, position=2, name="middle", seen=board_of(board).seen, actor=actor)
    tier_drafts.tier_rename(host=board, position=4, name="newest", seen=board_of(board).seen, actor=actor)
    for _step in range(3):
        tier_drafts.tier_shift(host=board, position=4, step=-1, seen=board_of(board).seen, actor=actor)
    assert columns(board) == {"newest": ["a"], "top": [], "middle": ["b"], "low": [], "none": ["c"]}
    proposal = propose(board, alice)
    tiers.proposal_approve(proposal=proposal, digest=proposal.digest, actor=Actor.of(bob))
    assert list(Tier.objects.values_list("position", "name")) == [(1, "newest"), (2, "top"), (3, "middle"), (4, "low")]
    assert in_force(board) == {"a": "newest", "b": "middle", "c": "none"}
    assert board_of(board).changes == []
    acts = list(Event.objects.order_by("sequence").values_list("act", flat=True))
    assert acts[-2:] == ["proposal.proposed", "proposal.approved"]


def test_whoever_edited_the_draft_cannot_decide_it(board: Host, alice: Person, person: Callable[..., Person]) -> None:
    erin = person("erin", Role.PLANNER, Role.APPROVER)
    move(board, erin, "a", 2)
    move(board, alice, "b", 1)
    proposal = propose(board, alice)
    with pytest.raises(ApprovalRefused):
        tiers.proposal_approve(proposal=proposal, digest=proposal.digest, actor=Actor.of(erin))


def test_of_two_who_edit_at_once_the_later_gets_the_fresh_board(board: Host, alice: Person) -> None:
    seen = board_of(board).seen
    move(board, alice, "a", 2, seen)
    with pytest.raises(BoardStale, match="changed by somebody else"):
        move(board, alice, "b", 3, seen)
    assert [change["resource"] for change in board_of(board).changes] == ["a"]
    with pytest.raises(BoardStale):
        tier_drafts.draft_propose(host=board, title="", seen=seen, actor=Actor.of(alice))
    Tier.objects.filter(position=1).update(name="changed elsewhere")
    assert board_of(board).seen != seen


def test_a_proposal_whose_rows_moved_on_changes_nothing(board: Host, alice: Person, bob: Person) -> None:
    move(board, alice, "b", 1)
    tier_drafts.tier_add(host=board, name="new", seen=board_of(board).seen, actor=Actor.of(alice))
    tier_drafts.tier_shift(host=board, position=4, step=-1, seen=board_of(board).seen, actor=Actor.of(alice))
    proposal = propose(board, alice)
    Tier.objects.create(position=9, name="meanwhile")
    with pytest.raises(ProposalStale, match="added or ordered"):
        tiers.proposal_approve(proposal=proposal, digest=proposal.digest, actor=Actor.of(bob))
    assert in_force(board)["b"] == "mid" and Tier.objects.count() == 4


@pytest.mark.parametrize(("name", "to"), [("nowhere", 1), ("a", 8)])
def test_an_edit_of_what_is_not_there_is_refused(board: Host, alice: Person, name: str, to: int) -> None:
    with pytest.raises(ValueWrong):
        move(board, alice, name, to)
    assert not Proposal.objects.exists()


def test_editing_needs_the_role_and_something_to_propose(board: Host, bob: Person, alice: Person) -> None:
    with pytest.raises(NotAllowed):
        move(board, bob, "a", 2)
    with pytest.raises(ValueWrong, match="nothing to propose"):
        propose(board, alice)


def test_the_page_moves_by_buttons_proposes_and_shows_the_difference(
    board: Host, alice: Person, bob: Person, signed_in: SignedIn
) -> None:
    client, page, edit = (
        signed_in(alice),
        reverse("inventory:tiers", args=["far"]),
        reverse("inventory:tiers-edit", args=["far"]),
    )
    given = {"edit": "move", "resource": "a", "to": "2", "seen": board_of(board).seen}
    shown = act_of(client, page, edit, **given)
    assert "a: from tier 1 to tier 2" in shown.text and "nothing in force is" in shown.text
    stale = act_of(client, page, edit, **{**given, "resource": "b"})
    assert "changed by somebody else" in stale.text and "b: from tier" not in stale.text
    act_of(client, page, edit, edit="add", name="<new>", seen=board_of(board).seen)
    act_of(client, page, edit, edit="shift", position="4", step="left", seen=board_of(board).seen)
    shown = act_of(
        client, page, reverse("inventory:tiers-propose", args=["far"]), title="Mine", seen=board_of(board).seen
    )
    assert "are proposed" in shown.text
    waiting = signed_in(bob).get(reverse("inventory:proposals")).text
    assert "Mine" in waiting and "&lt;new&gt;" in waiting and "1, 2, 4, 3" in waiting and "changed since" not in waiting
    row = Proposal.objects.get()
    act_of(
        signed_in(bob), reverse("inventory:proposals"), reverse("inventory:proposal-approve", args=[row.pk]),
        digest=row.digest,
    )  # fmt: skip
    assert in_force(board)["a"] == "mid" and Tier.objects.get(position=3).name == "<new>"
    history = signed_in(bob).get(reverse("inventory:proposals")).text
    assert "proposed by alice" in history and "a, tier: 1 → 2" in history and "all tiers, order: 1, 2, 3, 4" in history


def test_a_draft_can_be_discarded_and_bare_forms_are_refused(board: Host, alice: Person, signed_in: SignedIn) -> None:
    client, page = signed_in(alice), reverse("inventory:tiers", args=["far"])
    move(board, alice, "a", 2)
    seen = board_of(board).seen
    act_of(client, page, reverse("inventory:tiers-discard", args=["far"]), seen=seen)
    assert board_of(board).draft is None and Proposal.objects.get().state == ProposalState.WITHDRAWN
    answer = client.post(
        reverse("inventory:tiers-edit", args=["far"]), {"act_key": key_of(client, page), "edit": "move", "to": "x"}
    )
    assert answer.status_code == 400
