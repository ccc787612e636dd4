"""States change in one place, once, and never without an event."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import models

from calculet.audit.models import Event
from calculet.audit.services import verify_chain
from calculet.lifecycle import SYSTEM, Actor, StateConflict, advance
from calculet.people.models import Person
from inventory.models import Host, Proposal, ProposalState

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def proposal(alice: Person) -> Proposal:
    host = Host.objects.create(name="lab", staging_path=b"/tmp/s")
    return Proposal.objects.create(host=host, title="Tier 2 for the image", changes=[], digest="0" * 64, author=alice)


def test_a_change_of_state_sets_fields_and_records_one_event(proposal: Proposal, bob: Person) -> None:
    advance(
        proposal,
        ProposalState.APPROVED,
        act="proposal.approved",
        actor=Actor.of(bob),
        detail={"why": 1},
        decided_by=bob,
    )
    assert (proposal.state, proposal.decided_by) == ("approved", bob)
    proposal.refresh_from_db()
    assert (proposal.state, proposal.decided_by) == ("approved", bob)
    event = Event.objects.get()
    assert (event.act, event.actor, event.user_id, event.host) == ("proposal.approved", "bob", bob.pk, "lab")
    assert event.detail == '{"from":"proposed","to":"approved","why":1}'
    assert verify_chain().whole


def test_the_second_of_two_that_race_gets_a_sentence_and_changes_nothing(proposal: Proposal, bob: Person) -> None:
    stale = Proposal.objects.get(pk=proposal.pk)
    advance(proposal, ProposalState.WITHDRAWN, act="proposal.withdrawn", actor=SYSTEM)
    with pytest.raises(StateConflict, match="somebody or something else was faster, and it is “withdrawn” now"):
        advance(stale, ProposalState.APPROVED, act="proposal.approved", actor=Actor.of(bob), decided_by=bob)
    assert (stale.state, stale.decided_by) == ("proposed", None)
    assert Event.objects.count() == 1


def test_a_change_that_is_not_allowed_is_refused_before_it_is_tried(proposal: Proposal) -> None:
    advance(proposal, ProposalState.DECLINED, act="proposal.declined", actor=SYSTEM)
    with pytest.raises(StateConflict, match="from there it cannot become “proposed”"):
        advance(proposal, ProposalState.PROPOSED, act="proposal.again", actor=SYSTEM)


STATEFUL = [model for model in apps.get_models() if hasattr(model, "TRANSITIONS")]
PAIRS = [
    (model, str(before), str(after))
    for model in STATEFUL
    for before in model.TRANSITIONS
    for after in model.TRANSITIONS
]


@pytest.mark.parametrize(("model", "before", "after"), PAIRS, ids=lambda part: getattr(part, "__name__", part))
def test_each_pair_of_states_is_either_allowed_or_refused(
    monkeypatch: pytest.MonkeyPatch, model: type[models.Model], before: str, after: str
) -> None:
    monkeypatch.setattr(model, "__str__", lambda row: "It")
    allowed = after in {str(state) for state in model.TRANSITIONS[before]}  # type: ignore[attr-defined]
    with pytest.raises(StateConflict) as caught:  # a row that was never stored is gone for those that are allowed
        advance(model(pk=1, state=before), after, act="test.done", actor=SYSTEM)
    refused = f"It is “{before}”, and from there it cannot become “{after}”"
    assert str(caught.value).startswith("It could not become" if allowed else refused)
    assert not Event.objects.exists()


def test_a_row_that_is_gone_is_told_as_gone(proposal: Proposal) -> None:
    Proposal.objects.all().delete()
    with pytest.raises(StateConflict, match="it is not there any more"):
        advance(proposal, ProposalState.DECLINED, act="proposal.declined", actor=SYSTEM)
    assert not Event.objects.exists()
