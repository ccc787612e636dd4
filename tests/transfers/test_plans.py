"""Plans: lists come from scans, approvals are of a digest by another person, and order stands outside of them."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.audit.services import verify_chain
from calculet.lifecycle import StateConflict
from calculet.people.models import Person
from inventory.models import Entry, Host, Resource, Scan, ScanState
from inventory.remote.names import RemoteName
from transfers.models import Approval, Build, BuildState, Item, Revision, RevisionState
from transfers.selectors.specs import list_members
from transfers.services import orders, plans
from transfers.services.entry_lists import Preview

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="far", staging_path=RemoteName(b"/home/user/staging"))


def resource_of(host: Host, name: str, path: bytes, entries: dict[bytes, int], *, special: int = 0) -> Resource:
    """A resource with a finished scan: name → bytes; a name that ends in a slash is a folder."""
    resource = Resource.objects.create(host=host, name=name, path=RemoteName(path))
    now = timezone.now()
    folders = 1 + sum(1 for entry in entries if entry.endswith(b"/"))
    scan = Scan.objects.create(
        host=host, resource=resource, root=RemoteName(path), state=ScanState.FINISHED, finished_at=now, folders=folders
    )
    rows = [Entry(scan=scan, position=0, name=RemoteName(b""), kind="folder", mode=0o755)]
    for position, (entry, size) in enumerate(sorted(entries.items()), 1):
        kind = "folder" if entry.endswith(b"/") else "file"
        raw = RemoteName(entry.rstrip(b"/"))
        rows.append(Entry(scan=scan, position=position, name=raw, kind=kind, size_bytes=size, mode=0o644))
    for number in range(special):
        rows.append(Entry(scan=scan, position=len(rows), name=RemoteName(b"socket%d" % number), kind="socket"))
    Entry.objects.bulk_create(rows)
    return resource


def draft_with(
    host: Host, author: Person, name: str, resource: Resource, mode: str = "archive", **rules: list[str]
) -> Item:
    actor = Actor.of(author)
    return plans.item_set(
        revision=plans.draft_start(host=host, actor=actor),
        pack_name=name,
        mode=mode,
        resources=[resource],
        include_rules=rules.get("include", []),
        exclude_rules=rules.get("exclude", []),
        actor=actor,
    )


def preview(item: Item, author: Person) -> Preview:
    return plans.item_preview(item=item, actor=Actor.of(author))


def test_the_preview_counts_what_is_in_and_out_and_keeps_the_list(host: Host, alice: Person) -> None:
    model = resource_of(host, "model", b"/srv/model", {b"a.yaml": 5, b"param_blk0.bin": 900, b"sub/": 0, b"sub/b": 7})
    item = draft_with(host, alice, "runtime", model, exclude=["param_blk*.bin", "*.never"])
    seen = preview(item, alice)
    assert (seen.file_count, seen.total_bytes, seen.excluded_count, seen.excluded_bytes) == (2, 12, 1, 900)
    assert seen.excluded_sample == ("/srv/model/param_blk0.bin",)
    assert seen.warnings == ("The rule “*.never” matches nothing.",)
    item.refresh_from_db()
    assert item.entry_list is not None
    names = [member.name for member in list_members(item.entry_list)]
    assert names == [b"srv/model", b"srv/model/a.yaml", b"srv/model/sub", b"srv/model/sub/b"]


def test_folders_above_what_an_include_pattern_chooses_come_along(host: Host, alice: Person) -> None:
    tree = resource_of(host, "tree", b"/t", {b"a/": 0, b"a/b/": 0, b"a/b/x.c": 1, b"other/": 0, b"other/y.o": 1})
    item = draft_with(host, alice, "sources", tree, include=["*.c"])
    preview(item, alice)
    item.refresh_from_db()
    assert item.entry_list is not None
    assert [one.name for one in list_members(item.entry_list)] == [b"t", b"t/a", b"t/a/b", b"t/a/b/x.c"]


def test_an_entry_that_another_pack_carries_is_a_warning_with_its_bytes(host: Host, alice: Person) -> None:
    tree = resource_of(host, "tree", b"/t", {b"a": 1000, b"b": 20})
    preview(draft_with(host, alice, "one", tree), alice)
    seen = preview(draft_with(host, alice, "two", tree, include=["a"]), alice)
    assert seen.warnings == ("Pack “one” carries 1 of these files as well (1,000 bytes).",)


def test_what_cannot_be_packed_is_counted_by_kind(host: Host, alice: Person) -> None:
    tree = resource_of(host, "tree", b"/t", {b"a": 1}, special=2)
    seen = preview(draft_with(host, alice, "one", tree), alice)
    assert seen.warnings == ("2 entries of the kind “socket” cannot be packed and are left out.",)


@pytest.mark.parametrize("count", [12, 101, 1001])
def test_parts_are_ordered_by_number_not_by_letter(host: Host, alice: Person, count: int) -> None:
    names = [b"i.part-%d" % number for number in range(1, count + 1)]
    tree = resource_of(host, "parts", b"/p", {b"SHA256SUMS": 100, **dict.fromkeys(reversed(names), 8)})
    item = draft_with(host, alice, "image", tree, mode="parts")
    assert preview(item, alice).total_bytes == 8 * count
    item.refresh_from_db()
    assert item.entry_list is not None
    files = [one.name for one in list_members(item.entry_list) if one.kind == "file"]
    assert files == [b"p/" + name for name in names]


@pytest.mark.parametrize(("change", "sentence"), [({b"i.part-57": None}, "number 57"), ({b"notes": 8}, "p/notes")])
def test_a_set_of_parts_with_a_gap_or_a_stray_is_refused(
    host: Host, alice: Person, change: dict[bytes, int | None], sentence: str
) -> None:
    files = dict.fromkeys((b"i.part-%d" % number for number in range(101)), 8) | change
    tree = resource_of(host, "parts", b"/p", {name: size for name, size in files.items() if size is not None})
    with pytest.raises(ValidationError, match=sentence):
        preview(draft_with(host, alice, "image", tree, mode="parts"), alice)


@pytest.mark.parametrize(
    ("mode", "rules", "sentence"),
    [
        ("existing", {}, "name exactly one"),
        ("archive", {"include": ["nothing"]}, "would be empty"),
        ("files", {"include": ["d/"]}, "names no file"),
    ],
)
def test_content_that_a_mode_cannot_carry_is_refused(
    host: Host, alice: Person, mode: str, rules: dict[str, list[str]], sentence: str
) -> None:
    tree = resource_of(host, "tree", b"/t", {b"a": 1, b"b": 2, b"d/": 0})
    item = draft_with(host, alice, "one", tree, mode=mode, **rules)
    with pytest.raises(ValidationError) as caught:
        preview(item, alice)
    assert sentence.lower() in caught.value.messages[0].lower()


def test_a_resource_that_was_not_scanned_cannot_be_previewed(host: Host, alice: Person) -> None:
    resource = Resource.objects.create(host=host, name="new", path=RemoteName(b"/new"))
    with pytest.raises(ValidationError, match="not scanned yet"):
        preview(draft_with(host, alice, "one", resource), alice)


def proposed(host: Host, author: Person, *, rules: list[str] | None = None) -> Revision:
    tree = Resource.objects.filter(name="tree").first() or resource_of(host, "tree", b"/t", {b"a": 1, b"b": 2})
    item = draft_with(host, author, "one", tree, exclude=rules or [])
    return plans.revision_propose(revision=item.revision, actor=Actor.of(author))


def test_the_author_cannot_approve_what_they_proposed(host: Host, alice: Person) -> None:
    revision = proposed(host, alice)
    with pytest.raises(PermissionDenied):
        plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(alice))


def test_an_author_who_is_an_approver_as_well_is_refused_by_service_and_database(
    host: Host, alice: Person, bob: Person
) -> None:
    alice.groups.add(*bob.groups.all())
    author = Person.objects.get(pk=alice.pk)
    revision = proposed(host, author)
    with pytest.raises(ValidationError, match="yourself"):
        plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(author))
    with pytest.raises(IntegrityError), transaction.atomic():
        Approval.objects.create(
            revision=revision, person=author, author=author, decision="approve", digest=revision.digest
        )
    assert not Build.objects.exists()


def test_an_approval_of_another_digest_changes_nothing(host: Host, alice: Person, bob: Person) -> None:
    revision = proposed(host, alice)
    with pytest.raises(ValidationError, match="Nothing was decided"):
        plans.revision_approve(revision=revision, digest="0" * 64, actor=Actor.of(bob))
    revision.refresh_from_db()
    assert revision.state == RevisionState.PROPOSED
    assert not Approval.objects.exists()


def test_content_that_changed_after_the_proposal_voids_the_approval(host: Host, alice: Person, bob: Person) -> None:
    revision = proposed(host, alice)
    Item.objects.filter(revision=revision).update(exclude_rules=["b"])
    with pytest.raises(ValidationError, match="Nothing was decided"):
        plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(bob))


def test_a_proposed_revision_can_not_be_edited(host: Host, alice: Person) -> None:
    revision = proposed(host, alice)
    with pytest.raises(ValidationError, match="can't be changed"):
        plans.item_remove(item=revision.items.get(), actor=Actor.of(alice))


def test_unchanged_content_keeps_its_build_and_new_content_makes_another(
    host: Host, alice: Person, bob: Person
) -> None:
    first = proposed(host, alice)
    plans.revision_approve(revision=first, digest=first.digest, actor=Actor.of(bob))
    again = plans.draft_start(host=host, actor=Actor.of(alice))
    again = plans.revision_propose(revision=again, actor=Actor.of(alice))
    plans.revision_approve(revision=again, digest=again.digest, actor=Actor.of(bob))
    assert Build.objects.count() == 1
    other = proposed(host, alice, rules=["b"])
    plans.revision_approve(revision=other, digest=other.digest, actor=Actor.of(bob))
    states = list(Build.objects.order_by("number").values_list("number", "state"))
    assert states == [(1, BuildState.REPLACED), (2, BuildState.PLANNED)]
    first.refresh_from_db()
    assert first.state == RevisionState.SUPERSEDED


def test_two_who_decide_at_once_leave_one_decision(host: Host, alice: Person, bob: Person, dan: Person) -> None:
    revision = proposed(host, alice)
    late = Revision.objects.get(pk=revision.pk)
    plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(bob))
    with pytest.raises(StateConflict):
        plans.revision_decline(revision=late, digest=late.digest, actor=Actor.of(dan))
    with pytest.raises(StateConflict, match="it is “approved” now"):
        plans.revision_approve(revision=late, digest=late.digest, actor=Actor.of(dan))
    assert Approval.objects.count() == 1
    assert Revision.objects.get(pk=revision.pk).state == RevisionState.APPROVED


def test_every_act_of_a_plan_is_an_event_in_one_chain(host: Host, alice: Person, bob: Person) -> None:
    revision = proposed(host, alice)
    plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(bob))
    acts = list(Event.objects.order_by("sequence").values_list("act", "actor"))
    assert [act for act, _actor in acts] == [
        "plan.draft",
        "plan.item",
        "plan.preview",
        "plan.propose",
        "plan.approve",
        "landing.add",
        "build.make",
    ]
    assert acts[-1] == ("build.make", "bob")
    assert verify_chain().whole


def test_order_changes_only_when_the_person_saw_the_present_one(host: Host, alice: Person) -> None:
    tree = resource_of(host, "tree", b"/t", {b"a": 1})
    packs = [draft_with(host, alice, name, tree).pack for name in ("one", "two", "three")]
    ids, actor = [pack.pk for pack in packs], Actor.of(alice)
    plan = packs[0].plan
    orders.packs_reorder(plan=plan, pack_ids=ids[::-1], seen_ids=ids, actor=actor)
    assert list(plan.packs.values_list("name", flat=True)) == ["three", "two", "one"]
    with pytest.raises(orders.OrderStale):
        orders.packs_reorder(plan=plan, pack_ids=ids, seen_ids=ids, actor=actor)
    assert list(plan.packs.values_list("name", flat=True)) == ["three", "two", "one"]


def test_a_hold_needs_a_reason_and_ends_by_release(host: Host, alice: Person) -> None:
    pack = draft_with(host, alice, "one", resource_of(host, "tree", b"/t", {b"a": 1})).pack
    actor = Actor.of(alice)
    with pytest.raises(ValidationError, match="Say why"):
        orders.pack_hold(pack=pack, reason=" ", actor=actor)
    orders.pack_hold(pack=pack, reason="waits for a faster way", actor=actor)
    pack.refresh_from_db()
    assert (pack.on_hold, pack.hold_reason) == (True, "waits for a faster way")
    orders.pack_release(pack=pack, actor=actor)
    pack.refresh_from_db()
    assert (pack.on_hold, pack.hold_reason) == (False, "")


def test_people_without_the_role_change_nothing(host: Host, alice: Person, carol: Person, bob: Person) -> None:
    pack = draft_with(host, alice, "one", resource_of(host, "tree", b"/t", {b"a": 1})).pack
    for person in (carol, bob):
        with pytest.raises(PermissionDenied):
            orders.pack_pause(pack=pack, actor=Actor.of(person))
    pack.refresh_from_db()
    assert not pack.is_paused
