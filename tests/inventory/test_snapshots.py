"""Environment snapshots over a real sshd: what they hold, that they can be compared, and that nothing is written."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.urls import reverse
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.leases.services import lease_acquire
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import Host, Resource, ScanState, Snapshot
from inventory.services import scans, snapshot_offers, snapshots
from inventory.snapshot import SnapshotPart
from tests.hosts import host_make, resource_make
from tests.inventory.browser import SignedIn, act_of
from tests.sshd import Sshd, busybox_folder

pytestmark = pytest.mark.django_db


@pytest.fixture
def far(sshd: Sshd, alice: Person) -> Host:
    return host_make(sshd, alice)


def taken(host: Host, person: Person) -> Snapshot:
    row = snapshots.snapshot_request(host=host, actor=Actor.of(person))
    snapshots.snapshot_run(row.pk)
    row.refresh_from_db()
    return row


def files(row: Snapshot) -> dict[str, bytes]:
    return {file.name: file.raw for file in row.files.all()}


def git(folder: Path, *words: str) -> str:
    given = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder), *words]
    return subprocess.run(given, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source tree with a commit, a change, a remote with a password, and a hook that must not run."""
    top = tmp_path / "src" / "it's a tree"
    top.mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    (top / "a.c").write_text("int a;")
    git(top, "add", "a.c")
    git(top, "commit", "-q", "-m", "one")
    git(top, "remote", "add", "origin", "https://me:secret@example.org/x.git")
    (top / "a.c").write_text("int b;")
    spy = top / ".git" / "spy"
    spy.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    spy.chmod(0o755)
    (top / "new.c").write_text("int c;")
    git(top, "config", "core.fsmonitor", str(spy))
    git(top, "config", "filter.spy.clean", str(spy))
    (top / ".git" / "info" / "attributes").write_text("*.c filter=spy\n")
    return top


def test_a_snapshot_tells_kernel_processors_memory_and_packages(far: Host, alice: Person, sshd: Sshd) -> None:
    row = taken(far, alice)
    assert row.state == ScanState.FINISHED, row.problem
    found = files(row)
    assert {"kernel.txt", "pci.txt", "drivers.txt", "cpu.txt", "memory.txt", "disks.txt", "packages.txt"} <= set(found)
    assert b"Linux" in found["kernel.txt"] and b"MemTotal" in found["memory.txt"]
    for file in row.files.all():
        assert (file.sha256, file.size_bytes) == (hashlib.sha256(file.raw).hexdigest(), len(file.raw))
    assert list(sshd.home.iterdir()) == []
    acts = list(Event.objects.order_by("sequence").values_list("act", flat=True))
    assert acts[-3:] == ["snapshot.asked", "snapshot.started", "snapshot.finished"]


def test_source_trees_that_scans_found_tell_their_git_state_and_no_secret(
    far: Host, alice: Person, source: Path, tmp_path: Path
) -> None:
    scan = scans.scan_request(resource=resource_make(far, alice, source.parent), actor=Actor.of(alice))
    scans.scan_run(scan.pk)
    assert not (tmp_path / "ran").exists()
    index = (source / ".git" / "index").read_bytes()
    text = files(taken(far, alice))["git.txt"].decode()
    assert (
        f"head {git(source, 'rev-parse', 'HEAD')} main" in text
        and "touched M\ta.c" in text
        and "untracked new.c" in text
    )
    assert "example.org/x.git" in text and "secret" not in text
    assert (source / ".git" / "index").read_bytes() == index and not (tmp_path / "ran").exists()


def test_what_a_host_cannot_tell_is_the_files_problem(
    make_sshd: Callable[..., Sshd], alice: Person, tmp_path: Path
) -> None:
    host = host_make(make_sshd(path=str(busybox_folder(tmp_path / "busybox"))), alice)
    row = taken(host, alice)
    assert row.state == ScanState.FINISHED, row.problem
    assert "neither podman nor docker" in row.files.get(name="containers.txt").problem
    assert b"Linux" in files(row)["kernel.txt"]


def test_two_snapshots_of_an_unchanged_host_are_the_same(far: Host, alice: Person) -> None:
    first, second = files(taken(far, alice)), files(taken(far, alice))
    for name in ("kernel.txt", "pci.txt", "drivers.txt", "cpu.txt", "memory.txt", "packages.txt"):
        assert first[name] == second[name], name


def test_a_host_that_cannot_be_reached_fails_with_a_sentence(host: Host, far: Host, alice: Person, sshd: Sshd) -> None:
    sshd.stop()
    row = taken(far, alice)
    assert row.state == ScanState.FAILED and "cannot be reached" in row.problem


@pytest.fixture
def host(far: Host) -> Host:
    return far


def test_asking_needs_the_role_and_happens_once(far: Host, alice: Person, carol: Person) -> None:
    with pytest.raises(NotAllowed):
        snapshots.snapshot_request(host=far, actor=Actor.of(carol))
    row = snapshots.snapshot_request(host=far, actor=Actor.of(alice))
    assert snapshots.snapshot_request(host=far, actor=Actor.of(alice)) == row
    assert lease_acquire(name=snapshots.snapshot_lease(row.pk)) is not None
    snapshots.snapshot_run(row.pk)
    row.refresh_from_db()
    assert row.state == ScanState.QUEUED


def test_the_pages_take_show_compare_and_give_away(far: Host, alice: Person, signed_in: SignedIn) -> None:
    client, page = signed_in(alice), reverse("inventory:snapshots", args=["far"])
    assert "No snapshot yet" in client.get(page).text
    shown = act_of(client, page, reverse("inventory:snapshot-take", args=["far"]))
    assert "is asked for" in shown.text and "hx-trigger" in shown.text
    first = Snapshot.objects.get()
    snapshots.snapshot_run(first.pk)
    second = taken(far, alice)
    address = reverse("inventory:snapshot", args=[second.pk])
    assert "MemTotal" in client.get(address).text
    file = second.files.get(name="memory.txt")
    other = snapshots._file(second, SnapshotPart("memory.txt", b"MemTotal: <less>\n"))
    second.files.filter(pk=file.pk).update(content=other.content, sha256=other.sha256, size_bytes=other.size_bytes)
    compared = client.get(address, {"with": first.pk}).text
    assert "+MemTotal: &lt;less&gt;" in compared and "-MemTotal" in compared and "same" in compared
    assert client.get(address, {"with": 10**6}).status_code == 404
    body = client.get(reverse("inventory:snapshot-archive", args=[second.pk])).content
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        sums = archive.extractfile("environment/SHA256SUMS")
        assert sums is not None and f"{other.sha256}  memory.txt\n".encode() in sums.read()


def offered(row: Snapshot, person: Person) -> Resource:
    resource = snapshot_offers.snapshot_offer(snapshot=row, actor=Actor.of(person))
    snapshot_offers.offer_run(row.pk)
    row.refresh_from_db()
    for scan in resource.scans.filter(state=ScanState.QUEUED):
        scans.scan_run(scan.pk)
    return Resource.objects.get(pk=resource.pk)


def test_a_snapshot_becomes_a_resource_that_is_listed_like_any_other(far: Host, alice: Person, sshd: Sshd) -> None:
    planned = Resource.objects.create(host=far, name="environment listing", kind="folder")
    row = taken(far, alice)
    resource = offered(row, alice)
    assert resource == planned and row.offer_problem == "" and row.written_at is not None
    scan = resource.scans.get()
    assert scan.state == ScanState.FINISHED, scan.problem
    found = {entry.name.raw.decode(): entry.size_bytes for entry in scan.entries.filter(kind="file")}
    sums = (sshd.home / "staging" / "environment" / str(row.pk) / "SHA256SUMS").read_bytes()
    assert found == {**{file.name: file.size_bytes for file in row.files.all()}, "SHA256SUMS": len(sums)}
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=sshd.home / "staging" / "environment" / str(row.pk))
    assert done.returncode == 0
    later = offered(taken(far, alice), alice)
    assert later == resource and later.path != planned.path


def test_the_rest_of_staging_is_never_listed(far: Host, alice: Person, sshd: Sshd) -> None:
    row = taken(far, alice)
    offered(row, alice)
    (sshd.home / "staging" / "digests-1-0").mkdir()
    for path in (far.staging_path, far.staging_path.join(b"digests-1-0")):
        resource = Resource.objects.create(host=far, name=str(path), path=path, kind="folder")
        scan = scans.scan_request(resource=resource, actor=Actor.of(alice))
        scans.scan_run(scan.pk)
        scan.refresh_from_db()
        assert scan.state == ScanState.FAILED and "staging folder" in scan.problem


def test_offering_waits_for_a_host_that_is_away_and_needs_the_roles(
    far: Host, alice: Person, bob: Person, sshd: Sshd, signed_in: SignedIn
) -> None:
    row = taken(far, alice)
    with pytest.raises(NotAllowed):
        snapshot_offers.snapshot_offer(snapshot=row, actor=Actor.of(bob))
    sshd.stop()
    page = reverse("inventory:snapshot", args=[row.pk])
    shown = act_of(signed_in(alice), page, reverse("inventory:snapshot-offer", args=[row.pk]))
    assert "environment listing" in shown.text
    snapshot_offers.offer_run(row.pk)
    row.refresh_from_db()
    assert row.written_at is None and "cannot be reached" in row.offer_problem
    assert snapshot_offers.offers_sweep() == []
    Snapshot.objects.update(offered_at=timezone.now() - timedelta(minutes=2))
    assert snapshot_offers.offers_sweep() == [row.pk]


def test_a_daemon_that_may_not_be_asked_is_told(make_sshd: Callable[..., Sshd], alice: Person, tmp_path: Path) -> None:
    folder = busybox_folder(tmp_path / "busybox")
    (folder / "docker").write_text("#!/bin/sh\necho 'permission denied while trying to connect' >&2\nexit 1\n")
    (folder / "docker").chmod(0o755)
    row = taken(host_make(make_sshd(path=str(folder)), alice), alice)
    assert "permission denied" in row.files.get(name="containers.txt").problem
