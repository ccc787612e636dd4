"""Where the same bytes lie twice: counted right against a plain reckoning, and shown with what to do."""

from __future__ import annotations

import time

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from calculet.actors import Actor
from calculet.leases.services import lease_acquire
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory import overlapping
from inventory.models import Entry, Host, OverlapMeasure, Resource, Scan, Tier
from inventory.overlap.containment import OneFile, measure
from inventory.remote.names import RemoteName
from inventory.services import overlaps
from tests.inventory.browser import SignedIn, act_of

contents = st.binary(max_size=2)
files = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), contents, st.booleans()), max_size=12)


def one(base: bytes, content: bytes, has_digest: bool = True) -> OneFile:
    return OneFile(base, len(content), (b"%d:" % len(content) + content).ljust(32, b"-") if has_digest else None)


@given(first=files, second=files)
def test_shared_bytes_are_those_of_a_plain_reckoning(
    first: list[tuple[bytes, bytes, bool]], second: list[tuple[bytes, bytes, bool]]
) -> None:
    sets = {1: [one(*each) for each in first], 2: [one(*each) for each in second]}
    found = measure(sets.items())
    for part, other in ((1, 2), (2, 1)):
        there = {each.sha256 for each in sets[other] if each.sha256 and each.size_bytes}
        here = [each for each in sets[part] if each.sha256 in there]
        shared = found.pairs.get((part, other))
        expected = (len(here), sum(each.size_bytes for each in here))
        assert (shared.files, shared.size_bytes) == expected if shared else expected == (0, 0)
        doubtful = [
            each
            for each in sets[part]
            if each.size_bytes
            and any(
                (each.base, each.size_bytes) == (than.base, than.size_bytes)
                and (each.sha256 is None or than.sha256 is None)
                for than in sets[other]
            )
        ]
        assert (shared.maybe_files if shared else 0) == len(doubtful)


def test_names_of_one_inode_are_no_copies_within_a_set() -> None:
    twice = [OneFile(b"a", 5, b"x" * 32, (1, 7)), OneFile(b"b", 5, b"x" * 32, (1, 7))]
    assert (1, 1) not in measure([(1, twice)]).pairs
    copies = measure([(1, [*twice, OneFile(b"c", 5, b"x" * 32, (1, 8))])]).pairs[(1, 1)]
    assert (copies.files, copies.size_bytes) == (1, 5)
    unknown = [OneFile(b"a", 5, b"x" * 32), OneFile(b"b", 5, b"x" * 32)]
    assert measure([(1, unknown)]).pairs[(1, 1)].files == 1, "nobody knows that they are one inode"


def test_more_than_memory_holds_is_counted_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inventory.overlap.buckets._PIECE_BYTES", 200)  # a few records, then the file
    sets = [(part, [one(b"%d" % n, b"%d" % (n + 50 * part), n % 3 > 0) for n in range(100)]) for part in (1, 2)]
    found = measure(sets)
    monkeypatch.undo()
    assert found == measure(sets) and found.pairs[(1, 2)].files > 0 and found.pairs[(1, 2)].maybe_files > 0


def test_empty_files_count_nowhere() -> None:
    empty = [OneFile(b"a", 0, b"x" * 32)]
    found = measure([(1, empty), (2, empty)])
    assert found.pairs == {} and found.sums[1].files == 0


def test_a_hundred_thousand_files_take_seconds() -> None:
    begun = time.monotonic()
    sets = [(part, [OneFile(b"%d" % n, 10, b"%032d" % (n + part * 25_000)) for n in range(50_000)]) for part in (0, 1)]
    assert measure(sets).pairs[(0, 1)].files == 25_000
    assert time.monotonic() - begun < 20


# -- on rows -----------------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.django_db


def listed(host: Host, name: str, path: str, content: dict[bytes, bytes], *, digests: bool = True) -> Resource:
    resource = Resource.objects.create(host=host, name=name, path=RemoteName.from_text(path))
    scan = Scan.objects.create(
        host=host, resource=resource, root=resource.path, state="finished", finished_at="2026-01-01T00:00Z"
    )
    Entry.objects.create(scan=scan, position=0, name=RemoteName(b""), kind="folder")
    for position, (file_name, body) in enumerate(sorted(content.items()), start=1):
        Entry.objects.create(
            scan=scan,
            position=position,
            name=RemoteName(file_name),
            kind="file",
            size_bytes=len(body),
            inode=abs(hash((name, file_name))) % 10**9 + 1,
            sha256=body.ljust(32, b"-") if digests else None,
        )
    return resource


def measured(person: Person) -> OverlapMeasure:
    row = overlaps.overlaps_request(actor=Actor.of(person))
    overlaps.overlaps_run(row.pk)
    row.refresh_from_db()
    assert row.finished_at is not None, row.problem
    return row


def test_containment_is_told_both_ways_with_which_one_to_keep(host: Host, alice: Person) -> None:
    image = listed(host, "image", "/images/one", {b"a": b"1" * 10, b"b": b"2" * 10, b"c": b"3" * 10})
    local = listed(host, "local", "/home/local", {b"x/a": b"1" * 10, b"x/b": b"2" * 10})
    listed(host, "other", "/other", {b"z": b"9" * 10})
    measured(alice)
    shown = overlapping.overlaps_shown()
    assert shown is not None and len(shown.pairs) == 1 and not shown.is_stale
    pair = shown.pairs[0]
    sides = {side.resource.name: side for side in pair.sides}
    assert (sides["local"].percent, sides["image"].percent) == (100, 66)
    assert pair.keep is not None and pair.keep.resource == image and pair.rest is not None
    assert pair.rest.resource == local and pair.rest.left_bytes == 0
    assert [row.cells for row in shown.matrix] == [[None, 66], [100, None]]


def test_equal_resources_are_decided_by_their_tier(host: Host, alice: Person) -> None:
    listed(host, "later", "/a", {b"a": b"1"})
    first = listed(host, "first", "/b", {b"b": b"1"})
    Resource.objects.filter(pk=first.pk).update(tier=Tier.objects.create(position=1, name="first"))
    measured(alice)
    shown = overlapping.overlaps_shown()
    assert shown is not None and shown.pairs[0].keep is not None
    assert shown.pairs[0].keep.resource == first
    assert shown.pairs[0].reason == "Each holds 100 % of the other, and first is of the better tier."


def test_a_resource_inside_another_is_no_copy(host: Host, alice: Person) -> None:
    listed(host, "whole", "/srv", {b"in/a": b"1"})
    listed(host, "part", "/srv/in", {b"a": b"1"})
    measured(alice)
    shown = overlapping.overlaps_shown()
    assert shown is not None and shown.pairs[0].is_nested and shown.pairs[0].keep is None


def test_without_digests_it_is_only_maybe(host: Host, alice: Person) -> None:
    listed(host, "one", "/a", {b"x": b"123"}, digests=False)
    listed(host, "two", "/b", {b"y/x": b"456"})
    measured(alice)
    shown = overlapping.overlaps_shown()
    assert shown is not None
    pair = shown.pairs[0]
    assert (pair.shared_bytes, pair.one.maybe_bytes, pair.other.maybe_bytes, pair.keep) == (0, 3, 3, None)


def test_a_new_listing_makes_the_measuring_stale_and_only_two_are_kept(host: Host, alice: Person) -> None:
    resource = listed(host, "one", "/a", {b"x": b"123"})
    for _again in range(3):
        measured(alice)
    assert OverlapMeasure.objects.count() == 2
    Scan.objects.create(
        host=host, resource=resource, root=resource.path, state="finished", finished_at="2027-01-01T00:00Z"
    )
    shown = overlapping.overlaps_shown()
    assert shown is not None and shown.is_stale


def test_asking_needs_the_role_and_happens_once(host: Host, alice: Person, carol: Person) -> None:
    with pytest.raises(NotAllowed):
        overlaps.overlaps_request(actor=Actor.of(carol))
    row = overlaps.overlaps_request(actor=Actor.of(alice))
    assert overlaps.overlaps_request(actor=Actor.of(alice)) == row
    assert overlaps.overlaps_sweep() == [row.pk]
    assert lease_acquire(name=overlaps.overlaps_lease(row.pk)) is not None
    overlaps.overlaps_run(row.pk)
    row.refresh_from_db()
    assert row.finished_at is None and overlaps.overlaps_sweep() == []


def test_the_page_shows_pairs_matrix_and_what_to_do(host: Host, alice: Person, signed_in: SignedIn) -> None:
    client, page = signed_in(alice), reverse("inventory:overlaps")
    assert "Not measured yet" in client.get(page).text
    listed(host, "image", "/images/<one>", {b"a": b"1" * 10, b"b": b"2" * 10})
    listed(host, "local", "/home/local", {b"a": b"1" * 10, b"k": b"1" * 10})
    shown = act_of(client, page, reverse("inventory:overlap-measure"))
    assert "are being measured" in shown.text and "hx-trigger" in shown.text
    overlaps.overlaps_run(OverlapMeasure.objects.get().pk)
    text = client.get(page).text
    assert "image is the more complete: it holds 100 % of local, which holds 50 % of it." in text
    assert '<svg class="matrix"' in text and "100 % of local lies in image" in text
    assert "Fetch image; of local there remain" in text and "100 %" in text and "50 %" in text
    assert "hx-trigger" not in text


def test_what_is_declared_stands_beside_what_is_measured(
    host: Host, alice: Person, bob: Person, signed_in: SignedIn
) -> None:
    image = listed(host, "image", "/images/one", {b"a": b"1" * 10, b"b": b"2" * 10})
    local = listed(host, "local", "/home/local", {b"a": b"1" * 10, b"k": b"5" * 10})
    client, page = signed_in(alice), reverse("inventory:overlaps")
    given = {"resource": local.pk, "other": image.pk, "percent": 95, "note": "nearly <all>"}
    shown = act_of(client, page, reverse("inventory:overlap-declare"), **given)
    assert "95 %" in shown.text and "not yet" in shown.text and "nearly &lt;all&gt;" in shown.text
    measured(alice)
    row = overlapping.declared_overlaps()[0]
    assert row.measured is not None and (row.measured.percent, row.differs) == (50, True)
    act_of(client, page, reverse("inventory:overlap-declare"), **{**given, "percent": 52})
    assert [one.differs for one in overlapping.declared_overlaps()] == [False]
    same = act_of(client, page, reverse("inventory:overlap-declare"), **{**given, "other": local.pk})
    assert "cannot overlap with itself" in same.text
    with pytest.raises(NotAllowed):
        overlaps.overlap_declare(resource=local, other=image, percent=1, actor=Actor.of(bob))
    act_of(client, page, reverse("inventory:overlap-withdraw", args=[row.row.pk]))
    assert overlapping.declared_overlaps() == []
