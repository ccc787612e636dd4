"""Naming resources and changing what was said about them."""

from __future__ import annotations

from typing import Any

import pytest

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import Host, Resource, SizeBasis, Tier
from inventory.remote.names import RemoteName
from inventory.services import resources
from inventory.services.errors import InventoryError, NameTaken, ValueWrong

pytestmark = pytest.mark.django_db


@pytest.fixture
def host(db: None) -> Host:
    return Host.objects.create(name="far", staging_path=RemoteName(b"/s"))


def add(host: Host, person: Person, **values: Any) -> Resource:
    given = {"name": "sdk", "path": "/opt/sdk", "kind": "folder", **values}
    return resources.resource_add(host=host, actor=Actor.of(person), **given)


def test_an_added_resource_comes_last_in_its_tier_with_an_event(host: Host, alice: Person) -> None:
    tier = Tier.objects.create(position=1, name="first")
    first, second = add(host, alice, tier=tier), add(host, alice, tier=tier, name="other")
    assert (first.position, second.position) == (1, 2)
    assert Event.objects.filter(act="resource.added", host="far").count() == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 121},
        {"name": "two\nlines"},
        {"path": "relative"},
        {"path": "/a/../b"},
        {"path": "/a/"},
        {"path": "/a\0b"},
        {"kind": "thing"},
        {"size_bytes": 5},
        {"size_basis": "about"},
        {"size_bytes": -1, "size_basis": "about"},
        {"size_bytes": 2**63, "size_basis": "about"},
        {"size_bytes": 5, "size_basis": "exact"},
    ],
)
def test_a_wrong_value_adds_nothing(host: Host, alice: Person, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueWrong):
        add(host, alice, **wrong)
    assert not Resource.objects.exists() and not Event.objects.exists()


def test_a_name_is_taken_once_per_host(host: Host, alice: Person) -> None:
    add(host, alice)
    with pytest.raises(NameTaken):
        add(host, alice)
    other = Host.objects.create(name="other", staging_path=RemoteName(b"/s"))
    resource = add(other, alice, name="else")
    add(other, alice)
    with pytest.raises(NameTaken):
        resources.resource_change(resource=resource, actor=Actor.of(alice), name="sdk")
    assert Resource.objects.get(pk=resource.pk).name == "else"


def test_only_planners_name_and_change_resources(host: Host, alice: Person, bob: Person, carol: Person) -> None:
    resource = add(host, alice)
    for person in (bob, carol):
        with pytest.raises(NotAllowed):
            add(host, person, name="x")
        with pytest.raises(NotAllowed):
            resources.resource_change(resource=resource, actor=Actor.of(person), value="x")


def test_a_change_says_what_was_before_and_writes_nothing_when_nothing_differs(host: Host, alice: Person) -> None:
    resource = add(host, alice)
    resources.resource_change(resource=resource, actor=Actor.of(alice), value="headers")
    resources.resource_change(resource=resource, actor=Actor.of(alice), value="headers", path="/opt/sdk")
    events = Event.objects.filter(act="resource.changed")
    assert events.count() == 1 and events[0].detail == '{"value":{"from":"","to":"headers"}}'


def test_a_tier_can_be_taken_away(host: Host, alice: Person) -> None:
    resource = add(host, alice, tier=Tier.objects.create(position=1, name="first"))
    resources.resource_change(resource=resource, actor=Actor.of(alice), value="x")
    assert Resource.objects.get().tier is not None
    resources.resource_change(resource=resource, actor=Actor.of(alice), tier=None)
    assert Resource.objects.get().tier is None


def test_a_measured_size_stays_until_the_path_changes(host: Host, alice: Person) -> None:
    resource = add(host, alice)
    Resource.objects.update(size_bytes=7, size_basis=SizeBasis.EXACT)
    resources.resource_change(resource=resource, actor=Actor.of(alice), size_bytes=99, size_basis="about")
    row = Resource.objects.get()
    assert (row.size_bytes, row.size_basis) == (7, SizeBasis.EXACT)
    resources.resource_change(resource=resource, actor=Actor.of(alice), path="/opt/other")
    row = Resource.objects.get()
    assert (row.size_bytes, row.size_basis) == (None, SizeBasis.UNKNOWN)


def test_a_declared_size_can_be_changed_and_forgotten(host: Host, alice: Person) -> None:
    resource = add(host, alice, size_bytes=5, size_basis="about")
    resources.resource_change(resource=resource, actor=Actor.of(alice), size_bytes=6, size_basis="declared")
    assert Resource.objects.get().size_bytes == 6
    with pytest.raises(InventoryError):
        resources.resource_change(resource=resource, actor=Actor.of(alice), size_bytes=None)
    resources.resource_change(resource=resource, actor=Actor.of(alice), size_bytes=None, size_basis="unknown")
    assert Resource.objects.get().size_bytes is None
