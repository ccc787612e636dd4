"""A scan's entries folder by folder, against the same asked of a plain list."""

from __future__ import annotations

import random

import pytest

from inventory import browsing
from inventory.models import Entry, Host, Resource, Scan
from inventory.remote.names import RemoteName

pytestmark = pytest.mark.django_db


def scan_of(folders: set[bytes], files: dict[bytes, int]) -> Scan:
    """A finished scan with these names."""
    host = Host.objects.create(name="far", staging_path=RemoteName(b"/s"))
    resource = Resource.objects.create(host=host, name="tree", path=RemoteName(b"/t"))
    scan = Scan.objects.create(host=host, resource=resource, root=RemoteName(b"/t"), state="finished")
    names = sorted(folders | files.keys(), key=lambda name: name.split(b"/") if name else [])
    Entry.objects.bulk_create(
        Entry(
            scan=scan,
            position=position,
            name=RemoteName(name),
            kind="folder" if name in folders else "file",
            size_bytes=files.get(name, 0),
        )
        for position, name in enumerate(names)
    )
    return scan


@pytest.fixture
def forest() -> tuple[Scan, set[bytes], dict[bytes, int]]:
    """A hundred names whose parts are prefixes of one another and hold odd bytes."""
    chance = random.Random(11)
    parts = [b"a", b"a-", b"a b", b"aa", b"\xff", b"\n", b"back\\slash", b"b", b".c"]
    folders, files = {b""}, {}
    for _ in range(25):
        parent = chance.choice(sorted(folders))
        folders.add((parent + b"/" if parent else b"") + chance.choice(parts))
    for _ in range(100):
        parent = chance.choice(sorted(folders))
        name = (parent + b"/" if parent else b"") + chance.choice(parts) + b"%d" % chance.randrange(50)
        files[name] = chance.randrange(1000)
    return scan_of(folders, files), folders, files


def test_every_folder_shows_exactly_its_own_entries_with_what_lies_below(
    forest: tuple[Scan, set[bytes], dict[bytes, int]],
) -> None:
    scan, folders, files = forest
    everything = folders | files.keys()
    for folder in folders:
        entry = browsing.entry_find(scan, folder)
        assert entry is not None and entry.name.raw == folder
        page = browsing.folder_page(scan, entry, limit=1000)
        top = folder + b"/" if folder else b""
        below = {name for name in everything if name.startswith(top) and name != folder}
        direct = {name for name in below if b"/" not in name[len(top) :]}
        assert {row.entry.name.raw for row in page.rows} == direct and page.next_position is None
        assert page.entries_below == len(below)
        for row in page.rows:
            inside = row.entry.name.raw + b"/"
            assert row.bytes_below == sum(size for name, size in files.items() if name.startswith(inside))
            assert row.entries_below == sum(name.startswith(inside) for name in everything)


def test_pages_of_a_folder_add_up_to_the_whole(forest: tuple[Scan, set[bytes], dict[bytes, int]]) -> None:
    scan, _folders, _files = forest
    root = browsing.entry_find(scan, b"")
    assert root is not None
    whole = [row.entry.pk for row in browsing.folder_page(scan, root, limit=1000).rows]
    found, start = [], None
    for _ in range(len(whole)):
        page = browsing.folder_page(scan, root, start=start, limit=3)
        found += [row.entry.pk for row in page.rows]
        start = page.next_position
        if start is None:
            break
    assert found == whole


def test_a_key_in_an_address_names_any_bytes(forest: tuple[Scan, set[bytes], dict[bytes, int]]) -> None:
    scan, _folders, files = forest
    for name in files:
        found = browsing.entry_at_key(scan, browsing.folder_key(name))
        assert found is not None and found.name.raw == name


@pytest.mark.parametrize("key", ["absent", "a/absent", "\\q", "\\x00", "/a", "a/"])
def test_a_key_that_names_nothing_finds_nothing(forest: tuple[Scan, set[bytes], dict[bytes, int]], key: str) -> None:
    assert browsing.entry_at_key(forest[0], key) is None


def test_a_start_outside_the_folder_begins_at_its_first_entry(
    forest: tuple[Scan, set[bytes], dict[bytes, int]],
) -> None:
    scan = forest[0]
    root = browsing.entry_find(scan, b"")
    assert root is not None
    for start in (-5, 0, 10**9):
        assert browsing.folder_page(scan, root, start=start).is_first


def test_crumbs_lead_down_to_the_folder() -> None:
    scan = scan_of({b"", b"a", b"a/\xff", b"a/\xff/c"}, {})
    entry = browsing.entry_find(scan, b"a/\xff/c")
    assert entry is not None
    crumbs = browsing.folder_page(scan, entry).crumbs
    assert [(crumb.shown, crumb.key) for crumb in crumbs] == [("a", "a"), ("\\xff", "a/\\xff"), ("c", "a/\\xff/c")]


def test_an_empty_scan_and_a_single_file_show_nothing_inside() -> None:
    scan = scan_of(set(), {b"": 5})
    root = browsing.entry_find(scan, b"")
    assert root is not None and browsing.folder_page(scan, root).rows == []
    scan.entries.all().delete()
    assert browsing.entry_find(scan, b"") is None


@pytest.mark.parametrize("mtime_ns", [2**63 - 1, -(2**63), 0, 1_700_000_000_123_456_789])
def test_any_time_can_be_shown(mtime_ns: int) -> None:
    row = browsing.FolderRow(Entry(kind="file", mtime_ns=mtime_ns), "x", "x", 0, 0)
    assert row.modified is None or row.modified.tzinfo is not None


def test_a_page_adds_up_only_so_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = scan_of({b"", b"big", b"small"}, {b"big/%d" % number: 1 for number in range(9)} | {b"small/1": 5})
    monkeypatch.setattr(browsing, "SUMMED_ENTRIES", 5)
    root = browsing.entry_find(scan, b"")
    assert root is not None
    rows = browsing.folder_page(scan, root).rows
    assert [(row.shown, row.entries_below, row.bytes_below) for row in rows] == [("big", 9, None), ("small", 1, 5)]
