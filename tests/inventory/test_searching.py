"""Searching, sorting and pictures: against a plain reckoning on the same forest, and on the pages."""

from __future__ import annotations

import fnmatch
import random
import re

import pytest
from django.urls import reverse
from hypothesis import example, given
from hypothesis import strategies as st

from calculet.people.models import Person
from inventory import browsing, matching, pictures, searching
from inventory.columns import columns_of
from inventory.models import Entry, Host, Resource, Scan, Tier
from inventory.remote.names import RemoteName, escape
from inventory.scan import ScanEntry
from inventory.searching import Search, search_below, search_everywhere
from inventory.services.sorting import EntrySorter
from inventory.treemap import treemap
from tests.inventory.browser import SignedIn


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=30))
@example([1, 10_325_427_143, 10_325_427_143, 10_325_427_143])
def test_boxes_have_the_areas_of_their_sizes_and_stay_inside(sizes: list[int]) -> None:
    sizes.sort(reverse=True)
    boxes = treemap(sizes, 1000, 320)
    assert len(boxes) == len(sizes)
    for size, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(size * 320_000 / sum(sizes), rel=1e-6, abs=1e-3)
        assert box.x >= -0.001 and box.x + box.width <= 1000.001 and box.y + box.height <= 320.001


def test_nothing_gives_no_box() -> None:
    assert treemap([], 10, 10) == [] and treemap([1], 0, 10) == []


pytestmark = pytest.mark.django_db


def scan_of(host: Host, files: dict[bytes, int], name: str = "tree") -> Scan:
    """A finished scan stored as scans store theirs."""
    resource = Resource.objects.create(host=host, name=name, path=RemoteName(b"/t/" + name.encode()))
    scan = Scan.objects.create(
        host=host, resource=resource, root=resource.path, state="finished", finished_at="2026-01-01T00:00Z"
    )
    folders = {b"".join(path.rpartition(b"/")[:1]) for path in files} | {b""}
    for folder in list(folders):
        while folder:
            folder = folder.rpartition(b"/")[0]
            folders.add(folder)
    with EntrySorter() as sorter:
        sorter.add(ScanEntry(path, "folder", 4096, 4096, 0, 0, 0, 1, 1, 2) for path in folders)
        sorter.add(ScanEntry(path, "file", size, size, size, 0, 0, 1, 1, 1) for path, size in files.items())
        Entry.objects.bulk_create(sorter.rows(scan_id=scan.pk))
    return scan


@pytest.fixture
def forest(host: Host) -> tuple[Scan, dict[bytes, int]]:
    chance = random.Random(7)
    parts = [b"a", b"a-", b"a b", b"aa", b"\xff", b"x\ny", b"back\\slash", b"b.txt", b".c", b"[z]"]
    files = {}
    for _ in range(200):
        path = b"/".join(chance.choice(parts) for _ in range(chance.randrange(1, 4))) + b"%d" % chance.randrange(9)
        files[path] = chance.randrange(1, 1000)
    files = {path: size for path, size in files.items() if not any(other.startswith(path + b"/") for other in files)}
    return scan_of(host, files), files


def root(scan: Scan) -> Entry:
    entry = browsing.entry_find(scan, b"")
    assert entry is not None
    return entry


def found_names(found: searching.Found) -> list[bytes]:
    return [match.entry.name.raw for match in found.matches]


def test_what_lies_below_each_folder_is_measured(forest: tuple[Scan, dict[bytes, int]]) -> None:
    scan, files = forest
    for folder in scan.entries.filter(kind="folder"):
        top = folder.name.raw + b"/" if folder.name.raw else b""
        inside = [entry for entry in scan.entries.all() if entry.name.raw.startswith(top) and entry.pk != folder.pk]
        assert folder.entries_below == len(inside)
        assert folder.bytes_below == sum(size for path, size in files.items() if path.startswith(top))
        direct = {entry.pk for entry in inside if b"/" not in entry.name.raw[len(top) :]}
        assert set(scan.entries.filter(parent=folder.position).values_list("pk", flat=True)) == direct


@pytest.mark.parametrize(
    "pattern", ["a", "b.txt", "a*", "*.txt?", "?a*", "\\xff", "back\\\\", "x\\n", "*", "[[]z]*", "a/*"]
)
def test_a_pattern_finds_what_a_plain_reckoning_finds(forest: tuple[Scan, dict[bytes, int]], pattern: str) -> None:
    scan, _files = forest
    raw = matching._bytes_of(pattern).decode("latin-1")
    expected = set()
    for name in (entry.name.raw for entry in scan.entries.all() if entry.name.raw):
        part = (name if "/" in pattern else name.rpartition(b"/")[2]).decode("latin-1")
        is_in = fnmatch.fnmatchcase(part, raw) if re.search(r"[*?\[]", pattern) else raw in part
        expected |= {name} if is_in else set()
    assert set(found_names(search_below(scan, root(scan), Search(name=pattern), limit=10_000))) == expected


def test_pages_of_a_search_add_up_in_every_order(forest: tuple[Scan, dict[bytes, int]]) -> None:
    scan, files = forest
    for sort in ("", "size", "time"):
        wanted = Search(name="a", kind="file", sort=sort)
        whole = found_names(search_below(scan, root(scan), wanted, limit=10_000))
        pieces: list[bytes] = []
        start = None
        for _page in range(len(whole) + 1):
            found = search_below(scan, root(scan), wanted, start=start, limit=7)
            pieces += found_names(found)
            if found.next_start is None:
                break
            start = found.next_start
        assert pieces == whole and len(whole) > 20
        if sort == "size":
            sizes = [files[name] for name in whole]
            assert sizes == sorted(sizes, reverse=True)


def test_sizes_kinds_and_a_folder_narrow(forest: tuple[Scan, dict[bytes, int]]) -> None:
    scan, files = forest
    found = search_below(scan, root(scan), Search(least_bytes=100, most_bytes=500), limit=10_000)
    assert set(found_names(found)) == {path for path, size in files.items() if 100 <= size <= 500}
    folder = scan.entries.filter(kind="folder", entries_below__gt=3).exclude(name=RemoteName(b"")).first()
    assert folder is not None
    inside = found_names(search_below(scan, folder, Search(kind="file"), limit=10_000))
    assert set(inside) == {path for path in files if path.startswith(folder.name.raw + b"/")}
    scan.entries.filter(kind="file").update(sha256=b"x" * 32)
    assert found_names(search_below(scan, root(scan), Search(has_no_digest=True))) == []


def test_a_search_that_takes_too_long_says_where_it_goes_on(
    forest: tuple[Scan, dict[bytes, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SEARCH_SECONDS", -1.0)
    found = search_below(forest[0], root(forest[0]), Search(name="a"))
    assert found.is_cut and found.next_start is not None and found.matches == []


@pytest.mark.parametrize("most", [2000, 1])
def test_a_picture_shows_a_folders_content_by_size_and_the_small_as_one(
    host: Host, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(pictures, "BOXES", 2)
    monkeypatch.setattr(pictures, "SORTED_HERE", most)
    scan = scan_of(host, {b"big/x": 700, b"mid": 200, b"s1": 60, b"s2": 40})
    tiles = pictures.folder_picture(scan, root(scan))
    assert [(tile.words, tile.size_bytes, tile.key) for tile in tiles] == [
        ("big/", 700, "big"),
        ("mid", 200, ""),
        ("…", 100, ""),
    ]


def test_a_picture_is_coloured_by_the_tier_of_what_is_drawn(host: Host) -> None:
    scan = scan_of(host, {b"in/x": 700, b"out/y": 200, b"z": 60})
    assert [tile.shade for tile in pictures.folder_picture(scan, root(scan))] == ["folder", "folder", "file"]
    first, second = (Tier.objects.create(position=at, name=name) for at, name in enumerate(("first", "second"), 1))
    Resource.objects.filter(pk=scan.resource_id).update(tier=first)
    Resource.objects.create(host=host, name="inner", path=RemoteName(b"/t/tree/in"), tier=second)
    columns_of(scan)
    scan = Scan.objects.get(pk=scan.pk)
    assert [tile.shade for tile in pictures.folder_picture(scan, root(scan))] == ["t2", "t1", "t1"]


def test_pages_filter_sort_and_draw_with_shareable_addresses(host: Host, alice: Person, signed_in: SignedIn) -> None:
    scan = scan_of(host, {b"sub/<b>x.so": 700, b"sub/y.txt": 20, b"z.so": 5_000_000, b"\xff": 1})
    client, address = signed_in(alice), reverse("inventory:entries", args=[scan.pk])
    page = client.get(address).text
    assert 'class="treemap"' in page and f'href="{address}?in=sub"' in page and "<b>x" not in page
    found = client.get(address, {"name": "*.so", "sort": "size"}).text
    assert found.index("z.so") < found.index("&lt;b&gt;x.so") and "y.txt" not in found
    found = client.get(address, {"in": "sub", "name": "so"}).text
    assert "&lt;b&gt;x.so" in found and ">z.so" not in found
    assert "z.so" in client.get(address, {"least": "1 MB"}).text
    assert "is no size" in client.get(address, {"least": "much"}).text
    assert escape(b"\xff") in client.get(address, {"name": "\\xff"}).text
    assert "Nothing was found" in client.get(address, {"name": "nowhere"}).text


def test_the_search_goes_through_every_resource_by_host_and_tier(
    host: Host, alice: Person, signed_in: SignedIn
) -> None:
    first, second = scan_of(host, {b"a.so": 1}, "one"), scan_of(host, {b"b.so": 2}, "two")
    tier = Tier.objects.create(position=1, name="first")
    Resource.objects.filter(pk=second.resource_id).update(tier=tier)
    assert [match.scan for match in search_everywhere(Search(name="*.so")).matches] == [second, first]
    client, page = signed_in(alice), reverse("inventory:search")
    text = client.get(page, {"name": ".so"}).text
    assert "a.so" in text and "b.so" in text and ">one</a>" in text
    assert "a.so" not in client.get(page, {"name": ".so", "tier": str(tier.pk)}).text
    assert client.get(page, {"name": ".so", "host": "elsewhere"}).status_code == 422
    assert "<table" not in client.get(page).text
    board = client.get(reverse("inventory:index")).text
    assert page in board


def test_the_boards_picture_is_coloured_by_tier(host: Host, alice: Person, signed_in: SignedIn) -> None:
    tier = Tier.objects.create(position=2, name="second")
    for name, size in (("large", 900), ("small", 100)):
        Resource.objects.create(host=host, name=name, size_bytes=size, size_basis="about", tier=tier)
    page = signed_in(alice).get(reverse("inventory:index")).text
    assert page.count('<g class="t2">') == 2
