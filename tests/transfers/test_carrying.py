"""What an earlier pack carries, decided on rows: who is counted on, what is refused, and what an approval binds to."""

from __future__ import annotations

import hashlib
from functools import partial

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.people.models import Person
from inventory.models import Entry, Host, Resource, Scan, ScanState
from inventory.remote.names import RemoteName
from tests.transfers import jobs
from transfers.models import Build, BuildState, Item, Revision
from transfers.selectors.satisfying import carriers_awaited
from transfers.services import plans, reshaping

draft = partial(jobs.draft, leaves_out_carried=True)


pytestmark = [pytest.mark.django_db, pytest.mark.databases]

SHARED, BLOB = b"s" * 3000, b"b" * 2000
ONE = {b"own.txt": b"one's own", b"shared.bin": SHARED}
TWO = {b"blob": BLOB, b"blob copy": BLOB, b"copy.bin": SHARED, b"small": b"two's own"}


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="far", staging_path=RemoteName(b"/home/user/staging"))


def digested(host: Host, name: str, files: dict[bytes, bytes]) -> Resource:
    """A resource whose scan found these files and knows their digests."""
    path = RemoteName(b"/srv/" + name.encode())
    resource = Resource.objects.create(host=host, name=name, path=path)
    scan = Scan.objects.create(
        host=host, resource=resource, root=path, state=ScanState.FINISHED, finished_at=timezone.now(), folders=1
    )
    rows = [Entry(scan=scan, position=0, name=RemoteName(b""), kind="folder", mode=0o755)]
    for position, (entry, content) in enumerate(sorted(files.items()), 1):
        sha256 = hashlib.sha256(content).digest()
        rows.append(
            Entry(
                scan=scan,
                position=position,
                name=RemoteName(entry),
                kind="file",
                size_bytes=len(content),
                mode=0o644,
                sha256=sha256,
            )
        )
    Entry.objects.bulk_create(rows)
    return resource


def test_a_carrier_that_leaves_the_draft_is_not_counted_on(host: Host, alice: Person, bob: Person) -> None:
    one, two = digested(host, "one", ONE), digested(host, "two", TWO)
    revision = draft(host, alice, ("a", "files", [one]), ("b", "files", [two]))
    actor = Actor.of(alice)
    for item in revision.items.order_by("position"):
        plans.item_preview(item=item, actor=actor)
    item = Item.objects.get(pack__name="b")
    assert item.satisfied_list is not None
    plans.item_remove(item=Item.objects.get(pack__name="a"), actor=actor)
    left = Item.objects.get(pack__name="b")
    assert left.entry_list is None
    assert left.satisfied_list is None
    assert left.carriers == []
    plans.revision_propose(revision=revision, actor=actor)
    left.refresh_from_db()
    assert [row["pack"] for row in left.carriers] == ["b"]  # only its own copy of a file is left out


def test_without_the_wish_everything_is_carried_and_it_is_said_what_could_be_left_out(
    host: Host, alice: Person
) -> None:
    one, two = digested(host, "one", ONE), digested(host, "two", TWO)
    revision = draft(host, alice, ("a", "archive", [one]), ("b", "archive", [two]), leaves_out_carried=False)
    plans.revision_propose(revision=revision, actor=Actor.of(alice))
    item = Item.objects.get(pack__name="b")
    assert item.entry_list is not None and item.satisfied_list is None
    assert item.entry_list.total_bytes == 3000 + 2 * 2000 + 9
    assert {row["pack"]: row["bytes"] for row in item.carriers} == {"a": 3000, "b": 2000}


def test_a_pack_of_which_others_carry_everything_is_refused_with_what_to_do(host: Host, alice: Person) -> None:
    one, two = digested(host, "one", {b"x": SHARED}), digested(host, "two", {b"y": SHARED})
    revision = draft(host, alice, ("a", "files", [one]), ("b", "files", [two]))
    with pytest.raises(ValidationError, match="Other packs carry everything that is in pack “b”"):
        plans.revision_propose(revision=revision, actor=Actor.of(alice))


def test_the_approval_is_of_what_is_left_out_as_well(host: Host, alice: Person, bob: Person) -> None:
    one, two = digested(host, "one", ONE), digested(host, "two", TWO)
    revision = draft(host, alice, ("a", "files", [one]), ("b", "files", [two]))
    plans.revision_propose(revision=revision, actor=Actor.of(alice))
    Item.objects.filter(pack__name="b").update(satisfied_list=None)
    with pytest.raises(ValidationError, match="is not what is proposed now"):
        plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(bob))


def approved(revision: Revision, author: Person, approver: Person) -> list[Build]:
    plans.revision_propose(revision=revision, actor=Actor.of(author))
    plans.revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(approver))
    return [item.pack.builds.order_by("-number")[0] for item in revision.items.order_by("position")]


def test_a_build_is_kept_when_only_its_carrier_is_another_one_and_counts_on_that_one_unless_it_is_opened(
    host: Host, alice: Person, bob: Person
) -> None:
    actor = Actor.of(alice)
    one, two = digested(host, "one", ONE), digested(host, "two", TWO)
    first, build = approved(draft(host, alice, ("a", "files", [one]), ("b", "files", [two])), alice, bob)
    Build.objects.filter(pk=build.pk).update(state=BuildState.VERIFIED)
    other = plans.draft_start(host=host, actor=actor)
    copied = reshaping.item_duplicate(item=other.items.get(pack__name="a"), name="c", actor=actor)
    plans.item_remove(item=other.items.get(pack__name="a"), actor=actor)
    approved(other, alice, bob)
    build.refresh_from_db()
    assert build.pack.builds.count() == 1  # the same tree: nothing is made anew
    assert build.item.revision_id == other.pk
    assert carriers_awaited(build) == [copied.pack.name]  # “a” left the plan, and is not waited for
    assert Event.objects.filter(act="build.carriers").count() == 1
    assert first.pack.name == "a"


def test_a_file_more_that_another_pack_carries_makes_a_new_build_though_the_pack_carries_the_same(
    host: Host, alice: Person, bob: Person
) -> None:
    one, two = digested(host, "one", ONE), digested(host, "two", TWO)
    _first, build = approved(draft(host, alice, ("a", "files", [one]), ("b", "files", [two])), alice, bob)
    Resource.objects.filter(pk=two.pk).delete()
    again = digested(host, "two", {**TWO, b"copy more": SHARED})
    more = draft(host, alice, ("b", "files", [again]))
    _first, later = approved(more, alice, bob)
    assert later.number == 2
    assert later.entry_list_id == build.entry_list_id  # what is fetched is the same; the tree has a file more
