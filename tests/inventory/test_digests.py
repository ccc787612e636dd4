"""Digests at the source over a real sshd: what is taken, what is remembered, and what is left when things break."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.urls import reverse

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.leases.services import lease_acquire
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory import digests
from inventory.digests import DigestJob, Wanted
from inventory.models import DigestRun, Entry, Host, KnownDigest, Resource, Scan, ScanState
from inventory.remote.names import RemoteName
from inventory.remote.pool import SshRemote
from inventory.selectors import digests_of
from inventory.services import digest_runs, scans
from inventory.services.errors import ScanAbsent
from tests.hosts import host_make, resource_make
from tests.inventory.browser import SignedIn, act_of
from tests.sshd import Sshd, busybox_folder

pytestmark = pytest.mark.django_db

HOSTILE = [
    b"plain",
    b"a b",
    b"quote'\"$(id)`",
    b"line\nfeed",
    b"-rf",
    b"\xff\xfe",
    b"back\\slash",
    b"cr\r",
    b"=",
    b"%s",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "the tree"
    (top / "sub").mkdir(parents=True)
    for name in HOSTILE:
        (top / os.fsdecode(name)).write_bytes(name * 3)
        (top / "sub" / os.fsdecode(name)).write_bytes(b"in " + name)
    (top / "empty").touch()
    (top / "link").symlink_to("plain")
    os.link(top / "plain", top / "again")
    return top


@pytest.fixture
def host(sshd: Sshd, alice: Person) -> Host:
    return host_make(sshd, alice)


def scanned(resource: Resource, person: Person) -> Scan:
    scan = scans.scan_request(resource=resource, actor=Actor.of(person))
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FINISHED, scan.problem
    return scan


def taken(resource: Resource, person: Person) -> DigestRun:
    """Ask for digests and take turns to the end."""
    run = digest_runs.digests_request(resource=resource, actor=Actor.of(person))
    until = time.monotonic() + 60
    while run.state in (ScanState.QUEUED, ScanState.RUNNING) and time.monotonic() < until:
        digest_runs.digests_run(run.pk)
        run.refresh_from_db()
    return run


def digests_in(scan: Scan) -> dict[bytes, str]:
    rows = scan.entries.filter(sha256__isnull=False).values_list("name", "sha256")
    return {name.raw: bytes(sha256 or b"").hex() for name, sha256 in rows}


def true_digests(top: Path) -> dict[bytes, str]:
    files = [path for path in top.rglob("*") if path.is_file() and not path.is_symlink()]
    return {os.fsencode(path.relative_to(top)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_every_files_digest_is_taken_whatever_its_name(host: Host, alice: Person, tree: Path, sshd: Sshd) -> None:
    resource = resource_make(host, alice, tree)
    scan = scanned(resource, alice)
    run = taken(resource, alice)
    assert run.state == ScanState.FINISHED, run.problem
    assert digests_in(scan) == true_digests(tree)
    assert (run.files_left, run.files_wanted) == (0, len(HOSTILE) * 2 + 1)  # the hard link is read once
    assert [path.name for path in (sshd.home / "staging").iterdir()] == [".calculet-staging"]
    acts = list(Event.objects.order_by("sequence").values_list("act", flat=True))
    assert acts[-3:] == ["digests.asked", "digests.started", "digests.finished"]


def test_an_unchanged_file_is_never_read_again(host: Host, alice: Person, tree: Path) -> None:
    resource = resource_make(host, alice, tree)
    scanned(resource, alice)
    taken(resource, alice)
    (tree / "plain").write_bytes(b"new content")
    (tree / "more").write_bytes(b"more")
    scan = scanned(resource, alice)
    assert b"a b" in digests_in(scan) and b"plain" not in digests_in(scan)
    assert digests_of(resource, Scan.objects.get(pk=scan.pk)).lacking == 3  # one by its second name
    run = taken(resource, alice)
    assert run.files_wanted == 2 and digests_in(scan) == true_digests(tree)
    assert digests_of(resource, Scan.objects.get(pk=scan.pk)).lacking == 0


def test_a_same_size_edit_with_its_old_time_is_read_again(host: Host, alice: Person, tree: Path) -> None:
    resource = resource_make(host, alice, tree)
    scanned(resource, alice)
    taken(resource, alice)
    before = (tree / "plain").stat()
    (tree / "plain").write_bytes(b"nialp" * 3)
    os.utime(tree / "plain", ns=(before.st_atime_ns, before.st_mtime_ns))
    scan = scanned(resource, alice)
    assert b"plain" not in digests_in(scan)
    taken(resource, alice)
    assert digests_in(scan) == true_digests(tree)


def test_a_file_that_changed_since_the_scan_is_left_without_one(host: Host, alice: Person, tree: Path) -> None:
    resource = resource_make(host, alice, tree)
    scan = scanned(resource, alice)
    (tree / "plain").write_bytes(b"changed since")
    (tree / "a b").unlink()
    run = taken(resource, alice)
    assert run.state == ScanState.FINISHED and run.files_left == 3  # one of them by its second name
    assert {b"plain", b"again", b"a b"}.isdisjoint(digests_in(scan))


def test_a_resource_that_is_one_file_gets_its_digest(host: Host, alice: Person, tmp_path: Path) -> None:
    (tmp_path / "-one.tar").write_bytes(b"archive")
    resource = resource_make(host, alice, tmp_path / "-one.tar", kind="archive")
    scan = scanned(resource, alice)
    taken(resource, alice)
    assert digests_in(scan) == {b"": hashlib.sha256(b"archive").hexdigest()}


@pytest.mark.parametrize("has_zero", [True, False])
def test_both_ways_to_read_give_the_same(ssh_remote: SshRemote, sshd: Sshd, tree: Path, has_zero: bool) -> None:
    (sshd.home / "staging").mkdir()
    job = DigestJob(RemoteName(os.fsencode(sshd.home / "staging" / "it's")), RemoteName(os.fsencode(tree)), "w" * 32, 3)
    wanted = [Wanted(name, 1) for name in true_digests(tree)] + [Wanted(b"gone", 1)]
    assert digests.begin(ssh_remote, job, wanted, has_zero=has_zero) == len(wanted)
    until = time.monotonic() + 30
    while digests.state_of(ssh_remote, job).phase == "running" and time.monotonic() < until:
        time.sleep(0.05)
    found = {
        one.name: one.sha256.hex() for worker in range(3) for one in digests.look(ssh_remote, job, worker, 0).taken
    }
    assert found == true_digests(tree)
    digests.clear(ssh_remote, job)
    assert list((sshd.home / "staging").iterdir()) == []


def test_a_host_with_busybox_alone_gives_the_same(
    make_sshd: Callable[..., Sshd], alice: Person, tree: Path, tmp_path: Path
) -> None:
    sshd = make_sshd(path=str(busybox_folder(tmp_path / "busybox")))
    resource = resource_make(host_make(sshd, alice), alice, tree)
    scan = scanned(resource, alice)
    run = taken(resource, alice)
    assert run.state == ScanState.FINISHED and digests_in(scan) == true_digests(tree)


def test_a_job_that_was_killed_is_begun_anew_and_keeps_what_it_found(host: Host, alice: Person, tree: Path) -> None:
    resource = resource_make(host, alice, tree)
    scan = scanned(resource, alice)
    run = digest_runs.digests_request(resource=resource, actor=Actor.of(alice))
    digest_runs.digests_run(run.pk, turn_seconds=0)
    run.refresh_from_db()
    assert run.state in (ScanState.RUNNING, ScanState.FINISHED)
    DigestRun.objects.filter(pk=run.pk).update(state=ScanState.RUNNING, word="x" * 32, folder=b"/nowhere/digests-9-0")
    for _turn in range(3):
        digest_runs.digests_run(run.pk)
    run.refresh_from_db()
    assert run.state == ScanState.FINISHED and digests_in(scan) == true_digests(tree)


def test_cancelling_ends_the_job_keeps_what_was_taken_and_tidies_up(
    host: Host, alice: Person, tree: Path, sshd: Sshd
) -> None:
    with (tree / "large").open("wb") as large:
        large.truncate(8 * 2**30)
    resource = resource_make(host, alice, tree)
    scanned(resource, alice)
    run = digest_runs.digests_request(resource=resource, actor=Actor.of(alice))
    digest_runs.digests_run(run.pk, turn_seconds=0)
    run.refresh_from_db()
    assert run.state == ScanState.RUNNING
    digest_runs.digests_cancel(run=run, actor=Actor.of(alice))
    assert digest_runs.digests_sweep() == [run.pk]
    digest_runs.digests_run(run.pk)
    assert digest_runs.digests_sweep() == []
    assert [path.name for path in (sshd.home / "staging").iterdir()] == [".calculet-staging"]


def test_a_run_that_another_worker_has_is_left_to_it(host: Host, alice: Person, tree: Path) -> None:
    resource = resource_make(host, alice, tree)
    scanned(resource, alice)
    run = digest_runs.digests_request(resource=resource, actor=Actor.of(alice))
    assert digest_runs.digests_request(resource=resource, actor=Actor.of(alice)) == run
    assert lease_acquire(name=digest_runs.KIND.lease(run.pk)) is not None
    digest_runs.digests_run(run.pk)
    run.refresh_from_db()
    assert run.state == ScanState.QUEUED and not KnownDigest.objects.exists()


def test_asking_needs_the_role_and_a_scan(host: Host, alice: Person, carol: Person, tree: Path) -> None:
    resource = resource_make(host, alice, tree)
    with pytest.raises(ScanAbsent, match="Scan it first"):
        digest_runs.digests_request(resource=resource, actor=Actor.of(alice))
    with pytest.raises(NotAllowed):
        digest_runs.digests_request(resource=resource, actor=Actor.of(carol))


def test_the_page_asks_shows_progress_and_what_is_left(
    host: Host, alice: Person, tree: Path, signed_in: SignedIn
) -> None:
    resource = resource_make(host, alice, tree)
    scanned(resource, alice)
    client, page = signed_in(alice), reverse("inventory:resource", args=[resource.pk])
    shown = act_of(client, page, reverse("inventory:resource-digests", args=[resource.pk]))
    run = DigestRun.objects.get()
    assert "are asked for" in shown.text and "hx-trigger" in shown.text
    DigestRun.objects.update(state=ScanState.RUNNING, files_wanted=20, files_done=7)
    assert "7 of 20 files read" in client.get(page).text
    act_of(client, page, reverse("inventory:digests-cancel", args=[run.pk]))
    run.refresh_from_db()
    assert run.state == ScanState.CANCELLED and not Entry.objects.filter(sha256__isnull=False).exists()
