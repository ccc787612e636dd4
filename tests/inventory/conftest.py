"""Rows that the inventory's pages are shown with; tests of services that need others make their own."""

from __future__ import annotations

import pytest

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host, Proposal, Resource, Scan, Tier
from inventory.services import hosts, scans
from inventory.services.tiers import changes_digest
from tests.hosts import resource_make


@pytest.fixture
def host(alice: Person) -> Host:
    """A host that nobody answers for."""
    return hosts.host_add(
        name="far",
        address="192.0.2.1",
        port=22,
        username="user",
        key_name="",
        staging_path="/home/user/staging",
        actor=Actor.of(alice),
    )


@pytest.fixture
def resource(host: Host, alice: Person) -> Resource:
    return resource_make(host, alice, "/data/tree", tier=Tier.objects.create(position=1, name="first"))


@pytest.fixture
def proposal(resource: Resource, alice: Person) -> Proposal:
    """Alice's file says another value."""
    changes = [{"resource": resource.name, "field": "value", "from": "", "to": "headers"}]
    digest = changes_digest(resource.host, changes)
    return Proposal.objects.create(host=resource.host, title="File", changes=changes, digest=digest, author=alice)


@pytest.fixture
def scan(resource: Resource, alice: Person) -> Scan:
    return scans.scan_request(resource=resource, actor=Actor.of(alice))
