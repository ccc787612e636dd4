"""Scans over a real sshd: what they count, and what is left when workers die, people cancel or hosts fail."""

from __future__ import annotations

import os
import random
import resource as process_limits
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from calculet.actors import SYSTEM, Actor
from calculet.audit.models import Event
from calculet.audit.services import verify_chain
from calculet.leases.models import Lease
from calculet.leases.services import LeaseTaken, lease_acquire, lease_request_stop
from calculet.lifecycle import StateConflict, advance
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import Entry, Host, Resource, Scan, ScanState, SizeBasis
from inventory.remote.base import ConnectionLost
from inventory.scan import ScanEntry
from inventory.selectors import latest_scan, scan_entries
from inventory.services import scans, sorting
from inventory.services.errors import PathAbsent
from inventory.services.listing import Listing
from inventory.services.sorting import EntrySorter
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd

pytestmark = pytest.mark.django_db

HOSTILE = [
    b"plain",
    b"a b",
    b"quote'\"$(id)`",
    b"line\nfeed",
    b"-rf",
    b"\xff\xfe bytes",
    "名字".encode(),
    b"back\\slash",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with files under hostile names, a link, a hard link, a pipe, and names that sort by parts."""
    top = tmp_path / "the tree"
    (top / "a").mkdir(parents=True)
    (top / "a" / "b").write_bytes(b"12345")
    (top / "a-b").write_bytes(b"123")
    for name in HOSTILE:
        (top / os.fsdecode(name)).write_bytes(name)
    (top / "link").symlink_to("a/b")
    os.link(top / "a" / "b", top / "again")
    os.mkfifo(top / "pipe")
    return top


@pytest.fixture
def host(sshd: Sshd, alice: Person) -> Host:
    return host_make(sshd, alice)


@pytest.fixture
def asked(host: Host, alice: Person, tree: Path) -> Scan:
    """A scan of the tree that nobody has begun."""
    return scans.scan_request(resource=resource_make(host, alice, tree), actor=Actor.of(alice))


def names(scan: Scan) -> list[bytes]:
    return [entry.name.raw for entry in scan_entries(scan)]


def test_a_scan_counts_measures_and_keeps_names_as_they_are(asked: Scan, tree: Path) -> None:
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    assert asked.state == ScanState.FINISHED, asked.problem
    assert (asked.files, asked.folders, asked.links, asked.others) == (len(files), 2, 1, 1)
    assert asked.apparent_bytes == sum(path.stat().st_size for path in files)
    assert asked.entries_seen == len(files) + 4
    assert set(HOSTILE) <= set(names(asked))
    link = scan_entries(asked).get(kind="link")
    assert link.link_target.raw == b"a/b"


def test_entries_stand_in_the_order_of_their_names_part_by_part(asked: Scan) -> None:
    scans.scan_run(asked.pk)
    found = names(asked)
    assert found == sorted(found, key=lambda name: name.split(b"/") if name else [])
    assert found.index(b"a") + 1 == found.index(b"a/b") < found.index(b"a-b")
    assert list(scan_entries(asked).values_list("position", flat=True)) == list(range(len(found)))


def test_a_finished_scan_makes_the_size_exact_and_is_the_latest(asked: Scan) -> None:
    assert latest_scan(asked.resource) is None
    scans.scan_run(asked.pk)
    row = Resource.objects.get()
    asked.refresh_from_db()
    assert (row.size_bytes, row.size_basis) == (asked.apparent_bytes, SizeBasis.EXACT)
    assert latest_scan(row) == asked
    acts = list(Event.objects.order_by("sequence").values_list("act", flat=True))
    assert acts[-3:] == ["scan.asked", "scan.started", "scan.finished"] and verify_chain().whole


def test_a_file_with_two_names_is_stored_once(asked: Scan, tree: Path) -> None:
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    once = {path.lstat().st_ino: path.lstat().st_blocks * 512 for path in [tree, *tree.rglob("*")]}
    assert asked.stored_bytes == sum(once.values())


def test_our_staging_folder_is_left_out(host: Host, alice: Person, sshd: Sshd) -> None:
    (sshd.home / "staging").mkdir()
    (sshd.home / "staging" / "ours").write_text("x")
    (sshd.home / "theirs").write_text("x")
    scan = scans.scan_request(resource=resource_make(host, alice, sshd.home), actor=Actor.of(alice))
    scans.scan_run(scan.pk)
    assert b"theirs" in names(scan) and not any(name.startswith(b"staging") for name in names(scan))


def test_one_file_gives_one_entry(host: Host, alice: Person, tmp_path: Path) -> None:
    (tmp_path / "one.tar").write_bytes(b"x" * 1000)
    file = resource_make(host, alice, tmp_path / "one.tar", kind="archive")
    scan = scans.scan_request(resource=file, actor=Actor.of(alice))
    scans.scan_run(scan.pk)
    assert names(scan) == [b""] and Resource.objects.get().size_bytes == 1000


def test_asking_twice_gives_the_scan_that_is_under_way(asked: Scan, alice: Person) -> None:
    again = scans.scan_request(resource=asked.resource, actor=Actor.of(alice))
    assert again == asked and Scan.objects.count() == 1
    assert Event.objects.filter(act="scan.asked").count() == 1


def test_asking_needs_the_role_and_a_path(host: Host, alice: Person, carol: Person, asked: Scan) -> None:
    with pytest.raises(NotAllowed):
        scans.scan_request(resource=asked.resource, actor=Actor.of(carol))
    with pytest.raises(NotAllowed):
        scans.scan_cancel(scan=asked, actor=Actor.of(carol))
    idea = resource_make(host, alice, "", name="an idea")
    with pytest.raises(PathAbsent, match="an idea"):
        scans.scan_request(resource=idea, actor=Actor.of(alice))


def test_a_path_that_is_not_there_fails_with_a_sentence_and_no_host_problem(host: Host, alice: Person) -> None:
    gone = resource_make(host, alice, "/no/such/place")
    scan = scans.scan_request(resource=gone, actor=Actor.of(alice))
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    host.refresh_from_db()
    assert scan.state == ScanState.FAILED and "/no/such/place" in scan.problem and scan.finished_at is not None
    assert host.problem == "" and not Entry.objects.exists()


def test_a_changed_host_key_fails_the_scan_and_is_the_hosts_problem(asked: Scan, sshd: Sshd) -> None:
    old = sshd.pinned.fingerprint
    sshd.change_host_key()
    sshd.restart()
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    host = Host.objects.get()
    assert asked.state == ScanState.FAILED and old in asked.problem and host.problem == asked.problem
    assert Resource.objects.get().size_basis == SizeBasis.UNKNOWN


def test_a_scan_that_succeeds_clears_the_hosts_problem(asked: Scan) -> None:
    Host.objects.update(problem="It was away.")
    scans.scan_run(asked.pk)
    assert Host.objects.get().problem == ""


def test_a_scan_that_another_worker_does_is_left_to_it(asked: Scan) -> None:
    assert lease_acquire(name=scans.scan_lease(asked.pk)) is not None
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    assert asked.state == ScanState.QUEUED and not Entry.objects.exists()


def test_a_finished_scan_is_not_done_again(asked: Scan) -> None:
    scans.scan_run(asked.pk)
    before, events = names(asked), Event.objects.count()
    scans.scan_run(asked.pk)
    assert names(asked) == before and Event.objects.count() == events


def kill_halfway(scan: Scan) -> None:
    """Leave a scan as a worker that was killed while it stored entries leaves it."""
    held = lease_acquire(name=scans.scan_lease(scan.pk))
    assert held is not None
    advance(scan, ScanState.RUNNING, act="scan.started", actor=SYSTEM)
    Entry.objects.bulk_create(
        Entry(scan=scan, position=position, name=b"half %d" % position, kind="file") for position in range(3)
    )


def silence(scan: Scan) -> None:
    """The dead worker's lease has been silent long enough."""
    Lease.objects.filter(name=scans.scan_lease(scan.pk)).update(heartbeat_at=timezone.now() - timedelta(minutes=1))


def test_a_lost_workers_scan_is_swept_and_begins_again(asked: Scan) -> None:
    kill_halfway(asked)
    assert scans.scans_sweep() == []  # the worker may be alive still
    silence(asked)
    assert scans.scans_sweep() == [asked.pk]
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    assert asked.state == ScanState.FINISHED and not any(name.startswith(b"half") for name in names(asked))
    assert Event.objects.filter(act="scan.worker_lost").count() == 1
    assert scans.scans_sweep() == []


def test_a_scan_whose_message_was_lost_is_swept(asked: Scan) -> None:
    assert scans.scans_sweep() == []  # its message may be on its way
    Scan.objects.update(requested_at=timezone.now() - timedelta(minutes=1))
    assert scans.scans_sweep() == [asked.pk]


def test_what_a_cancelled_scan_left_behind_is_swept_away(asked: Scan, alice: Person) -> None:
    kill_halfway(asked)
    scans.scan_cancel(scan=asked, actor=Actor.of(alice))
    silence(asked)
    assert scans.scans_sweep() == [asked.pk]
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    assert asked.state == ScanState.CANCELLED and not Entry.objects.exists() and scans.scans_sweep() == []


def test_a_cancelled_scan_is_not_begun_and_another_can_be_asked_for(asked: Scan, alice: Person) -> None:
    scans.scan_cancel(scan=asked, actor=Actor.of(alice))
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    assert asked.state == ScanState.CANCELLED
    with pytest.raises(StateConflict):
        scans.scan_cancel(scan=asked, actor=Actor.of(alice))
    assert scans.scan_request(resource=asked.resource, actor=Actor.of(alice)) != asked


def test_cancelling_while_it_runs_ends_it_and_removes_what_it_found(asked: Scan, alice: Person) -> None:
    def cancel(seen: int) -> None:
        if Scan.objects.get(pk=asked.pk).state == ScanState.RUNNING:
            scans.scan_cancel(scan=Scan.objects.get(pk=asked.pk), actor=Actor.of(alice))

    scans.scan_run(asked.pk, progress=cancel)
    asked.refresh_from_db()
    assert asked.state == ScanState.CANCELLED and not Entry.objects.exists()
    assert Resource.objects.get().size_basis == SizeBasis.UNKNOWN


def test_a_worker_whose_lease_was_taken_over_writes_nothing_more(asked: Scan) -> None:
    def take_over(seen: int) -> None:
        silence(asked)
        assert lease_acquire(name=scans.scan_lease(asked.pk)) is not None

    scans.scan_run(asked.pk, progress=take_over)
    asked.refresh_from_db()
    assert asked.state == ScanState.RUNNING and not Entry.objects.exists()


def test_a_scan_whose_worker_is_shut_down_ends_soon_and_begins_again_elsewhere(asked: Scan) -> None:
    told: list[int] = []

    def shut_down(seen: int) -> None:
        told.append(seen)
        lease_request_stop(name=scans.scan_lease(asked.pk))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "_TELL_SECONDS", 0.0)
        scans.scan_run(asked.pk, progress=shut_down)
    asked.refresh_from_db()
    assert asked.state == ScanState.RUNNING and len(told) == 1 and scans.scans_sweep() == [asked.pk]
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    assert asked.state == ScanState.FINISHED


def test_a_connection_lost_on_the_way_is_dialled_again(
    asked: Scan, sshd: Sshd, monkeypatch: pytest.MonkeyPatch, tree: Path
) -> None:
    monkeypatch.setattr(scans, "_TRY_AGAIN_SECONDS", 0.05)
    killed: list[int] = []
    plain = Listing.pieces

    def cut(self: Any) -> Iterator[list[ScanEntry]]:
        for piece in plain(self):
            if not killed:
                killed.append(sshd.kill_children())
                raise ConnectionLost("127.0.0.1", sshd.port, "cut")
            yield piece

    monkeypatch.setattr(Listing, "pieces", cut)
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    assert killed and asked.state == ScanState.FINISHED, asked.problem
    assert asked.files == len(HOSTILE) + 3


def test_a_fault_of_ours_ends_the_scan_with_a_sentence_instead_of_for_ever(
    asked: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(scans, "_store", broken)
    scans.scan_run(asked.pk)
    asked.refresh_from_db()
    assert asked.state == ScanState.FAILED and "fault of this program" in asked.problem
    assert scans.scans_sweep() == []


def test_a_name_that_came_again_as_unreadable_counts_as_that() -> None:
    def entry(name: bytes, kind: Any) -> ScanEntry:
        return ScanEntry(name, kind, 5, 5, 0, 0, 0, 0, 0, 1)

    with EntrySorter() as sorter:
        sorter.add([entry(b"", "folder"), entry(b"d", "folder"), entry(b"f", "file"), entry(b"d", "unreadable")])
        sorter.settle()
        totals = sorter.totals()
        kinds = [(row.name.raw, row.kind) for row in sorter.rows(scan_id=1)]
    assert (totals.folders, totals.unreadable, totals.files) == (1, 1, 1)
    assert kinds == [(b"", "folder"), (b"d", "unreadable"), (b"f", "file")]


@pytest.mark.parametrize(
    ("time_ns", "kept"), [(2**70, 2**63 - 1), (-(2**70), -(2**63)), (1_700_000_000_000_000_001,) * 2]
)
def test_a_time_that_no_database_holds_does_not_fail_a_scan(asked: Scan, time_ns: int, kept: int) -> None:
    with EntrySorter() as sorter:
        sorter.add([ScanEntry(b"", "file", 1, 512, time_ns, time_ns, 0o644, 2**64 - 1, 2**64 - 1, 1)])
        Entry.objects.bulk_create(sorter.rows(scan_id=asked.pk))
    entry = scan_entries(asked).get()
    assert (entry.mtime_ns, entry.ctime_ns, entry.inode) == (kept, kept, -1)


def test_a_long_sort_keeps_the_lease_and_ends_when_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_BREATH_SECONDS", 0.0)
    called: list[int] = []

    def keep() -> None:
        called.append(1)
        if len(called) > 3:
            raise LeaseTaken("scan:1")

    with EntrySorter(keep_alive=keep) as sorter, pytest.raises(LeaseTaken):
        for begin in range(0, 200_000, 1000):
            piece = range(begin, begin + 1000)
            sorter.add(ScanEntry(b"%09d" % number, "file", 1, 1, 0, 0, 0, 1, 1, 1) for number in piece)
            sorter.totals()
    assert len(called) == 4


def test_a_large_listing_is_sorted_in_flat_memory() -> None:
    count, peak = 60_000, process_limits.getrusage(process_limits.RUSAGE_SELF).ru_maxrss
    order = list(range(count))
    random.Random(7).shuffle(order)
    with EntrySorter() as sorter:
        for begin in range(0, count, 1000):
            sorter.add(
                ScanEntry(
                    b"folder/with/a/long/enough/name/%09d" % number, "file", 1, 512, 0, 0, 0, 2**63 + 1, number, 1
                )
                for number in order[begin : begin + 1000]
            )
        last = -1
        for row in sorter.rows(scan_id=1):
            number = int(row.name.base)
            assert number == last + 1
            last = number
    grown_kib = process_limits.getrusage(process_limits.RUSAGE_SELF).ru_maxrss - peak
    assert last == count - 1 and grown_kib < 80 * 1024
