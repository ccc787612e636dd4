"""Two people on one draft at the same moment: a list never stands beside rules that it was not made from."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host, Resource
from inventory.remote.names import RemoteName
from tests.transfers.test_plans import draft_with, preview, resource_of
from transfers.models import Item, RevisionState
from transfers.selectors.specs import list_members
from transfers.services import plans
from transfers.services.entry_lists import item_evaluate

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def resource() -> Resource:
    host = Host.objects.create(name="far", staging_path=RemoteName(b"/home/user/staging"))
    return resource_of(host, "src", b"/src", {b"keep.c": 10, b"big.bin": 1000})


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let somebody else act once, just after rules were evaluated and before the list is kept."""

    def set_up(act: Callable[[], object]) -> None:
        waiting = [act]

        def evaluate(item: Item) -> object:
            result = item_evaluate(item)
            if waiting:
                waiting.pop()()
            return result

        monkeypatch.setattr(plans, "item_evaluate", evaluate)

    return set_up


def test_a_preview_does_not_keep_a_list_of_rules_that_were_changed_meanwhile(
    resource: Resource, alice: Person, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    item = draft_with(resource.host, alice, "p", resource)
    meanwhile(lambda: draft_with(resource.host, alice, "p", resource, exclude=["*.bin"]))
    with pytest.raises(ValidationError, match="at the same moment"):
        preview(item, alice)
    now = Item.objects.get(pk=item.pk)
    assert (now.entry_list, now.exclude_rules) == (None, ["*.bin"])
    preview(now, alice)
    kept = Item.objects.get(pk=item.pk).entry_list
    assert kept is not None
    assert [member.name for member in list_members(kept) if member.kind == "file"] == [b"src/keep.c"]


def test_a_preview_of_a_pack_that_was_taken_out_meanwhile_is_refused(
    resource: Resource, alice: Person, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    item = draft_with(resource.host, alice, "p", resource)
    meanwhile(lambda: plans.item_remove(item=Item.objects.get(pk=item.pk), actor=Actor.of(alice)))
    with pytest.raises(ValidationError, match="at the same moment"):
        preview(item, alice)


def test_a_proposal_does_not_take_in_a_pack_that_nobody_evaluated(
    resource: Resource, alice: Person, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    revision = draft_with(resource.host, alice, "p", resource).revision
    meanwhile(lambda: draft_with(resource.host, alice, "q", resource))
    with pytest.raises(ValidationError, match="“q” of this draft at the same moment"):
        plans.revision_propose(revision=revision, actor=Actor.of(alice))
    revision.refresh_from_db()
    assert revision.state == RevisionState.DRAFT
