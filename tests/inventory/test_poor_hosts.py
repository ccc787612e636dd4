"""Scans of hosts with GNU tools, with BusyBox alone and with SFTP alone: the same figures, and what each can't tell."""

from __future__ import annotations

import io
import mmap
import os
import socket
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host, KnownDigest, ListedBy, Resource, Scan, ScanState
from inventory.services import digest_runs, hosts, scans, snapshots
from inventory.services.errors import ShellAbsent
from tests.hosts import host_make, resource_make
from tests.inventory.browser import SignedIn
from tests.parts import need
from tests.sshd import Sshd, busybox_folder

pytestmark = pytest.mark.django_db
SFTP_ONLY = ["ForceCommand internal-sftp"]
LISTED_BY = {"GNU": ListedBy.FIND, "BusyBox": ListedBy.STAT, "SFTP": ListedBy.SFTP}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One of every kind; names that are no text."""
    top = tmp_path / "tree"
    (top / "folder").mkdir(parents=True)
    (top / "five").write_bytes(b"12345")
    (top / "twin").hardlink_to(top / "five")
    (top / os.fsdecode(b"bad\xff\n.bin")).write_bytes(b"1")
    (top / "link").symlink_to(os.fsdecode(b"no\xfewhere"))
    os.mkfifo(top / "pipe")
    with (top / "holes").open("wb") as file:
        file.truncate(10_000_000)
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{short}/s")
        Path(f"{short}/s").rename(top / "socket")
    return top


@pytest.fixture
def far(make_sshd: Callable[..., Sshd], tmp_path: Path) -> Callable[[str], Sshd]:
    """A server of a sort: `far("BusyBox")`."""

    def make(sort: str) -> Sshd:
        if sort == "BusyBox":
            need("busybox")
            return make_sshd(path=str(busybox_folder(tmp_path / "applets")))
        return make_sshd(config=SFTP_ONLY if sort == "SFTP" else [])

    return make


def scanned(resource: Resource, person: Person) -> Scan:
    scan = scans.scan_request(resource=resource, actor=Actor.of(person))
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FINISHED, scan.problem
    return scan


@pytest.fixture
def bare(far: Callable[[str], Sshd], alice: Person) -> Host:
    """A probed host that gives SFTP alone."""
    host = host_make(far("SFTP"), alice)
    hosts.host_probe_run(host.pk)
    host.refresh_from_db()
    return host


@pytest.mark.parametrize("sort", list(LISTED_BY))
def test_kinds_sizes_and_names_are_the_same_on_every_host(
    far: Callable[[str], Sshd], alice: Person, tree: Path, sort: str, signed_in: SignedIn
) -> None:
    scan = scanned(resource_make(host_make(far(sort), alice), alice, tree), alice)
    assert scan.listed_by == LISTED_BY[sort]
    assert (scan.files, scan.folders, scan.links, scan.sockets, scan.pipes, scan.devices, scan.unreadable) == (
        (4, 2, 1, 1, 1, 0, 0)
    )
    assert (scan.others, scan.apparent_bytes) == (2, 10_000_011)
    assert scan.entries.get(name=b"bad\xff\n.bin").size_bytes == 1
    assert scan.entries.get(name=b"link").link_target.raw == b"no\xfewhere"
    text = signed_in(alice).get(reverse("inventory:resource", args=[scan.resource_id])).text
    if sort == "SFTP":
        assert (scan.hard_linked, scan.sparse, scan.stored_bytes) == (None, None, 0)
        assert {(one.device, one.inode, one.ctime_ns, one.link_count) for one in scan.entries.all()} == {(0, 0, 0, 0)}
        assert text.count("not told") == 4 and "Listed over SFTP" in text
    else:
        assert (scan.hard_linked, scan.sparse) == (2, 1)
        assert 0 < scan.stored_bytes < 1_000_000
        assert scan.entries.get(name=b"five").inode == (tree / "five").stat().st_ino
        assert "not told" not in text


def test_a_later_scan_over_sftp_sees_what_it_can_and_the_page_says_what_it_cannot(
    bare: Host, alice: Person, tree: Path, signed_in: SignedIn
) -> None:
    row = resource_make(bare, alice, tree)
    scanned(row, alice)
    kept = (tree / "five").stat()
    (tree / "five").write_bytes(b"54321")
    os.utime(tree / "five", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    (tree / "holes").unlink()
    (tree / "new").touch()
    later = scanned(row, alice)
    assert {(one.kind, one.name.raw) for one in later.changes.all()} == {("removed", b"holes"), ("added", b"new")}
    text = signed_in(alice).get(reverse("inventory:scan-changes", args=[later.pk])).text
    assert "listed over SFTP" in text and "can&#x27;t be noticed" in text.replace("&#39;", "&#x27;").replace(
        "'", "&#x27;"
    )


def test_a_host_whose_shell_is_gone_or_back_is_compared_in_what_both_can_tell(
    sshd: Sshd, alice: Person, tree: Path
) -> None:
    """The probe on record says “shell”: the scan notices by itself, and nothing looks changed that is not."""
    host = host_make(sshd, alice)
    hosts.host_probe_run(host.pk)
    row = resource_make(host, alice, tree)
    assert scanned(row, alice).listed_by == ListedBy.FIND
    config = sshd.folder / "sshd_config"
    sshd._config = [*SFTP_ONLY, *sshd._config]
    sshd.restart()
    later = scanned(row, alice)
    assert (later.listed_by, later.drifted) == (ListedBy.SFTP, 0), config.read_text()
    host.refresh_from_db()
    assert host.probe is not None and not host.probe["has_shell"]


def test_what_takes_a_shell_is_refused_beforehand_and_the_page_says_so(
    bare: Host, alice: Person, tree: Path, signed_in: SignedIn
) -> None:
    row = resource_make(bare, alice, tree)
    scanned(row, alice)
    row.refresh_from_db()
    with pytest.raises(ShellAbsent, match="SFTP only"):
        digest_runs.digests_request(resource=row, actor=Actor.of(alice))
    with pytest.raises(ShellAbsent):
        snapshots.snapshot_request(host=bare, actor=Actor.of(alice))
    client = signed_in(alice)
    page = client.get(reverse("inventory:host", args=[bare.name])).text
    assert "SFTP only" in page and "over SFTP" in page and "No shell answers here" in page
    resource_page = client.get(reverse("inventory:resource", args=[row.pk])).text
    assert "take a shell" in resource_page and 'id="digests"' not in resource_page


def test_the_command_says_what_cannot_be_done(bare: Host, alice: Person) -> None:
    said = io.StringIO()
    call_command("probe", bare.name, as_person=alice.username, stdout=said)
    assert "SFTP only" in said.getvalue() and "No shell answers here" in said.getvalue()
    assert "not there" not in said.getvalue()


@pytest.mark.parametrize(
    ("offset", "words"), [(10_800.4, "10800 seconds ahead of"), (-61, "61 seconds behind"), (4, "")]
)
def test_times_by_a_clock_that_is_off_come_with_a_warning(
    sshd: Sshd, alice: Person, tree: Path, signed_in: SignedIn, offset: float, words: str
) -> None:
    host = host_make(sshd, alice)
    row = resource_make(host, alice, tree)
    scanned(row, alice)
    host.refresh_from_db()
    Host.objects.update(probe={**(host.probe or {}), "clock_offset_seconds": offset})
    for address in (reverse("inventory:resource", args=[row.pk]), reverse("inventory:host", args=[host.name])):
        text = signed_in(alice).get(address).text
        assert ("clock is " + words in text.replace("&#x27;", "'")) if words else "clock is" not in text


def test_no_digest_is_taken_from_memory_where_the_identity_is_not_known(bare: Host, alice: Person, tree: Path) -> None:
    KnownDigest.objects.create(
        host=bare,
        device=0,
        inode=0,
        size_bytes=5,
        mtime_ns=(tree / "five").stat().st_mtime_ns // 10**9 * 10**9,
        ctime_ns=0,
        sha256=b"x" * 32,
        taken_at=timezone.now(),
    )
    scan = scanned(resource_make(bare, alice, tree), alice)
    assert not scan.entries.filter(sha256__isnull=False).exists()


@pytest.mark.parametrize("sort", ["GNU", "SFTP"])
def test_a_scan_waits_for_a_host_that_is_away_and_begins_again_by_itself(
    far: Callable[[str], Sshd], alice: Person, tree: Path, sort: str, signed_in: SignedIn
) -> None:
    server = far(sort)
    row = resource_make(host_make(server, alice), alice, tree)
    scan = scans.scan_request(resource=row, actor=Actor.of(alice))
    server.stop()
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.QUEUED and scan.tries == 1 and "cannot be reached" in scan.problem
    text = signed_in(alice).get(reverse("inventory:resource", args=[row.pk])).text
    assert "The host was away" in text and "cannot be reached" in text
    Scan.objects.update(requested_at=timezone.now() - timedelta(minutes=1))
    assert scans.scans_sweep() == []
    scans.scan_run(scan.pk)  # a message that came too early
    scan.refresh_from_db()
    assert scan.tries == 1
    server.start()
    Scan.objects.update(not_before=timezone.now())
    assert scans.scans_sweep() == [scan.pk]
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert (scan.state, scan.problem, scan.not_before) == (ScanState.FINISHED, "", None)


def test_a_host_that_stays_away_fails_the_scan_in_the_end(sshd: Sshd, alice: Person, tree: Path) -> None:
    scan = scans.scan_request(resource=resource_make(host_make(sshd, alice), alice, tree), actor=Actor.of(alice))
    sshd.stop()
    Scan.objects.update(tries=len(scans.LATER_SECONDS))
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FAILED and "cannot be reached" in scan.problem


def in_place(path: Path) -> None:
    path.write_bytes(b"54321")


def by_another_file(path: Path) -> None:
    (path.parent / "next").write_bytes(b"54321")
    (path.parent / "next").replace(path)


def mapped(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"9"


@pytest.mark.parametrize("sort", ["GNU", "BusyBox"])
@pytest.mark.parametrize("edit", [in_place, by_another_file, mapped])
def test_an_edit_that_keeps_size_and_time_is_noticed(
    far: Callable[[str], Sshd], alice: Person, tree: Path, sort: str, edit: Callable[[Path], None]
) -> None:
    (tree / "twin").unlink()
    row = resource_make(host_make(far(sort), alice), alice, tree)
    scanned(row, alice)
    kept = (tree / "five").stat()
    edit(tree / "five")
    os.utime(tree / "five", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    later = scanned(row, alice)
    assert [(one.kind, one.name.raw, one.reason) for one in later.changes.all()] == [("changed", b"five", "time")]
