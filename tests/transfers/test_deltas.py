"""Drift of packs, and delta packs, over a real sshd: from a later scan to members at home that were read again."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.audit.services import verify_chain
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import Host, Resource, Scan
from inventory.services import digest_policy, digest_runs
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd
from tests.transfers import jobs
from transfers.models import Build, BuildState, Item, ItemDrift, Pack, Revision, RevisionState
from transfers.selectors.drifting import items_to_compare
from transfers.selectors.specs import landed_path, list_members
from transfers.services.deltas import delta_add
from transfers.services.drifts import drift_run
from transfers.services.plans import draft_start, item_preview, item_set, revision_approve, revision_propose

pytestmark = pytest.mark.django_db
BAD = b"b\xff\nd"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "folder").mkdir(parents=True)
    for name in ("same", "touched", "gone", "grown"):
        (top / name).write_bytes(b"12345")
    (top / "folder" / "deep").write_bytes(b"deep")
    (top / "link").symlink_to("same")
    return top


@pytest.fixture
def host(sshd: Sshd, alice: Person) -> Host:
    return host_make(sshd, alice)


@pytest.fixture
def row(host: Host, alice: Person, tree: Path) -> Resource:
    made = resource_make(host, alice, tree)
    jobs.scan(made, alice)
    return made


@pytest.fixture
def in_force(row: Resource, alice: Person, bob: Person, tmp_path: Path) -> Build:
    """A pack of the tree that is planned."""
    jobs.landing_make(tmp_path / "home")
    return jobs.approve(jobs.propose(row.host, alice, ("data", "archive", [row])), bob)[0]


def change(tree: Path) -> None:
    """One of each: an edit that keeps size and time, one that grew, one gone, one new with a name that is no text."""
    kept = (tree / "touched").stat()
    (tree / "touched").write_bytes(b"54321")
    os.utime(tree / "touched", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    (tree / "gone").unlink()
    (tree / "grown").write_bytes(b"123456")
    (tree / "folder" / os.fsdecode(BAD)).write_bytes(b"new")
    (tree / "link").unlink()
    (tree / "link").symlink_to("grown")


def compared() -> None:
    """What ticks would have done."""
    for pk in items_to_compare():
        drift_run(pk)
    assert items_to_compare() == []


def rescanned(row: Resource, person: Person) -> None:
    jobs.scan(row, person)
    compared()


def below(tree: Path, build_or_item: Any) -> set[bytes]:
    """Names of an explicit list below the tree."""
    top = os.fsencode(tree).strip(b"/") + b"/"
    return {member.name.removeprefix(top) for member in list_members(build_or_item.entry_list)}


def drift_by_name(tree: Path) -> dict[str, tuple[str, str]]:
    return {one["name"].removeprefix(f"{tree}/"): (one["what"], one["reason"]) for one in ItemDrift.objects.get().names}


def packed_files(build: Build) -> dict[bytes, bytes]:
    """What lies in a landed archive, by names below the tree."""
    content = landed_path(build).read_bytes()
    if build.archive_name.endswith(".zst"):
        content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    found = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for one in archive:
            file = archive.extractfile(one) if one.isfile() else None
            if file is not None:
                found[os.fsencode(one.name).rpartition(b"/tree/")[2]] = file.read()
    return found


DRIFTED = {
    "touched": ("changed", "touched"),
    "grown": ("changed", "size"),
    "link": ("changed", "content"),
    "gone": ("removed", ""),
    "folder/b\\xff\\nd": ("added", ""),
}
TO_BRING = {b"touched", b"grown", b"link", b"folder/" + BAD}


class TestDrift:
    @pytest.mark.databases
    def test_a_plan_that_rests_on_what_changed_is_marked_with_the_files(
        self, in_force: Build, row: Resource, alice: Person, tree: Path, signed_in: Callable[[Person], Client]
    ) -> None:
        rescanned(row, alice)
        assert not ItemDrift.objects.exists()
        change(tree)
        rescanned(row, alice)
        drift = ItemDrift.objects.get()
        first = Scan.objects.order_by("-pk")[0]
        assert (drift.item, drift.since, drift.doubt) == (in_force.item, first.finished_at, "")
        assert (drift.added, drift.changed, drift.removed, drift.bytes_to_bring) == (1, 3, 1, 14)
        assert drift_by_name(tree) == DRIFTED
        # Later scans that find nothing new lose nothing, not even what only the inode shows.
        rescanned(row, alice)
        (tree / "later").touch()
        rescanned(row, alice)
        drift = ItemDrift.objects.get()
        assert drift.since == first.finished_at
        assert drift_by_name(tree) == {**DRIFTED, "later": ("added", "")}
        client = signed_in(alice)
        plan = client.get(reverse("transfers:plan", args=[row.host.name])).text
        assert "stale since" in plan
        page = client.get(reverse("transfers:pack", args=[row.host.name, "data"])).text
        assert "folder/b\\xff\\nd" in page and "gone" in page and 'id="delta"' in page
        assert "listed before its files changed" in client.get(reverse("transfers:overview")).text
        assert Event.objects.filter(act="pack.stale").count() == 2

    def test_what_was_put_back_is_no_drift_where_a_digest_can_tell(
        self, in_force: Build, row: Resource, alice: Person, tree: Path
    ) -> None:
        jobs.until_packed(in_force)  # member digests are taken at the source
        (tree / "same").write_bytes(b"other")
        rescanned(row, alice)
        assert drift_by_name(tree) == {"same": ("changed", "time")}
        (tree / "same").write_bytes(b"12345")
        rescanned(row, alice)
        assert drift_by_name(tree) == {"same": ("changed", "time")}
        digest_policy.host_policy_set(host=row.host, policy="all", over_bytes=None, actor=Actor.of(alice))
        for run in digest_policy.digests_ask_due():
            digest_runs.digests_run(run)
        jobs.scan(row, alice)
        compared()
        assert not ItemDrift.objects.exists()
        assert Event.objects.filter(act="pack.no_longer_stale").exists()

    def test_an_edit_that_keeps_size_and_time_is_not_lost_by_proposing_the_same_list_again(
        self, in_force: Build, row: Resource, alice: Person, bob: Person, tree: Path
    ) -> None:
        jobs.until_packed(in_force)
        kept = (tree / "same").stat()
        (tree / "same").write_bytes(b"54321")
        os.utime(tree / "same", ns=(kept.st_atime_ns, kept.st_mtime_ns))
        rescanned(row, alice)
        (build,) = jobs.approve(jobs.propose(row.host, alice, ("data", "archive", [row])), bob)
        assert build == in_force  # the list says nothing of inodes, so it is the same
        compared()
        drift = ItemDrift.objects.get(item__revision__state=RevisionState.APPROVED)
        assert [one["reason"] for one in drift.names] == ["touched"]

    def test_more_changes_than_are_kept_are_said_to_be_in_doubt(
        self, in_force: Build, row: Resource, alice: Person, tree: Path
    ) -> None:
        change(tree)
        jobs.scan(row, alice)
        Scan.objects.order_by("-pk")[0].changes.filter(name=b"touched").delete()
        compared()
        assert "may be missing here" in ItemDrift.objects.get().doubt


class TestDeltas:
    def test_a_delta_pack_goes_the_whole_way_and_the_pack_stays_as_it_is(
        self, in_force: Build, row: Resource, alice: Person, bob: Person, tree: Path,
        signed_in: Callable[[Person], Client],
    ) -> None:  # fmt: skip
        jobs.bring_home([in_force])
        assert in_force.state == BuildState.OPENED, in_force.problem
        change(tree)
        rescanned(row, alice)
        row.refresh_from_db()
        assert row.stale_since is not None

        address = reverse("transfers:delta-add", args=[row.host.name, "data"])
        answer = signed_in(alice).post(address, {"act_key": "k" * 32}, follow=True)
        assert "data-delta-1 is in the draft" in answer.text and "not on the host any more" in answer.text
        draft = Revision.objects.get(state=RevisionState.DRAFT)
        assert below(tree, draft.items.get(pack__name="data-delta-1")) == TO_BRING
        revision_propose(revision=draft, actor=Actor.of(alice))
        base, delta = jobs.approve(draft, bob)
        assert base == in_force and delta.pack.name == "data-delta-1"

        jobs.bring_home([delta])
        assert delta.state == BuildState.OPENED, delta.problem
        assert below(tree, delta) == TO_BRING and delta.member_count == 4
        contents = packed_files(delta)
        assert contents == {b"touched": b"54321", b"grown": b"123456", b"folder/" + BAD: b"new"}
        in_force.refresh_from_db()
        assert in_force.state == BuildState.OPENED

        compared()
        drift = ItemDrift.objects.get(item__revision=draft)
        assert (drift.to_bring, drift.removed) == (0, 1)
        assert Resource.objects.get(pk=row.pk).stale_since is None
        page = signed_in(alice).get(reverse("transfers:pack", args=[row.host.name, "data"])).text
        assert "Nothing is to be brought" in page and "data-delta-1" in page and 'id="delta"' not in page
        assert (
            "A delta pack" in signed_in(alice).get(reverse("transfers:pack", args=[row.host.name, "data-delta-1"])).text
        )
        assert verify_chain().whole

    def test_a_second_delta_brings_only_what_changed_after_the_first(
        self, in_force: Build, row: Resource, alice: Person, bob: Person, tree: Path
    ) -> None:
        change(tree)
        rescanned(row, alice)
        first = delta_add(pack=in_force.pack, actor=Actor.of(alice))
        jobs.approve(revision_propose(revision=first.revision, actor=Actor.of(alice)), bob)
        compared()
        (tree / "grown").write_bytes(b"1234567")
        (tree / "second").write_bytes(b"2")
        rescanned(row, alice)
        second = delta_add(pack=in_force.pack, actor=Actor.of(alice))
        item_preview(item=second, actor=Actor.of(alice))
        assert second.pack.name == "data-delta-2" and below(tree, second) == {b"grown", b"second"}
        builds = jobs.approve(revision_propose(revision=second.revision, actor=Actor.of(alice)), bob)
        assert [build.number for build in builds] == [1, 1, 1]  # what was planned before is not made anew
        assert below(tree, builds[1]) == TO_BRING

    def test_lists_of_other_packs_are_not_made_anew_by_it_but_by_the_next_draft(
        self, row: Resource, host: Host, alice: Person, bob: Person, tree: Path, tmp_path: Path
    ) -> None:
        jobs.landing_make(tmp_path / "home")
        packs = [("data", "archive", [row]), ("other", "files", [row])]
        _, other = jobs.approve(jobs.propose(host, alice, *packs), bob)
        change(tree)
        rescanned(row, alice)
        item = delta_add(pack=Pack.objects.get(name="data"), actor=Actor.of(alice))
        jobs.approve(revision_propose(revision=item.revision, actor=Actor.of(alice)), bob)
        assert Pack.objects.get(name="other").builds.get() == other
        draft = draft_start(host=host, actor=Actor.of(alice))
        assert dict(draft.items.values_list("pack__name", "keeps_list")) == {
            "data": True,
            "other": False,
            "data-delta-1": True,
        }
        # Changing the pack itself brings all of it anew; then its delta pack has nothing left to bring.
        item_set(
            revision=draft,
            pack_name="data",
            mode="archive",
            resources=[row],
            include_rules=(),
            exclude_rules=(),
            actor=Actor.of(alice),
        )
        item_set(
            revision=draft,
            pack_name="data-delta-1",
            mode="archive",
            resources=[row],
            include_rules=(),
            exclude_rules=(),
            actor=Actor.of(alice),
        )
        with pytest.raises(ValidationError, match="would be empty"):
            revision_propose(revision=draft, actor=Actor.of(alice))

    def test_more_that_changes_before_it_is_proposed_is_in_it(
        self, in_force: Build, row: Resource, alice: Person, tree: Path
    ) -> None:
        change(tree)
        rescanned(row, alice)
        item = delta_add(pack=in_force.pack, actor=Actor.of(alice))
        item_preview(item=item, actor=Actor.of(alice))
        (tree / "later").write_bytes(b"!")
        rescanned(row, alice)
        revision_propose(revision=item.revision, actor=Actor.of(alice))
        item.refresh_from_db()
        assert below(tree, item) == TO_BRING | {b"later"}

    def test_the_approval_is_of_what_it_is_a_delta_of(
        self, in_force: Build, row: Resource, alice: Person, bob: Person, tree: Path
    ) -> None:
        change(tree)
        rescanned(row, alice)
        item = delta_add(pack=in_force.pack, actor=Actor.of(alice))
        revision = revision_propose(revision=item.revision, actor=Actor.of(alice))
        Item.objects.filter(pk=item.pk).update(delta_of=None)
        with pytest.raises(ValidationError, match="is not what is proposed now"):
            revision_approve(revision=revision, digest=revision.digest, actor=Actor.of(bob))

    def test_it_is_refused_with_a_sentence_where_it_means_nothing(
        self, in_force: Build, row: Resource, alice: Person, bob: Person, tree: Path
    ) -> None:
        with pytest.raises(NotAllowed):
            delta_add(pack=in_force.pack, actor=Actor.of(bob))
        with pytest.raises(ValidationError, match="Nothing was added or changed"):
            delta_add(pack=in_force.pack, actor=Actor.of(alice))
        change(tree)
        rescanned(row, alice)
        draft = draft_start(host=row.host, actor=Actor.of(alice))
        item_preview(item=draft.items.get(), actor=Actor.of(alice))  # made anew on what lies there now
        with pytest.raises(ValidationError, match="open draft changes pack"):
            delta_add(pack=in_force.pack, actor=Actor.of(alice))
        Item.objects.filter(revision__state=RevisionState.APPROVED).update(mode="existing")
        with pytest.raises(ValidationError, match="fetched anew as a whole"):
            delta_add(pack=in_force.pack, actor=Actor.of(alice))
