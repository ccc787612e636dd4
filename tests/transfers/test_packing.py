"""Packing on a real host: what was previewed is what is packed, and whatever deviates is named."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host, Resource
from tests.hosts import host_make, resource_make
from tests.parts import need
from tests.sshd import Sshd, busybox_folder
from tests.transfers import jobs
from transfers.models import Build, BuildState, Check, Compression
from transfers.selectors.specs import list_members
from transfers.services.builds import build_replace, build_retry, deviations_accept
from transfers.services.packing import pack_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    jobs.landing_make(tmp_path / "home")
    return jobs.tree_make(tmp_path / "far", nasty=False)


@pytest.fixture
def host(sshd: Sshd, alice: Person) -> Host:
    need("zstd")
    return host_make(sshd, alice)


def approved(host: Host, path: Path, alice: Person, bob: Person, mode: str = "archive") -> Build:
    resource = resource_make(host, alice, path)
    jobs.scan(resource, alice)
    return jobs.approve(jobs.propose(host, alice, ("pack", mode, [resource])), bob)[0]


def told(build: Build) -> dict[str, str]:
    return {Path(one["name"]).name: one["what"] for one in build.deviations}


def test_what_changed_vanished_or_became_unreadable_is_named_and_waits_for_a_decision(
    host: Host, tree: Path, alice: Person, bob: Person
) -> None:
    build = approved(host, tree, alice, bob)
    (tree / "src/main.c").write_text("changed after the preview")
    (tree / "src/deep/empty").unlink()
    (tree / "run.sh").chmod(0o700)
    (tree / "new-and-not-on-the-list").touch()
    jobs.until_packed(build)
    assert build.state == BuildState.NEEDS_DECISION
    assert told(build) == {"main.c": "changed", "empty": "vanished", "run.sh": "changed"}
    assert "src/deep/empty" in build.problem or "main.c" in build.problem or "run.sh" in build.problem


def test_a_second_person_accepts_deviations_by_name_and_the_report_carries_them(
    host: Host, tree: Path, alice: Person, bob: Person, dan: Person
) -> None:
    build = approved(host, tree, alice, bob)
    (tree / "src/main.c").write_text("changed after the preview")
    (tree / "src/deep/empty").unlink()
    jobs.until_packed(build)
    with pytest.raises(ValidationError, match="Say in a note"):
        deviations_accept(build=build, note=" ", actor=Actor.of(dan))
    deviations_accept(build=build, note="the log grows", actor=Actor.of(dan))
    jobs.bring_home([build])
    assert build.state == BuildState.OPENED, build.problem
    report = (Path(build.landing.path) / build.reports.get().folder / "report.html").read_text()
    assert "Accepted by dan" in report
    assert "main.c" in report


def test_a_pack_that_was_not_accepted_can_be_made_anew(host: Host, tree: Path, alice: Person, bob: Person) -> None:
    build = approved(host, tree, alice, bob)
    about = (tree / "run.sh").stat()
    (tree / "run.sh").chmod(0o700)
    jobs.until_packed(build)
    (tree / "run.sh").chmod(about.st_mode & 0o7777)
    successor = build_replace(build=build, actor=Actor.of(alice))
    jobs.bring_home([successor])
    build.refresh_from_db()
    assert (build.state, successor.state, successor.number) == (BuildState.REPLACED, BuildState.OPENED, 2)


def test_changed_files_of_a_files_pack_cannot_be_accepted(
    host: Host, tree: Path, alice: Person, bob: Person, dan: Person
) -> None:
    build = approved(host, tree, alice, bob, mode="files")
    (tree / "src/main.c").write_text("shorter")
    jobs.until_packed(build)
    assert build.state == BuildState.NEEDS_DECISION
    with pytest.raises(ValidationError, match="Scan the resources again"):
        deviations_accept(build=build, note="fine", actor=Actor.of(dan))


def test_content_that_does_not_compress_becomes_a_plain_tar(
    host: Host, tmp_path: Path, alice: Person, bob: Person
) -> None:
    jobs.landing_make(tmp_path / "home")
    folder = tmp_path / "random"
    folder.mkdir()
    (folder / "weights").write_bytes(os.urandom(3_000_000))
    build = approved(host, folder, alice, bob)
    jobs.bring_home([build])
    assert (build.state, build.archive_name, build.compression) == (BuildState.OPENED, "pack.tar", Compression.NONE)
    assert "does not pay" in build.compression_note


def test_a_host_without_space_says_so_before_anything_is_written(
    host: Host, tmp_path: Path, alice: Person, bob: Person
) -> None:
    jobs.landing_make(tmp_path / "home")
    folder = tmp_path / "sparse"
    folder.mkdir()
    with (folder / "huge").open("wb") as file:
        file.truncate(shutil.disk_usage(tmp_path).free + 2**40)
    build = approved(host, folder, alice, bob)
    jobs.until_packed(build)
    assert build.state == BuildState.FAILED
    assert "bytes free" in build.problem
    assert "split the pack" in build.problem
    assert not list((tmp_path / "sshd0/home/staging").glob("*.tar*"))


def test_a_failed_build_tries_again_from_its_beginning(host: Host, tree: Path, alice: Person, bob: Person) -> None:
    build = approved(host, tree, alice, bob)
    Host.objects.filter(pk=host.pk).update(staging_path=b"/proc/no-such-place")
    jobs.until_packed(build)
    assert build.state == BuildState.FAILED
    Host.objects.filter(pk=host.pk).update(staging_path=host.staging_path)
    build.refresh_from_db()
    build_retry(build=build, actor=Actor.of(alice))
    jobs.bring_home([Build.objects.get(pk=build.pk)])
    build.refresh_from_db()
    assert build.state == BuildState.OPENED, build.problem


def test_a_host_that_cannot_be_reached_is_waited_for(
    sshd: Sshd, host: Host, tree: Path, alice: Person, bob: Person
) -> None:
    build = approved(host, tree, alice, bob)
    sshd.stop()
    pack_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.PACKING
    assert "cannot be reached" in build.problem
    assert build.not_before is not None
    sshd.start()
    jobs.until_packed(build)
    assert build.state == BuildState.PACKED


def test_a_packer_that_was_killed_is_begun_anew(sshd: Sshd, host: Host, tree: Path, alice: Person, bob: Person) -> None:
    build = approved(host, tree, alice, bob)
    staging = Path(str(host.staging_path))
    jobs.until_packed(build)  # the staging folder and a finished job are there now
    again = build_replace(build=build, actor=Actor.of(alice))
    job = staging / f"build-{again.pk}.pack.0"
    job.mkdir()
    (job / "script").write_text("sleep 60\n")
    (job / "started").mkdir()
    (job / "pid").write_text("999999999 1 no-such-boot single\n")
    pack_run(again.pk)
    again.refresh_from_db()
    assert (again.state, again.attempts) == (BuildState.PACKING, 1)
    assert "begun anew" in again.problem
    jobs.until_packed(again)
    assert (again.state, again.problem) == (BuildState.PACKED, "")


def test_a_changed_host_key_is_told_at_the_host_and_the_build_waits(
    sshd: Sshd, host: Host, tree: Path, alice: Person, bob: Person
) -> None:
    build = approved(host, tree, alice, bob)
    sshd.change_host_key()
    sshd.restart()
    pack_run(build.pk)
    build.refresh_from_db()
    host.refresh_from_db()
    assert build.state == BuildState.PACKING
    assert host.problem.count("SHA256:") == 2


def test_a_fault_of_the_program_is_told_and_tried_again(
    host: Host, tree: Path, alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = approved(host, tree, alice, bob)

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("transfers.services.packing.ensure_staging", fail)
    pack_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.PACKING
    assert "fault of this program" in build.problem
    assert build.not_before is not None


def test_a_login_shell_that_prints_changes_nothing(
    sshd: Sshd, host: Host, tree: Path, alice: Person, bob: Person
) -> None:
    sshd.talk_at_login()
    build = approved(host, tree, alice, bob)
    jobs.bring_home([build])
    assert build.state == BuildState.OPENED, build.problem


def test_a_busybox_host_gives_files(make_sshd: Callable[..., Sshd], tmp_path: Path, alice: Person, bob: Person) -> None:
    need("busybox")
    jobs.landing_make(tmp_path / "home")
    tree = jobs.tree_make(tmp_path / "far")
    small = make_sshd(path=str(busybox_folder(tmp_path / "applets")))
    host = host_make(small, alice)
    build = approved(host, tree, alice, bob, mode="files")
    jobs.bring_home([build])
    assert build.state == BuildState.OPENED, build.problem
    assert not Check.objects.filter(build=build).exclude(outcome__in=["matched", "recorded here"]).exists()


def test_every_member_has_its_digest_from_the_source(host: Host, tree: Path, alice: Person, bob: Person) -> None:
    build = jobs.until_packed(approved(host, tree, alice, bob))
    assert build.member_list is not None
    files = [one for one in list_members(build.member_list) if one.kind == "file"]
    assert files
    assert all(one.sha256 is not None for one in files)


def test_a_path_that_is_gone_fails_the_scan_with_a_sentence(host: Host, tmp_path: Path, alice: Person) -> None:
    resource: Resource = resource_make(host, alice, tmp_path / "nowhere")
    jobs.scan(resource, alice)
    scan = resource.scans.get()
    assert scan.state == "failed"
    assert "is not there" in scan.problem


def test_a_turn_leaves_a_long_job_running_and_the_next_turn_finds_it(
    host: Host, tree: Path, alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transfers.services.packing.TURN_SECONDS", 0.0)
    build = approved(host, tree, alice, bob)
    pack_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.PACKING
    time.sleep(0.5)
    jobs.until_packed(build)
    assert build.state == BuildState.PACKED
    staging = Path(str(host.staging_path))
    assert len(list(staging.glob("*.pack.*"))) == 1


def test_a_probe_that_an_older_version_kept_stops_nothing(host: Host, tree: Path, alice: Person, bob: Person) -> None:
    build = approved(host, tree, alice, bob)
    Host.objects.filter(pk=host.pk).update(probe={"system": "Linux, told by an older version"})
    jobs.until_packed(build)
    assert (build.state, build.problem) == (BuildState.PACKED, "")
