"""Looking inside archives on a host and remembering what was found: with python3, with tar alone, with neither."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.urls import reverse

from calculet.actors import Actor
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory import overlapping
from inventory.insides import archives_of, inside_files
from inventory.models import Host, InsideArchive, InsideRun, Resource, Scan, ScanState
from inventory.services import digest_runs, inside_runs, overlaps, scans
from inventory.services.errors import ScanAbsent
from tests.hosts import host_make, resource_make
from tests.inventory.archives import docker_save, oci_layout, tar_of
from tests.inventory.browser import SignedIn, act_of
from tests.sshd import Sshd, busybox_folder

LAYERS = [tar_of({"usr/gone": b"1" * 90, "usr/kept": b"2" * 90}), tar_of({"usr/.wh.gone": b"", "usr/new": b"3" * 90})]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "it's a tree"
    made.mkdir()
    (made / "plain.tar").write_bytes(tar_of({"usr/kept": b"2" * 90, "usr/\udcff": b"4" * 50}))
    (made / "packed.tar.gz").write_bytes(gzip.compress(tar_of({"usr/new": b"3" * 90})))
    (made / "saved.tar").write_bytes(docker_save(LAYERS))
    (made / os.fsdecode(b"cut \xff\n.tar")).write_bytes(tar_of({"usr/new": b"3" * 90})[:600])
    (made / "no archive.txt").write_bytes(b"2" * 90)
    oci_layout(made / "layout", LAYERS)
    return made


@pytest.fixture
def host(sshd: Sshd, alice: Person) -> Host:
    return host_make(sshd, alice)


def scanned(resource: Resource, person: Person) -> Scan:
    scan = scans.scan_request(resource=resource, actor=Actor.of(person))
    scans.scan_run(scan.pk)
    return Scan.objects.get(pk=scan.pk)


def looked(resource: Resource, person: Person) -> InsideRun:
    run = inside_runs.inside_request(resource=resource, actor=Actor.of(person))
    inside_runs.inside_run(run.pk)
    return InsideRun.objects.get(pk=run.pk)


def found_in(scan: Scan) -> dict[bytes, tuple[str, dict[bytes, int]]]:
    """What is known of each archive: its fault or kind, and its files with their sizes."""
    return {
        one.name: (one.found.fault or one.found.kind, {f.name: f.size_bytes for f in inside_files(one.found)})
        for one in archives_of(scan)
        if one.found is not None
    }


PLAIN = {
    b"plain.tar": ("tar", {b"usr/kept": 90, b"usr/\xff": 50}),
    b"packed.tar.gz": ("tar", {b"usr/new": 90}),
}
IMAGE = ("image", {b"usr/new": 90, b"usr/kept": 90})


def test_every_archive_is_looked_into_and_not_read_again(host: Host, alice: Person, tree: Path, sshd: Sshd) -> None:
    resource = resource_make(host, alice, tree)
    scan = scanned(resource, alice)
    run = looked(resource, alice)
    assert (run.state, run.archives_wanted, run.archives_faulty, run.problem) == (ScanState.FINISHED, 5, 1, "")
    expected = {**PLAIN, b"saved.tar": IMAGE, b"layout": IMAGE, b"cut \xff\n.tar": ("cut-off", {})}
    assert found_in(scan) == expected
    saved = InsideArchive.objects.get(name=os.fsencode(tree / "saved.tar"))
    assert bytes(saved.sha256 or b"") == hashlib.sha256((tree / "saved.tar").read_bytes()).digest()
    again = looked(resource, alice)
    assert (again.state, again.archives_known, again.archives_done) == (ScanState.FINISHED, 5, 0)
    assert [path.name for path in (sshd.home / "staging").iterdir()] == [".calculet-staging"]


@pytest.mark.parametrize("tools", ["GNU", "BusyBox"])
def test_a_host_without_python_streams_members_through_tar(
    make_sshd: Callable[..., Sshd], alice: Person, tree: Path, tmp_path: Path, tools: str
) -> None:
    folder = busybox_folder(tmp_path / "tools")
    if tools == "GNU":
        for name in ("tar", "gzip", "sha256sum", "stat", "find", "head", "cat"):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(
                next(path for path in (Path("/bin"), Path("/usr/bin")) if (path / name).exists()) / name
            )
    sshd = make_sshd(path=str(folder))
    resource = resource_make(host_make(sshd, alice), alice, tree)
    scan = scanned(resource, alice)
    run = looked(resource, alice)
    assert (run.state, run.problem) == (ScanState.FINISHED, "")
    found = found_in(scan)
    assert {name: found[name] for name in PLAIN} == PLAIN
    assert found[b"cut \xff\n.tar"][0] == "damaged" and found[b"saved.tar"][0] == "layers-closed"
    assert [path.name for path in (sshd.home / "staging").iterdir()] == [".calculet-staging"]


def test_a_host_with_neither_is_told_what_can_be_done(
    make_sshd: Callable[..., Sshd], alice: Person, tree: Path, tmp_path: Path
) -> None:
    folder = busybox_folder(tmp_path / "tools")
    (folder / "tar").unlink()
    resource = resource_make(host_make(make_sshd(path=str(folder)), alice), alice, tree)
    scanned(resource, alice)
    run = looked(resource, alice)
    assert run.state == ScanState.FAILED and "python3" in run.problem and "at home" in run.problem


def test_a_store_is_compared_with_the_image_that_it_came_from(host: Host, alice: Person, tmp_path: Path) -> None:
    store, image = tmp_path / "store", tmp_path / "image"
    store.mkdir()
    image.mkdir()
    for name, content in {"new": b"3" * 90, "kept": b"2" * 90, "own": b"9" * 60}.items():
        (store / name).write_bytes(content)
    (image / "saved.tar").write_bytes(docker_save(LAYERS))
    resources = [resource_make(host, alice, path, name=path.name) for path in (store, image)]
    for resource in resources:
        scanned(resource, alice)
        run = digest_runs.digests_request(resource=resource, actor=Actor.of(alice))
        digest_runs.digests_run(run.pk)
    looked(resources[1], alice)
    asked = overlaps.overlaps_request(actor=Actor.of(alice))
    overlaps.overlaps_run(asked.pk)
    shown = overlapping.overlaps_shown()
    assert shown is not None
    sides = {side.resource.name: (side.files, side.percent) for side in shown.pairs[0].sides}
    assert sides == {"store": (2, 75), "image": (2, 100)}
    assert {one.resource.name: one.archives for one in shown.sets} == {"store": 0, "image": 1}


def test_a_job_that_was_lost_is_begun_anew(host: Host, alice: Person, tree: Path) -> None:
    resource = resource_make(host, alice, tree)
    scan = scanned(resource, alice)
    run = inside_runs.inside_request(resource=resource, actor=Actor.of(alice))
    inside_runs.inside_run(run.pk, turn_seconds=0)
    InsideRun.objects.filter(pk=run.pk).update(state=ScanState.RUNNING, folder=b"/nowhere/inside-9-0")
    for _turn in range(3):
        inside_runs.inside_run(run.pk)
    run.refresh_from_db()
    assert run.state == ScanState.FINISHED and found_in(scan)[b"saved.tar"] == IMAGE


def test_a_look_that_was_given_up_leaves_nothing_on_the_host(host: Host, alice: Person, tree: Path, sshd: Sshd) -> None:
    with (tree / "large.tar").open("wb") as large:
        large.write(b"\0" * 512)
        large.truncate(8 * 2**30)
    resource = resource_make(host, alice, tree)
    scanned(resource, alice)
    run = inside_runs.inside_request(resource=resource, actor=Actor.of(alice))
    assert inside_runs.inside_request(resource=resource, actor=Actor.of(alice)) == run
    inside_runs.inside_run(run.pk, turn_seconds=0)
    run.refresh_from_db()
    inside_runs.inside_cancel(run=run, actor=Actor.of(alice))
    assert inside_runs.inside_sweep() == [run.pk]
    inside_runs.inside_run(run.pk)
    assert inside_runs.inside_sweep() == []
    assert [path.name for path in (sshd.home / "staging").iterdir()] == [".calculet-staging"]


def test_asking_needs_the_role_and_a_scan(host: Host, alice: Person, carol: Person, tree: Path) -> None:
    resource = resource_make(host, alice, tree)
    with pytest.raises(ScanAbsent, match="Scan it first"):
        inside_runs.inside_request(resource=resource, actor=Actor.of(alice))
    with pytest.raises(NotAllowed):
        inside_runs.inside_request(resource=resource, actor=Actor.of(carol))


def test_the_page_asks_shows_progress_and_what_lies_inside(
    host: Host, alice: Person, tree: Path, signed_in: SignedIn
) -> None:
    resource = resource_make(host, alice, tree)
    scanned(resource, alice)
    client, page = signed_in(alice), reverse("inventory:resource", args=[resource.pk])
    shown = act_of(client, page, reverse("inventory:resource-inside", args=[resource.pk]))
    run = InsideRun.objects.get()
    assert "The look inside is asked for" in shown.text and "hx-trigger" in shown.text
    inside_runs.inside_run(run.pk)
    text = client.get(page).text
    assert "5 archives read" in text and "saved.tar" in text and "is cut off" in text
    archive = InsideArchive.objects.get(name=os.fsencode(tree / "plain.tar"))
    inside = client.get(reverse("inventory:inside", args=[archive.pk])).text
    assert "usr/kept" in inside and "2 files lie inside" in inside
