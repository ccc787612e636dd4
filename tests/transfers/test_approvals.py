"""Approvals: as many people as the setting asks, of exactly one digest, while what is in force goes on."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.lifecycle import StateConflict
from calculet.people.models import Person
from inventory.models import Host
from inventory.remote.names import RemoteName
from tests.transfers.factories import make_list
from tests.transfers.test_plans import draft_with, resource_of
from transfers.models import Build, BuildState, Item, Pack, Revision, RevisionState
from transfers.selectors.work import builds_in_force
from transfers.services import plans

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="far", staging_path=RemoteName(b"/home/user/staging"))


@pytest.fixture
def proposed(host: Host, alice: Person) -> Revision:
    tools = resource_of(host, "tools", b"/srv/tools", {b"a": 1, b"b": 2})
    item = draft_with(host, alice, "tools", tools, exclude=["*.o"])
    return plans.revision_propose(revision=item.revision, actor=Actor.of(alice))


def approve(revision: Revision, person: Person) -> Revision:
    return plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(person))


def test_two_people_approve_where_the_setting_asks_two(
    settings: Settings, proposed: Revision, alice: Person, bob: Person, dan: Person
) -> None:
    settings.APPROVALS_NEEDED = 2
    assert approve(proposed, bob).state == RevisionState.PROPOSED
    assert not Build.objects.exists()
    assert json.loads(Event.objects.get(act="plan.approve_in_part").detail)["approvals"] == 1
    for again in (bob, alice):  # nobody counts twice, and the author does not count
        with pytest.raises(Exception, match=r"decided on this revision already|may not do this"):
            approve(proposed, again)
    assert approve(proposed, dan).state == RevisionState.APPROVED
    assert Build.objects.get().state == BuildState.PLANNED


def test_an_approval_of_somebody_who_left_does_not_count(
    settings: Settings, proposed: Revision, bob: Person, dan: Person
) -> None:
    settings.APPROVALS_NEEDED = 2
    approve(proposed, bob)
    Person.objects.filter(pk=bob.pk).update(is_active=False)
    assert approve(proposed, dan).state == RevisionState.PROPOSED


def test_one_who_declines_ends_it_and_nothing_is_approved_afterwards(
    settings: Settings, proposed: Revision, bob: Person, dan: Person
) -> None:
    settings.APPROVALS_NEEDED = 2
    plans.revision_decline(revision=proposed, digest=proposed.digest, actor=Actor.of(dan), note="no")
    with pytest.raises(StateConflict):
        approve(proposed, bob)
    assert proposed.approvals.count() == 1


WHATS = [
    "mode",
    "include",
    "exclude",
    "chunk",
    "first",
    "end",
    "list",
    "no list",
    "satisfied",
    "here",
    "resource",
    "pack",
    "gone",
]


def _change(item: Item, what: str, host: Host) -> None:
    changes: dict[str, Callable[[], object]] = {
        "mode": lambda: Item.objects.filter(pk=item.pk).update(mode="files"),
        "include": lambda: Item.objects.filter(pk=item.pk).update(include_rules=["a"]),
        "exclude": lambda: Item.objects.filter(pk=item.pk).update(exclude_rules=[]),
        "chunk": lambda: Item.objects.filter(pk=item.pk).update(chunk_bytes=2**20),
        "first": lambda: Item.objects.filter(pk=item.pk).update(first_name=RemoteName(b"srv/tools/b")),
        "end": lambda: Item.objects.filter(pk=item.pk).update(end_name=RemoteName(b"srv/tools/b")),
        "list": lambda: Item.objects.filter(pk=item.pk).update(entry_list=make_list([(b"x", 1)])),
        "no list": lambda: Item.objects.filter(pk=item.pk).update(entry_list=None),
        "satisfied": lambda: Item.objects.filter(pk=item.pk).update(satisfied_list=make_list([(b"x", 1)])),
        "here": lambda: Item.objects.filter(pk=item.pk).update(here_list=make_list([(b"x", 1)])),
        "resource": lambda: item.resources.add(resource_of(host, "more", b"/srv/more", {})),
        "pack": lambda: Pack.objects.filter(pk=item.pack_id).update(name="other"),
        "gone": item.delete,
    }
    changes[what]()


@limits(max_examples=13, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(what=st.sampled_from(WHATS))
def test_an_approval_of_one_digest_never_holds_for_another(host: Host, alice: Person, bob: Person, what: str) -> None:
    Revision.objects.all().delete()
    host.resources.all().delete()
    tools = resource_of(host, "tools", b"/srv/tools", {b"a": 1, b"b": 2})
    item = draft_with(host, alice, "tools", tools, exclude=["*.o"])
    revision = plans.revision_propose(revision=item.revision, actor=Actor.of(alice))
    _change(revision.items.get(), what, host)
    with pytest.raises(ValidationError, match="is not what is proposed now"):
        approve(revision, bob)
    revision.refresh_from_db()
    assert revision.state == RevisionState.PROPOSED
    assert not revision.approvals.exists()
    Pack.objects.filter(name="other").update(name="tools")


def test_what_is_in_force_goes_on_while_a_revision_waits_and_then_follows_the_new_one(
    host: Host, alice: Person, bob: Person
) -> None:
    actor = Actor.of(alice)
    tools = resource_of(host, "tools", b"/srv/tools", {b"a": 1, b"b.o": 2})
    docs = resource_of(host, "docs", b"/srv/docs", {b"x": 1})
    notes = resource_of(host, "notes", b"/srv/notes", {b"n": 1})
    for name, resource in (("tools", tools), ("docs", docs), ("notes", notes)):
        item = draft_with(host, alice, name, resource)
    approve(plans.revision_propose(revision=item.revision, actor=actor), bob)
    Build.objects.filter(pack__name="docs").update(state=BuildState.FETCHING, received_bytes=7)
    draft = plans.draft_start(host=host, actor=actor)
    plans.item_remove(item=draft.items.get(pack__name="docs"), actor=actor)
    draft_with(host, alice, "tools", tools, exclude=["*.o"])
    plans.revision_propose(revision=draft, actor=actor)
    assert {build.pack.name for build in builds_in_force()} == {"tools", "docs", "notes"}  # as before
    approve(draft, bob)
    assert {build.pack.name for build in builds_in_force()} == {"tools", "notes"}
    stopped = Build.objects.get(pack__name="docs")
    assert (stopped.state, stopped.received_bytes) == (BuildState.FETCHING, 7)  # it stops, and keeps its bytes
    states = list(Build.objects.filter(pack__name="tools").order_by("number").values_list("state", flat=True))
    assert states == [BuildState.REPLACED, BuildState.PLANNED]
    assert Build.objects.filter(pack__name="notes").count() == 1  # unchanged content keeps its build
