"""Plan files into the inventory: what is applied, what waits for another person, and what that person may do."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Group

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.audit.services import verify_chain
from calculet.lifecycle import StateConflict
from calculet.people.models import Person
from calculet.people.roles import NotAllowed, Role
from inventory.manifests.planfile import PlanFile, ResourceLine, TierLine
from inventory.models import Host, PlanFileLoad, Proposal, ProposalState, Resource, SizeBasis, Tier
from inventory.remote.names import RemoteName
from inventory.services import resources, tiers
from inventory.services.errors import ApprovalRefused, ProposalStale
from inventory.services.imports import InventoryLoad, inventory_load

pytestmark = pytest.mark.django_db

ODD_PATH = RemoteName(b"/data/odd \xff\nname\\")
SDK = ResourceLine("sdk", RemoteName(b"/opt/sdk"), "folder", 1, 1, 310_976, "declared", "headers", "quick")
WEIGHTS = ResourceLine("weights", ODD_PATH, "parameters", 2, 1, 9_404_557_312, "about", "blocks", "last")
IDEA = ResourceLine("idea", None, "other", None, 1, None, "unknown")
FILE = PlanFile(tiers=(TierLine(1, "first", "now"), TierLine(2, "last")), resources=(SDK, WEIGHTS, IDEA))


@pytest.fixture
def host(db: None) -> Host:
    return Host.objects.create(name="far", staging_path=RemoteName(b"/s"))


def load(host: Host, plan: PlanFile, person: Person) -> InventoryLoad:
    digest = hashlib.sha256(repr(plan).encode()).hexdigest()
    return inventory_load(host=host, plan_file=plan, file_name="plan.yaml", digest=digest, actor=Actor.of(person))


def with_sdk(**values: Any) -> PlanFile:
    return replace(FILE, resources=(replace(SDK, **values), WEIGHTS, IDEA))


def snapshot() -> list[Any]:
    return [*Resource.objects.order_by("pk").values(), *Tier.objects.order_by("pk").values()]


def test_a_file_makes_tiers_and_resources_with_their_bases_and_exact_paths(host: Host, alice: Person) -> None:
    done = load(host, FILE, alice)
    assert (done.created, done.changed, done.unchanged, done.proposal) == (3, 0, 0, None)
    sdk, weights, idea = (Resource.objects.get(name=name) for name in ("sdk", "weights", "idea"))
    assert (sdk.tier.position if sdk.tier else 0, sdk.size_bytes, sdk.size_basis) == (1, 310_976, "declared")
    assert (weights.path, weights.size_basis, weights.kind) == (ODD_PATH, "about", "parameters")
    assert (idea.path.raw, idea.tier, idea.size_bytes, idea.size_basis) == (b"", None, None, "unknown")
    event = Event.objects.get(act="inventory.loaded")
    assert event.host == "far" and verify_chain().whole


def test_the_same_file_again_changes_nothing_and_writes_nothing(host: Host, alice: Person) -> None:
    load(host, FILE, alice)
    before, events = snapshot(), Event.objects.count()
    done = load(host, FILE, alice)
    assert (done.created, done.changed, done.unchanged, done.proposal) == (0, 0, 3, None)
    assert (snapshot(), Event.objects.count(), PlanFileLoad.objects.count()) == (before, events, 1)


def test_the_same_file_again_overwrites_nothing_that_the_team_changed(host: Host, alice: Person) -> None:
    load(host, FILE, alice)
    resources.resource_change(resource=Resource.objects.get(name="sdk"), actor=Actor.of(alice), value="ours")
    before = snapshot()
    assert load(host, FILE, alice).proposal is None and snapshot() == before
    assert load(host, with_sdk(recommendation="slow"), alice).changed == 1
    assert load(host, FILE, alice).changed == 1  # an older file is a change as well, and only of its own words
    assert Resource.objects.get(name="sdk").value == "ours" and not Proposal.objects.exists()


def test_what_only_the_file_changed_is_applied(host: Host, alice: Person) -> None:
    load(host, FILE, alice)
    done = load(host, with_sdk(value="more headers", tier=2, position=2, size_bytes=5, size_basis="about"), alice)
    sdk = Resource.objects.select_related("tier").get(name="sdk")
    assert (done.changed, done.unchanged, done.proposal) == (1, 2, None)
    assert (sdk.value, sdk.tier.position if sdk.tier else 0, sdk.size_bytes) == ("more headers", 2, 5)


def test_where_the_team_changed_it_the_difference_becomes_a_proposal(host: Host, alice: Person) -> None:
    load(host, FILE, alice)
    resources.resource_change(resource=Resource.objects.get(name="sdk"), actor=Actor.of(alice), value="ours")
    done = load(host, with_sdk(value="theirs", recommendation="slow"), alice)
    assert done.proposal is not None
    assert done.proposal.changes == [{"resource": "sdk", "field": "value", "from": "ours", "to": "theirs"}]
    sdk = Resource.objects.get(name="sdk")
    assert (sdk.value, sdk.recommendation) == ("ours", "slow")  # the part that nobody changed is applied
    again = load(host, with_sdk(value="theirs", recommendation="slow"), alice)
    assert again.proposal is None and Proposal.objects.count() == 1


def test_a_tier_that_is_there_is_renamed_by_proposal_only(host: Host, alice: Person, bob: Person) -> None:
    load(host, FILE, alice)
    done = load(host, replace(FILE, tiers=(TierLine(1, "most needed", "now"), FILE.tiers[1])), alice)
    assert done.proposal is not None and Tier.objects.get(position=1).name == "first"
    tiers.proposal_approve(proposal=done.proposal, digest=done.proposal.digest, actor=Actor.of(bob))
    assert Tier.objects.get(position=1).name == "most needed"


def test_a_measured_size_is_not_overwritten_by_a_file(host: Host, alice: Person) -> None:
    load(host, FILE, alice)
    Resource.objects.filter(name="sdk").update(size_bytes=7, size_basis=SizeBasis.EXACT)
    assert load(host, with_sdk(size_bytes=99), alice).proposal is None
    sdk = Resource.objects.get(name="sdk")
    assert (sdk.size_bytes, sdk.size_basis) == (7, SizeBasis.EXACT)


def test_a_files_exact_is_only_declared_here(host: Host, alice: Person) -> None:
    load(host, with_sdk(size_basis="exact"), alice)
    assert Resource.objects.get(name="sdk").size_basis == SizeBasis.DECLARED


def test_loading_needs_the_planners_role(host: Host, carol: Person, bob: Person) -> None:
    for person in (carol, bob):
        with pytest.raises(NotAllowed):
            load(host, FILE, person)
    assert not Resource.objects.exists()


@pytest.fixture
def proposal(host: Host, alice: Person) -> Proposal:
    """Alice's file differs from what the team made of two fields."""
    load(host, FILE, alice)
    sdk = Resource.objects.get(name="sdk")
    resources.resource_change(resource=sdk, actor=Actor.of(alice), value="ours", path="/opt/ours", tier=None)
    done = load(host, with_sdk(value="theirs", path=ODD_PATH, tier=2), alice)
    assert done.proposal is not None
    return done.proposal


def test_another_person_approves_and_all_of_it_is_applied(proposal: Proposal, bob: Person) -> None:
    tiers.proposal_approve(proposal=proposal, digest=proposal.digest, actor=Actor.of(bob), note="agreed")
    sdk = Resource.objects.select_related("tier").get(name="sdk")
    assert (sdk.value, sdk.path, sdk.tier.position if sdk.tier else 0) == ("theirs", ODD_PATH, 2)
    proposal.refresh_from_db()
    assert (proposal.state, proposal.decided_by, proposal.decision_note) == (ProposalState.APPROVED, bob, "agreed")
    assert Event.objects.filter(act="proposal.approved").count() == 1


def test_the_author_cannot_approve_or_decline_it(proposal: Proposal) -> None:
    author = proposal.author
    assert author is not None
    author.groups.add(Group.objects.get_or_create(name=Role.APPROVER)[0])
    author = Person.objects.get(pk=author.pk)
    for act in (tiers.proposal_approve, tiers.proposal_decline):
        with pytest.raises(ApprovalRefused):
            act(proposal=proposal, digest=proposal.digest, actor=Actor.of(author))
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.PROPOSED


def test_who_is_no_approver_decides_nothing(proposal: Proposal, carol: Person, alice: Person) -> None:
    for who in (carol, alice):
        with pytest.raises(NotAllowed):
            tiers.proposal_approve(proposal=proposal, digest=proposal.digest, actor=Actor.of(who))
    with pytest.raises(NotAllowed):
        tiers.proposal_withdraw(proposal=proposal, actor=Actor.of(carol))


def test_an_approval_of_other_content_is_refused(proposal: Proposal, bob: Person) -> None:
    with pytest.raises(ProposalStale):
        tiers.proposal_approve(proposal=proposal, digest="0" * 64, actor=Actor.of(bob))
    changed = [{**change, "to": "smuggled"} for change in proposal.changes]
    Proposal.objects.filter(pk=proposal.pk).update(changes=changed)
    with pytest.raises(ProposalStale):
        tiers.proposal_approve(proposal=proposal, digest=proposal.digest, actor=Actor.of(bob))
    assert Resource.objects.get(name="sdk").value == "ours"


def test_a_row_that_moved_on_refuses_all_of_it(proposal: Proposal, alice: Person, bob: Person) -> None:
    resources.resource_change(resource=Resource.objects.get(name="sdk"), actor=Actor.of(alice), value="newer")
    with pytest.raises(ProposalStale, match="the value of “sdk” was changed"):
        tiers.proposal_approve(proposal=proposal, digest=proposal.digest, actor=Actor.of(bob))
    sdk = Resource.objects.get(name="sdk")
    assert (sdk.value, sdk.path.raw, sdk.tier) == ("newer", b"/opt/ours", None)
    tiers.proposal_decline(proposal=proposal, digest=proposal.digest, actor=Actor.of(bob), note="ours is newer")
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.DECLINED


def test_a_decision_is_made_once(proposal: Proposal, bob: Person, dan: Person) -> None:
    stale = Proposal.objects.get(pk=proposal.pk)
    tiers.proposal_decline(proposal=proposal, digest=proposal.digest, actor=Actor.of(bob))
    for act in (tiers.proposal_approve, tiers.proposal_decline):
        with pytest.raises(StateConflict):
            act(proposal=stale, digest=stale.digest, actor=Actor.of(dan))
    assert Resource.objects.get(name="sdk").value == "ours"


def test_only_its_author_withdraws_it(proposal: Proposal, alice: Person, person: Any) -> None:
    other = person("eve", *alice.roles)
    with pytest.raises(ApprovalRefused):
        tiers.proposal_withdraw(proposal=proposal, actor=Actor.of(other))
    tiers.proposal_withdraw(proposal=proposal, actor=Actor.of(alice))
    assert Proposal.objects.get().state == ProposalState.WITHDRAWN
