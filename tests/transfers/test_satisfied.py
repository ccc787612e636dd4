"""No byte twice, over a real sshd: what an earlier pack carries is left to it, and every tree is made whole again."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host, Resource
from inventory.services.digest_runs import digests_request, digests_run
from tests.hosts import host_make, resource_make
from tests.parts import need
from tests.sshd import Sshd
from tests.transfers import jobs
from tests.transfers.test_main_job import same_tree, sums_pass, unpack
from transfers.models import Build, BuildState, Check, Revision, UnpackState
from transfers.selectors.specs import landed_path, list_members
from transfers.services import plans
from transfers.services.builds import build_replace
from transfers.services.ticks import due_now
from transfers.services.unpacks import unpack_request, unpack_run
from transfers.services.verification import open_run

draft = partial(jobs.draft, leaves_out_carried=True)


pytestmark = pytest.mark.django_db

SHARED = os.urandom(300_000)
BLOB = os.urandom(200_000)


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """`one` carries what `two` holds as well; `two` has hard links, odd modes and times, and a copy of its own."""
    one, two = tmp_path / "far/one", tmp_path / "far/two"
    (one / "sub").mkdir(parents=True)
    (two / "deep").mkdir(parents=True)
    (one / "sub/shared.bin").write_bytes(SHARED)
    (one / "own.txt").write_text("one's own\n")
    (two / "deep/copy.bin").write_bytes(SHARED)
    (two / "deep/copy.bin").chmod(0o751)
    os.utime(two / "deep/copy.bin", ns=(10**18, 10**18 + 123_456_789))
    os.link(two / "deep/copy.bin", two / "again.bin")
    (two / "blob").write_bytes(BLOB)
    (two / "blob copy \xe9").write_bytes(BLOB)
    (two / "small").write_text("two's own\n")
    (two / "empty").touch()
    os.link(two / "small", two / "small too")
    (two / "link").symlink_to("deep/copy.bin")
    return tmp_path / "far"


def digested(host: Host, person: Person, *paths: Path) -> list[Resource]:
    """Scanned resources whose digests were taken at the source."""
    found = []
    for path in paths:
        resource = resource_make(host, person, path, name=path.name)
        jobs.scan(resource, person)
        digests_run(digests_request(resource=resource, actor=Actor.of(person)).pk)
        found.append(resource)
    return found


def go(revision: Revision, author: Person, approver: Person) -> list[Build]:
    plans.revision_propose(revision=revision, actor=Actor.of(author))
    return jobs.approve(revision, approver)


def names_of(build: Build) -> set[bytes]:
    return {member.name.rpartition(b"/")[2] for member in list_members(build.entry_list) if member.kind == "file"}


@pytest.mark.parametrize(("first", "second"), [("archive", "archive"), ("files", "files")])
def test_what_an_earlier_pack_carries_is_left_to_it_and_the_tree_is_whole_again(
    sshd: Sshd, alice: Person, bob: Person, tmp_path: Path, trees: Path, first: str, second: str
) -> None:
    need("zstd")
    jobs.landing_make(tmp_path / "home")
    host = host_make(sshd, alice)
    one, two = digested(host, alice, trees / "one", trees / "two")
    builds = go(draft(host, alice, ("a", first, [one]), ("b", second, [two])), alice, bob)
    later = builds[1]
    kept = {b"small", b"empty", b"blob"} | ({b"small too"} if second == "archive" else set())
    assert names_of(later) == kept
    carried = {row["pack"]: (row["files"], row["bytes"]) for row in later.item.carriers}
    assert carried["a"] == ((2, 300_000) if second == "archive" else (2, 600_000))
    jobs.bring_home(builds)
    assert [build.state for build in builds] == [BuildState.OPENED, BuildState.OPENED], later.problem
    assert later.size_bytes is not None and later.size_bytes < 300_000
    assert sums_pass(later)
    assert [(row["pack"], row["build"]) for row in later.satisfied_by] == [("a", 1), ("b", 1)]
    assert Check.objects.filter(build=later, message__contains="satisfied by pack “a”, build 1").exists()
    assert b"deep/copy.bin" in (Path(later.landing.path) / later.folder / "satisfied.tsv").read_bytes()
    report = Path(later.landing.path) / later.reports.get().folder
    assert json.loads((report / "report.json").read_text())["satisfied"]["by"] == later.satisfied_by
    assert "Held by another build" in (report / "report.html").read_text()
    assert (report / "satisfied.tsv").exists()
    made = unpack(later, alice) / str(trees / "two").lstrip("/")
    assert same_tree(trees / "two", made)
    assert (made / "deep/copy.bin").stat().st_mtime_ns == (trees / "two/deep/copy.bin").stat().st_mtime_ns
    assert (made / "deep/copy.bin").samefile(made / "again.bin")
    assert (made / "small").samefile(made / "small too")
    assert not (made / "blob").samefile(made / "blob copy \xe9")
    two.refresh_from_db()
    assert two.verified_bytes == sum(path.stat().st_size for path in (trees / "two").rglob("*") if not path.is_symlink()
                                     and path.is_file())  # fmt: skip


def test_a_pack_is_opened_only_when_its_carrier_is_and_its_unpack_waits_and_says_for_whom(
    sshd: Sshd, alice: Person, bob: Person, tmp_path: Path, trees: Path
) -> None:
    jobs.landing_make(tmp_path / "home")
    host = host_make(sshd, alice)
    one, two = digested(host, alice, trees / "one", trees / "two")
    carrier, build = go(draft(host, alice, ("a", "files", [one]), ("b", "files", [two])), alice, bob)
    jobs.until_packed(carrier)
    jobs.until_packed(build)
    carrier.pack.is_paused = True
    carrier.pack.save()
    jobs.bring_home([build])
    assert build.state == BuildState.VERIFIED
    assert not due_now().opens
    carrier.pack.is_paused = False
    carrier.pack.save()
    jobs.bring_home([carrier])
    assert due_now().opens == (build.pk,)
    open_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.OPENED
    build_replace(build=carrier, actor=Actor.of(alice))  # made anew: until it is opened, b's tree is not whole
    act = unpack_request(build=build, actor=Actor.of(alice))
    unpack_run(act.pk)
    act.refresh_from_db()
    assert act.state == UnpackState.QUEUED
    assert "It waits for pack “a”" in act.problem
    assert act.pk not in due_now().unpacks
    jobs.bring_home([carrier.pack.builds.order_by("-number")[0]])
    assert act.pk in due_now().unpacks
    unpack_run(act.pk)
    act.refresh_from_db()
    assert (act.state, act.problem) == (UnpackState.FINISHED, "")


def test_content_that_changed_before_its_carrier_was_packed_is_named_and_never_taken_for_the_old_one(
    sshd: Sshd, alice: Person, bob: Person, tmp_path: Path, trees: Path
) -> None:
    jobs.landing_make(tmp_path / "home")
    host = host_make(sshd, alice)
    one, two = digested(host, alice, trees / "one", trees / "two")
    revision = draft(host, alice, ("a", "files", [one]), ("b", "files", [two]))
    plans.revision_propose(revision=revision, actor=Actor.of(alice))
    (trees / "one/sub/shared.bin").write_bytes(os.urandom(300_000))
    carrier, build = jobs.approve(revision, bob)
    assert jobs.until_packed(carrier).state == BuildState.NEEDS_DECISION
    jobs.bring_home([build])
    assert build.state == BuildState.VERIFIED
    for resource in (one, two):
        jobs.scan(resource, alice)
        digests_run(digests_request(resource=resource, actor=Actor.of(alice)).pk)
    renewed, later = go(plans.draft_start(host=host, actor=Actor.of(alice)), alice, bob)
    assert b"again.bin" in names_of(later)  # nobody else carries it now
    jobs.bring_home([renewed, later])
    build.refresh_from_db()
    assert (build.state, later.state) == (BuildState.REPLACED, BuildState.OPENED)
    assert same_tree(trees / "two", unpack(later, alice) / str(trees / "two").lstrip("/"))


def test_a_satisfied_file_that_changed_at_the_source_needs_a_decision(
    sshd: Sshd, alice: Person, bob: Person, tmp_path: Path, trees: Path
) -> None:
    jobs.landing_make(tmp_path / "home")
    host = host_make(sshd, alice)
    one, two = digested(host, alice, trees / "one", trees / "two")
    revision = draft(host, alice, ("a", "files", [one]), ("b", "files", [two]))
    plans.revision_propose(revision=revision, actor=Actor.of(alice))
    about = (trees / "two/deep/copy.bin").stat()
    (trees / "two/deep/copy.bin").write_bytes(os.urandom(300_000))
    os.utime(trees / "two/deep/copy.bin", ns=(about.st_mtime_ns, about.st_mtime_ns))  # digests decide, times do not
    _carrier, build = jobs.approve(revision, bob)
    assert jobs.until_packed(build).state == BuildState.NEEDS_DECISION
    assert {one["name"].rpartition("/")[2] for one in build.deviations} == {"copy.bin", "again.bin"}


def test_a_build_whose_carrier_holds_something_else_fails_with_what_to_do(
    sshd: Sshd, alice: Person, bob: Person, tmp_path: Path, trees: Path
) -> None:
    jobs.landing_make(tmp_path / "home")
    host = host_make(sshd, alice)
    one, two = digested(host, alice, trees / "one", trees / "two")
    carrier, build = go(draft(host, alice, ("a", "files", [one]), ("b", "files", [two])), alice, bob)
    jobs.bring_home([carrier])
    Build.objects.filter(pk=carrier.pk).update(member_list=build.entry_list)  # as if it had been packed otherwise
    jobs.bring_home([build])
    assert build.state == BuildState.FAILED
    assert "2 files of this pack are left to other packs" in build.problem
    assert "left to “a”. What is here is kept. Propose the plan anew" in build.problem


def test_an_existing_archive_that_lies_in_a_later_tree_is_lent_whole(
    sshd: Sshd, alice: Person, bob: Person, tmp_path: Path, trees: Path
) -> None:
    jobs.landing_make(tmp_path / "home")
    host = host_make(sshd, alice)
    archive = jobs.tar_gz(trees / "two/deep/base.tar.gz", {"in": os.urandom(50_000)})
    whole, two = digested(host, alice, archive, trees / "two/deep")
    builds = go(draft(host, alice, ("a", "existing", [whole]), ("b", "archive", [two])), alice, bob)
    assert b"base.tar.gz" not in names_of(builds[1])
    jobs.bring_home(builds)
    assert builds[1].state == BuildState.OPENED, builds[1].problem
    made = unpack(builds[1], alice) / str(trees / "two/deep").lstrip("/")
    assert same_tree(trees / "two/deep", made)
    assert landed_path(builds[0]).read_bytes() == (made / "base.tar.gz").read_bytes()
