"""What a later scan found otherwise: against a plain reckoning, over a real sshd, and on the page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.drift import DriftSums, Seen, compare, order_key
from inventory.models import Resource, Scan, ScanState
from inventory.services import comparing, scans
from tests.hosts import host_make, resource_make
from tests.inventory.browser import SignedIn
from tests.sshd import Sshd

names = st.lists(st.binary(min_size=1, max_size=4).filter(lambda raw: b"\0" not in raw), max_size=12, unique=True)


@settings(deadline=None)  # a busy machine is no fault
@given(before=names, after=names, changed=st.sets(st.integers(0, 11)))
def test_every_path_is_counted_once_and_rightly(before: list[bytes], after: list[bytes], changed: set[int]) -> None:
    old = [Seen(name, "file", 3, 1) for name in sorted(before, key=order_key)]
    new = [Seen(name, "file", 3, 2 if n in changed else 1) for n, name in enumerate(sorted(after, key=order_key))]
    sums = DriftSums()
    found = {(drift.kind, drift.name) for drift in compare(old, new, sums)}
    times = {seen.name: seen.mtime_ns for seen in new}
    expected = {("added", name) for name in set(after) - set(before)}
    expected |= {("removed", name) for name in set(before) - set(after)}
    expected |= {("changed", name) for name in set(before) & set(after) if times[name] == 2}
    assert found == expected
    assert (sums.added, sums.removed) == (len(set(after) - set(before)), len(set(before) - set(after)))
    assert sums.same + sums.changed == len(set(before) & set(after))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (Seen(b"a", "file", 1, 1, 1, b"x"), Seen(b"a", "file", 1, 9, 9, b"x"), ""),
        (Seen(b"a", "file", 1, 1, 1, b"x"), Seen(b"a", "file", 1, 1, 1, b"y"), "content"),
        (Seen(b"a", "file", 1, 1, 1), Seen(b"a", "file", 1, 1, 2), "time"),
        (Seen(b"a", "file", 1), Seen(b"a", "file", 2), "size"),
        (Seen(b"a", "file", 1, 1, 1, inode=5), Seen(b"a", "file", 1, 1, 1, inode=6), "replaced"),
        (Seen(b"a", "file", 1, 1, 1, inode=5), Seen(b"a", "file", 1, 1, 1), ""),
        (Seen(b"a", "file", 1, 1, 1, b"x", inode=5), Seen(b"a", "file", 1, 1, 1, b"x", inode=6), ""),
        (Seen(b"a", "file", None), Seen(b"a", "file", 2), ""),
        (Seen(b"a", "file", 1), Seen(b"a", "link"), "kind"),
        (Seen(b"a", "link", link_target=b"x"), Seen(b"a", "link", link_target=b"y"), "content"),
        (Seen(b"a", "folder", 1, 1, 1), Seen(b"a", "folder", 2, 2, 2), ""),
    ],
)
def test_what_makes_a_difference(before: Seen, after: Seen, reason: str) -> None:
    assert [drift.reason for drift in compare([before], [after], DriftSums())] == ([reason] if reason else [])


pytestmark = pytest.mark.django_db


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    top.mkdir()
    for name in ("same", "touched", "gone", "grown"):
        (top / name).write_bytes(b"12345")
    return top


@pytest.fixture
def row(sshd: Sshd, alice: Person, tree: Path) -> Resource:
    return resource_make(host_make(sshd, alice), alice, tree)


def scanned(resource: Resource, person: Person) -> Scan:
    scan = scans.scan_request(resource=resource, actor=Actor.of(person))
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FINISHED, scan.problem
    return scan


def change(tree: Path) -> None:
    times = (tree / "touched").stat()
    (tree / "touched").write_bytes(b"54321")
    os.utime(tree / "touched", ns=(times.st_atime_ns, times.st_mtime_ns))
    (tree / "gone").unlink()
    (tree / "grown").write_bytes(b"123456")
    (tree / os.fsdecode(b"n\xffw")).write_bytes(b"1")


def test_a_later_scan_says_what_was_added_removed_and_changed(row: Resource, alice: Person, tree: Path) -> None:
    first = scanned(row, alice)
    assert first.drifted is None
    change(tree)
    second = scanned(row, alice)
    assert second.former == first
    assert (second.added, second.removed, second.changed) == (1, 1, 2)
    assert (second.added_bytes, second.removed_bytes, second.changed_bytes) == (1, 5, 11)
    found = {(one.kind, one.name.raw, one.reason) for one in second.changes.all()}
    assert found == {
        ("added", b"n\xffw", ""),
        ("removed", b"gone", ""),
        ("changed", b"grown", "size"),
        ("changed", b"touched", "time"),
    }
    assert scanned(row, alice).drifted == 0


def test_only_what_is_at_home_becomes_stale_and_only_by_a_change(row: Resource, alice: Person, tree: Path) -> None:
    scanned(row, alice)
    change(tree)
    scanned(row, alice)
    assert Resource.objects.get().stale_since is None
    Resource.objects.update(verified_bytes=20)
    scanned(row, alice)
    assert Resource.objects.get().stale_since is None
    (tree / "same").write_bytes(b"other")
    scan = scanned(row, alice)
    since = Resource.objects.get().stale_since
    assert since is not None and scan.changed == 1
    (tree / "same").unlink()
    scanned(row, alice)
    assert Resource.objects.get().stale_since == since


def test_another_place_is_not_compared(row: Resource, alice: Person, tree: Path, tmp_path: Path) -> None:
    scanned(row, alice)
    (tmp_path / "elsewhere").mkdir()
    Resource.objects.update(path=os.fsencode(tmp_path / "elsewhere"))
    row.refresh_from_db()
    assert scanned(row, alice).drifted is None


def test_of_many_changes_the_first_are_kept_and_all_counted(
    row: Resource, alice: Person, tree: Path, monkeypatch: pytest.MonkeyPatch, signed_in: SignedIn
) -> None:
    monkeypatch.setattr(comparing, "CHANGES_KEPT", 2)
    scanned(row, alice)
    change(tree)
    scan = scanned(row, alice)
    assert scan.drifted == 4 and scan.changes.count() == 2
    assert (
        "The first 2 paths are listed" in signed_in(alice).get(reverse("inventory:scan-changes", args=[scan.pk])).text
    )


def test_the_page_shows_changes_and_the_resource_leads_there(
    row: Resource, alice: Person, tree: Path, signed_in: SignedIn
) -> None:
    first = scanned(row, alice)
    change(tree)
    Resource.objects.update(verified_bytes=20)
    scan = scanned(row, alice)
    client, address = signed_in(alice), reverse("inventory:scan-changes", args=[scan.pk])
    page = client.get(reverse("inventory:resource", args=[row.pk])).text
    assert address in page and "+1 −1 ~2" in page and "changed on the host since" in page
    text = client.get(address).text
    assert "n\\xffw" in text and "gone" in text and "grown" in text
    only = client.get(address, {"kind": "removed"}).text
    assert "gone" in only and "grown" not in only
    assert "nothing to compare" in client.get(reverse("inventory:scan-changes", args=[first.pk])).text


def test_entries_of_the_last_two_scans_are_kept_and_the_counts_of_all(row: Resource, alice: Person, tree: Path) -> None:
    done = []
    for number in range(4):
        (tree / f"new{number}").touch()
        done.append(scanned(row, alice))
    assert [scan.entries.count() for scan in done] == [0, 0, 8, 9]
    assert [scan.files for scan in done] == [5, 6, 7, 8]
