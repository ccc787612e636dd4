"""The main job over a real sshd: four modes from scan to unpacked files, and what may go wrong between."""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
from pathlib import Path

import pytest

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.insides import archives_of, inside_files
from inventory.models import Resource
from inventory.overlapping import overlaps_shown
from inventory.services.digest_runs import digests_request, digests_run
from inventory.services.overlaps import overlaps_request, overlaps_run
from tests.hosts import host_make, resource_make
from tests.parts import need
from tests.sshd import Sshd
from tests.transfers import jobs
from transfers.models import Build, BuildState, Check, UnpackState
from transfers.selectors.specs import landed_path
from transfers.services.insides_here import inside_here_run, insides_here_due
from transfers.services.unpacks import unpack_request, unpack_run

pytestmark = pytest.mark.django_db


def sums_pass(build: Build) -> bool:
    """A stranger's check: coreutils alone, in the landing folder."""
    folder = Path(build.landing.path) / build.folder
    done = subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=folder, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return True


def unpack(build: Build, person: Person) -> Path:
    act = unpack_request(build=build, actor=Actor.of(person))
    unpack_run(act.pk)
    act.refresh_from_db()
    assert act.state == UnpackState.FINISHED, act.problem
    return Path(build.landing.path) / act.folder


def same_tree(left: Path, right: Path) -> bool:
    """Every name, kind, link text, permission and byte is the same, both ways."""
    told: list[str] = []

    def look(one: Path, other: Path) -> None:
        for name in sorted({path.name for path in (*one.iterdir(), *other.iterdir())}):
            a, b = one / name, other / name
            if not (os.path.lexists(a) and os.path.lexists(b)):
                told.append(f"{name!r} is on one side only")
            elif a.is_symlink() or b.is_symlink():
                if a.readlink() != b.readlink():
                    told.append(f"{name!r} leads elsewhere")
            elif a.is_dir():
                look(a, b)
            elif not filecmp.cmp(a, b, shallow=False) or a.stat().st_mode != b.stat().st_mode:
                told.append(f"{name!r} differs")

    look(left, right)
    assert not told
    return True


def test_an_archive_goes_from_scan_to_unpacked_files(sshd: Sshd, alice: Person, bob: Person, tmp_path: Path) -> None:
    need("zstd")
    landing = jobs.landing_make(tmp_path / "home")
    tree = jobs.tree_make(tmp_path / "far tree")
    host = host_make(sshd, alice)
    resource = resource_make(host, alice, tree)
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("tree", "archive", [resource])), bob)
    jobs.bring_home([build])
    assert build.state == BuildState.OPENED, build.problem
    assert build.archive_name == "tree.tar.zst"
    assert sums_pass(build)
    assert same_tree(tree, unpack(build, alice) / tree.relative_to("/"))
    assert build.reports.count() == 1
    report = json.loads((Path(landing.path) / build.reports.get().folder / "report.json").read_text())
    assert report["content"]["sha256"] == build.sha256
    assert report["plan"]["decisions"][0]["person"] == "bob"
    assert not Check.objects.filter(build=build).exclude(outcome__in=["matched", "recorded here"]).exists()


def test_files_keep_their_names_and_digests(sshd: Sshd, alice: Person, bob: Person, tmp_path: Path) -> None:
    jobs.landing_make(tmp_path / "home")
    tree = jobs.tree_make(tmp_path / "far")
    host = host_make(sshd, alice)
    resource = resource_make(host, alice, tree)
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("loose", "files", [resource])), bob)
    jobs.bring_home([build])
    assert build.state == BuildState.OPENED, build.problem
    assert sums_pass(build)
    assert same_tree(tree, unpack(build, alice) / tree.relative_to("/"))


def test_an_existing_archive_comes_under_its_own_name(sshd: Sshd, alice: Person, bob: Person, tmp_path: Path) -> None:
    jobs.landing_make(tmp_path / "home")
    archive = jobs.tar_gz(tmp_path / "base line.tar.gz", {"one": b"1" * 5000, "two": os.urandom(300_000)})
    host = host_make(sshd, alice)
    resource = resource_make(host, alice, archive, kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("baseline", "existing", [resource])), bob)
    jobs.bring_home([build])
    assert build.state == BuildState.OPENED, build.problem
    assert landed_path(build).read_bytes() == archive.read_bytes()
    assert sums_pass(build)
    folder = unpack(build, alice)
    assert (folder / "two").read_bytes() == (tmp_path / "base line.tar.gz.content/two").read_bytes()
    assert insides_here_due() == [build.pk]
    inside_here_run(build.pk)
    assert insides_here_due() == []
    scan = resource.scans.get()
    (known,) = archives_of(scan)
    assert known.found is not None and known.found.is_here and known.is_whole
    assert {one.name.rpartition(b"/")[2]: one.size_bytes for one in inside_files(known.found)} == {
        b"one": 5000,
        b"two": 300_000,
    }


def test_parts_are_joined_in_their_order(sshd: Sshd, alice: Person, bob: Person, tmp_path: Path) -> None:
    jobs.landing_make(tmp_path / "home")
    blob = os.urandom(2_500_000)
    whole = jobs.tar_gz(tmp_path / "image.tar.gz", {"blob": blob}).read_bytes()
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, start in enumerate(range(0, len(whole), 200_000)):
        (parts / f"image.tar.gz.part-{number}").write_bytes(whole[start : start + 200_000])
    host = host_make(sshd, alice)
    resource = resource_make(host, alice, parts, kind="parts")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("image", "parts", [resource])), bob)
    jobs.bring_home([build])
    assert build.state == BuildState.OPENED, build.problem
    assert build.archive_name == "image.tar.gz"
    assert landed_path(build).read_bytes() == whole
    assert build.chunks.count() == 13
    assert sums_pass(build)
    inside_of_joined_parts(build, resource, parts, blob, alice)


def inside_of_joined_parts(build: Build, resource: Resource, parts: Path, blob: bytes, person: Person) -> None:
    """What lies inside stands for the parts in their source, and is compared, while all are as they were."""
    store = parts.parent / "store"
    store.mkdir()
    (store / "blob").write_bytes(blob)
    other = resource_make(resource.host, person, store, name="store")
    jobs.scan(other, person)
    digests_run(digests_request(resource=other, actor=Actor.of(person)).pk)
    assert insides_here_due() == [build.pk]
    inside_here_run(build.pk)
    assert insides_here_due() == []
    scan = resource.scans.get()
    (known,) = archives_of(scan)
    assert len(known.parts) == len(list(parts.iterdir())) and known.is_whole
    overlaps_run(overlaps_request(actor=Actor.of(person)).pk)
    shown = overlaps_shown()
    assert shown is not None
    (pair,) = shown.pairs
    assert {side.resource: side.percent for side in pair.sides} == {resource: 100, other: 100}
    (parts / "image.tar.gz.part-3").touch()
    jobs.scan(resource, person)
    assert archives_of(resource.scans.latest("pk")) == []
