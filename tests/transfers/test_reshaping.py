"""Splitting, merging and copying packs: the same entries in other packs, in their order, and never otherwise."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.people.models import Person
from inventory.models import Host, Resource
from inventory.remote.names import RemoteName
from tests.transfers.test_plans import draft_with, resource_of
from transfers.engine.types import Member
from transfers.models import BuildState, Capability, CapabilityNeed, Item, Pack, Revision
from transfers.selectors.specs import list_members
from transfers.services import plans, reshaping

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

TREE = {b"a/": 0, b"a/1": 40, b"a/2": 50, b"b.txt": 5, b"c/": 0, b"c/3": 70, b"d/": 0, b"d/4": 10, b"d/5.log": 20}


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="far", staging_path=RemoteName(b"/home/user/staging"))


@pytest.fixture
def tools(host: Host) -> Resource:
    return resource_of(host, "tools", b"/srv/tools", TREE)


def members_of(item: Item, author: Person) -> list[Member]:
    item.refresh_from_db()
    plans.item_preview(item=item, actor=Actor.of(author))
    assert item.entry_list is not None
    return list(list_members(item.entry_list))


def files_of(item: Item, author: Person) -> list[bytes]:
    return [one.name.removeprefix(b"srv/") for one in members_of(item, author) if one.kind == "file"]


def order_of(host: Host) -> list[str]:
    return list(Pack.objects.filter(plan__host=host).order_by("position").values_list("name", flat=True))


def approved(revision: Revision, author: Person, approver: Person) -> Revision:
    plans.revision_propose(revision=revision, actor=Actor.of(author))
    return plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(approver))


def test_a_pack_is_split_by_resource_behind_itself_in_the_order(host: Host, alice: Person, tools: Resource) -> None:
    more = resource_of(host, "More docs", b"/srv/docs", {b"x": 1})
    item = draft_with(host, alice, "mix", tools, exclude=["*.log"])
    item.resources.add(more)
    draft_with(host, alice, "later", more)
    first, second = reshaping.item_split_by_resource(item=item, actor=Actor.of(alice))
    assert order_of(host) == ["mix", "mix-tools", "later"]
    assert [one.pack.name for one in item.revision.items.order_by("position")] == order_of(host)
    assert files_of(first, alice) == [b"docs/x"]
    assert files_of(second, alice) == [b"tools/a/1", b"tools/a/2", b"tools/b.txt", b"tools/c/3", b"tools/d/4"]
    assert second.exclude_rules == ["*.log"]
    assert Event.objects.filter(act="plan.item_split").count() == 1


def test_a_pack_is_split_by_its_top_folders(host: Host, alice: Person, tools: Resource) -> None:
    parts = reshaping.item_split_by_folder(item=draft_with(host, alice, "t", tools), actor=Actor.of(alice))
    assert [one.pack.name for one in parts] == ["t", "t-c", "t-d"]
    assert [files_of(one, alice) for one in parts] == [
        [b"tools/a/1", b"tools/a/2", b"tools/b.txt"],
        [b"tools/c/3"],
        [b"tools/d/4", b"tools/d/5.log"],
    ]
    assert members_of(parts[2], alice)[0].name == b"srv/tools"  # the folders above come along


def test_a_pack_is_split_into_parts_of_at_most_so_many_bytes(host: Host, alice: Person, tools: Resource) -> None:
    item = draft_with(host, alice, "t", tools)
    parts = reshaping.item_split_by_bytes(item=item, most_bytes=60, actor=Actor.of(alice))
    assert [one.pack.name for one in parts] == ["t", "t-2", "t-3", "t-4"]
    found = [files_of(one, alice) for one in parts]
    assert found == [[b"tools/a/1"], [b"tools/a/2", b"tools/b.txt"], [b"tools/c/3"], [b"tools/d/4", b"tools/d/5.log"]]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(1, 200), min_size=1, max_size=3),
    by_folder=st.booleans(),
    exclude=st.sampled_from([[], ["*.log"], ["/a/"]]),
)
def test_whatever_is_split_merges_to_the_same_list(
    host: Host, alice: Person, tools: Resource, cuts: list[int], by_folder: bool, exclude: list[str]
) -> None:
    actor = Actor.of(alice)
    item = draft_with(host, alice, "t", tools, exclude=exclude)
    before = members_of(item, alice)
    parts = [item]
    if by_folder:
        parts = reshaping.item_split_by_folder(item=item, actor=actor)
    for most in cuts:
        for part in list(parts):
            try:
                parts += reshaping.item_split_by_bytes(item=part, most_bytes=most, actor=actor)[1:]
            except ValidationError:
                continue  # it is in one part already
    split = [members_of(part, alice) for part in parts]
    files = [one.name for part in split for one in part if one.kind == "file"]
    assert sorted(files) == sorted(one.name for one in before if one.kind == "file")
    if len(parts) > 1:
        parts = [reshaping.items_merge(items=parts, actor=actor)]
    assert members_of(parts[0], alice) == before
    assert order_of(host) == ["t"]


def test_packs_that_one_pack_cannot_say_are_not_merged(host: Host, alice: Person, tools: Resource) -> None:
    actor = Actor.of(alice)
    docs = resource_of(host, "docs", b"/srv/docs", {b"x": 1, b"y": 2, b"z": 1})
    one = draft_with(host, alice, "one", tools, exclude=["*.o"])
    other = draft_with(host, alice, "other", docs)
    with pytest.raises(ValidationError, match="differ in their exclude rules"):
        reshaping.items_merge(items=[one, other], actor=actor)
    whole = draft_with(host, alice, "whole", docs, mode="existing")
    with pytest.raises(ValidationError, match="neither split nor merged"):
        reshaping.items_merge(items=[other, whole], actor=actor)
    first, _second, third = reshaping.item_split_by_bytes(item=other, most_bytes=2, actor=actor)
    with pytest.raises(ValidationError, match="do not follow one another"):
        reshaping.items_merge(items=[first, third], actor=actor)
    with pytest.raises(ValidationError, match="two packs or more"):
        reshaping.items_merge(items=[first, first], actor=actor)
    assert set(order_of(host)) >= {"one", "other", "whole"}


def test_files_whose_digest_nobody_knows_are_carried_and_counted(host: Host, alice: Person, tools: Resource) -> None:
    item = draft_with(host, alice, "t", tools)
    Item.objects.filter(pk=item.pk).update(leaves_out_carried=True)
    item.refresh_from_db()
    assert len(files_of(item, alice)) == 6
    assert item.warnings[0].startswith("6 files have no digest from the source yet")


def test_a_copy_says_the_same_under_another_name(host: Host, alice: Person, tools: Resource) -> None:
    item = draft_with(host, alice, "t", tools, exclude=["*.log"])
    made = reshaping.item_duplicate(item=item, name="again", actor=Actor.of(alice))
    assert members_of(made, alice) == members_of(item, alice)
    assert order_of(host) == ["t", "again"]
    for name in ("t", "no good", "x" * 101):
        with pytest.raises(ValidationError, match=r"taken already|letters, digits"):
            reshaping.item_duplicate(item=item, name=name, actor=Actor.of(alice))


def test_parts_wait_for_what_the_whole_waited_for(host: Host, alice: Person, tools: Resource) -> None:
    item = draft_with(host, alice, "t", tools)
    Pack.objects.filter(name="t").update(on_hold=True, hold_reason="a faster channel", hold_until_rate=500)
    item.refresh_from_db()
    made = reshaping.item_split_by_folder(item=Item.objects.get(), actor=Actor.of(alice))[1]
    assert (made.pack.on_hold, made.pack.hold_reason, made.pack.hold_until_rate) == (True, "a faster channel", 500)


def test_only_a_draft_of_ones_own_rights_is_reshaped(host: Host, alice: Person, bob: Person, tools: Resource) -> None:
    item = draft_with(host, alice, "t", tools)
    for act in (reshaping.item_split_by_folder, reshaping.item_split_by_resource):
        with pytest.raises(PermissionDenied):
            act(item=item, actor=Actor.of(bob))
    plans.revision_propose(revision=item.revision, actor=Actor.of(alice))
    item.refresh_from_db()
    with pytest.raises(ValidationError, match="can't be changed any more"):
        reshaping.item_split_by_folder(item=item, actor=Actor.of(alice))
    assert order_of(host) == ["t"]


def test_a_capability_needs_every_part_of_a_pack_that_was_split_and_the_whole_once_they_are_merged(
    host: Host, alice: Person, bob: Person, tools: Resource
) -> None:
    other = resource_of(host, "docs", b"/srv/docs", {b"x": 1})
    item = draft_with(host, alice, "t", tools)
    draft_with(host, alice, "docs", other)
    plan = item.revision.plan
    approved(item.revision, alice, bob)
    capability = Capability.objects.create(plan=plan, name="work")
    for pack in plan.packs.all():
        CapabilityNeed.objects.create(capability=capability, group=0, pack=pack)  # t or docs

    def needs() -> list[list[str]]:
        groups: dict[int, list[str]] = {}
        for need in CapabilityNeed.objects.select_related("pack").order_by("group", "pack__name"):
            groups.setdefault(need.group, []).append(need.pack.name)
        return sorted(groups.values())

    draft = plans.draft_start(host=host, actor=Actor.of(alice))
    reshaping.item_split_by_folder(item=draft.items.get(pack__name="t"), actor=Actor.of(alice))
    assert needs() == [["docs", "t"]]  # what is in force is as it was
    approved(draft, alice, bob)
    assert needs() == [["docs", "t"], ["docs", "t-c"], ["docs", "t-d"]]
    again = plans.draft_start(host=host, actor=Actor.of(alice))
    parts = list(again.items.filter(pack__name__startswith="t"))
    reshaping.items_merge(items=parts, actor=Actor.of(alice))
    approved(again, alice, bob)
    assert needs() == [["docs", "t"]]
    assert plan.packs.get(name="t-c").builds.get().state == BuildState.PLANNED  # its bytes would stay
    assert not again.items.filter(pack__name="t-c").exists()
