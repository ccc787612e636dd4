"""Each entry of a listing is planned, verified or unexplained: told from lists and builds, anew when they change."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from calculet.people.models import Person
from inventory.models import Entry, EntryStates, Resource, Scan, StateSum, Tier
from inventory.remote.names import RemoteName
from inventory.selectors import latest_scan
from inventory.states import states_of
from tests.inventory.browser import SignedIn
from tests.transfers.factories import PlannedHost, make_resource
from transfers.engine.members import encode_members
from transfers.engine.types import Member
from transfers.entry_states import Carried, Listed, states
from transfers.models import Build, BuildState, EntryList, Item, Mode, RevisionState
from transfers.services import entry_states
from transfers.services.ticks import due_now

FILE = Listed(b"a", "file", 5, 7, None, b"")
CARRIED = Carried(b"a", "file", 5, 7, None, b"", is_verified=True)
SHA, OTHER = b"x" * 32, b"y" * 32


def state_of(entry: Listed, *members: Carried) -> str:
    return "".join(states([entry], members))


def test_an_entry_is_verified_only_with_the_same_content() -> None:
    assert state_of(FILE, CARRIED) == "v"
    assert state_of(FILE, CARRIED._replace(size_bytes=6)) == "u"
    assert state_of(FILE, CARRIED._replace(mtime_ns=8)) == "u"
    assert state_of(FILE._replace(sha256=SHA), CARRIED._replace(sha256=SHA, mtime_ns=8)) == "v", "digests decide"
    assert state_of(FILE._replace(sha256=SHA), CARRIED._replace(sha256=OTHER)) == "u", "the same size and time"
    assert state_of(FILE, CARRIED._replace(kind="folder")) == "u"
    link = FILE._replace(kind="link", link_target=b"to")
    assert state_of(link, CARRIED._replace(kind="link", link_target=b"to")) == "v"
    assert state_of(link, CARRIED._replace(kind="link", link_target=b"elsewhere")) == "u"
    assert state_of(FILE._replace(kind="folder"), CARRIED._replace(kind="folder", mtime_ns=1)) == "v"


def test_verified_counts_before_planned_and_planned_needs_no_equal_content() -> None:
    planned = CARRIED._replace(is_verified=False, size_bytes=9)
    assert state_of(FILE, planned) == "p" and state_of(FILE, planned, CARRIED) == "v"
    assert state_of(FILE, CARRIED, planned) == "v" and state_of(FILE, planned._replace(key=b"b")) == "u"


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=2), st.integers(0, 1)), max_size=12, unique_by=lambda one: one[0]
    ),
    st.lists(st.tuples(st.binary(min_size=1, max_size=2), st.integers(0, 1), st.booleans()), max_size=12),
)
def test_every_entry_gets_the_state_of_a_plain_reckoning(
    listed: list[tuple[bytes, int]], carried: list[tuple[bytes, int, bool]]
) -> None:
    entries = [FILE._replace(key=key, size_bytes=size) for key, size in sorted(listed)]
    members = [CARRIED._replace(key=key, size_bytes=size, is_verified=done) for key, size, done in sorted(carried)]
    expected = []
    for entry in entries:
        here = [one for one in members if one.key == entry.key]
        is_verified = any(one.is_verified and one.size_bytes == entry.size_bytes for one in here)
        expected.append("v" if is_verified else "p" if any(not one.is_verified for one in here) else "u")
    assert list(states(entries, members)) == expected


# -- on rows -----------------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.django_db
FILES = {b"a.bin": 10, b"b.bin": 20, b"c.bin": 30, b"sub/d.bin": 40}


@pytest.fixture
def planned(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path)


@pytest.fixture
def resource(planned: PlannedHost) -> Resource:
    made = make_resource(planned.host, "tree", b"/data/tree", FILES)
    Entry.objects.create(scan=scan_of(made), position=6, name=RemoteName(b"z"), kind="link", link_target=b"a.bin")
    return made


def scan_of(resource: Resource) -> Scan:
    scan = latest_scan(resource)
    assert scan is not None
    return scan


def list_of(resource: Resource, *names: bytes, **changes: object) -> EntryList:
    """A list of some of the listing's files, as they were found."""
    rows = {row.name.raw: row for row in scan_of(resource).entries.all()}
    members = [
        Member(b"data/tree/" + name, "file", rows[name].size_bytes, rows[name].mtime_ns, rows[name].mode)
        for name in names
    ]
    content = b"".join(encode_members([replace(one, **changes) for one in members]))  # type: ignore[arg-type]
    return EntryList.objects.create(
        digest=hashlib.sha256(content).hexdigest(),
        entry_count=len(members),
        file_count=len(members),
        total_bytes=0,
        content=zstandard.ZstdCompressor().compress(content),
    )


def pack_of(planned: PlannedHost, resource: Resource, name: str, entries: EntryList, state: BuildState | None) -> Item:
    pack = planned.add(name, state)
    item = Item.objects.get(pack=pack)
    item.entry_list = entries
    item.save()
    item.resources.add(resource)
    Build.objects.filter(pack=pack).update(entry_list=entries)
    return item


def reckoned(resource: Resource) -> dict[bytes, str]:
    scan = scan_of(resource)
    for pk in due_now().states:
        entry_states.entry_states_run(pk)
    letters = states_of(scan)
    assert letters is not None
    names = list(scan.entries.order_by("position").values_list("name", flat=True))
    return {name.raw: chr(letter) for name, letter in zip(names, letters, strict=True)}


def test_states_follow_plans_and_builds(planned: PlannedHost, resource: Resource) -> None:
    assert set(reckoned(resource).values()) == {"u"}
    assert due_now().states == (), "nothing changed since"
    pack_of(planned, resource, "one", list_of(resource, b"a.bin"), BuildState.VERIFIED)
    item = pack_of(planned, resource, "two", list_of(resource, b"a.bin", b"b.bin"), BuildState.FETCHING)
    assert reckoned(resource) == {b"": "u", b"a.bin": "v", b"b.bin": "p", b"c.bin": "u", b"sub/d.bin": "u", b"z": "u"}
    Build.objects.filter(pack=item.pack).update(state=BuildState.OPENED)
    assert reckoned(resource)[b"b.bin"] == "v"
    planned.revision.state = RevisionState.WITHDRAWN
    planned.revision.save()
    Build.objects.filter(pack=item.pack).update(state=BuildState.REPLACED)
    assert reckoned(resource)[b"b.bin"] == "u" and reckoned(resource)[b"a.bin"] == "v"


def test_what_changed_since_it_was_packed_is_not_verified(planned: PlannedHost, resource: Resource) -> None:
    pack_of(planned, resource, "one", list_of(resource, b"a.bin", b"b.bin", mtime_ns=1), BuildState.VERIFIED)
    planned.revision.state = RevisionState.SUPERSEDED
    planned.revision.save()
    assert reckoned(resource)[b"a.bin"] == "u"


def test_parts_are_told_in_their_own_order(planned: PlannedHost, resource: Resource) -> None:
    item = pack_of(planned, resource, "one", list_of(resource, b"c.bin", b"a.bin"), None)
    item.mode = Mode.PARTS
    item.save()
    found = reckoned(resource)
    assert found[b"a.bin"] == found[b"c.bin"] == "p"


def test_a_list_that_cannot_be_gone_along_counts_as_carrying_nothing(
    planned: PlannedHost, resource: Resource, caplog: pytest.LogCaptureFixture
) -> None:
    pack_of(planned, resource, "one", list_of(resource, b"c.bin", b"a.bin"), BuildState.VERIFIED)
    for pk in due_now().states:
        entry_states.entry_states_run(pk)
    assert states_of(scan_of(resource)) is None and "not in the order of names" in caplog.text
    assert due_now().states == (), "it is not tried again and again"


def test_sums_count_each_entry_once_for_the_innermost_resource(planned: PlannedHost, resource: Resource) -> None:
    inner = Resource.objects.create(host=planned.host, name="inner", path=RemoteName(b"/data/tree/sub"))
    pack_of(planned, resource, "one", list_of(resource, b"a.bin", b"sub/d.bin"), None)
    reckoned(resource)
    rows = StateSum.objects.values_list("resource", "state", "entries", "files", "size_bytes")
    assert set(rows) == {
        (resource.pk, "p", 1, 1, 10),
        (resource.pk, "u", 4, 2, 50),
        (inner.pk, "p", 1, 1, 40),
    }


def test_a_draft_of_another_place_makes_nothing_anew(planned: PlannedHost, resource: Resource) -> None:
    elsewhere = make_resource(planned.host, "elsewhere", b"/data/trees", {b"x": 1})
    reckoned(resource)
    pack_of(planned, elsewhere, "one", list_of(resource, b"a.bin"), None)
    assert due_now().states == (scan_of(elsewhere).pk,)
    assert EntryStates.objects.count() == 2


def test_pages_filter_by_state_and_tier(
    planned: PlannedHost, resource: Resource, alice: Person, signed_in: SignedIn
) -> None:
    inner_tier = Tier.objects.create(position=2, name="second")
    inner = Resource.objects.create(
        host=planned.host, name="inner", path=RemoteName(b"/data/tree/sub"), tier=inner_tier
    )
    pack_of(planned, resource, "one", list_of(resource, b"a.bin"), BuildState.VERIFIED)
    pack_of(planned, resource, "two", list_of(resource, b"b.bin"), None)
    reckoned(resource)
    client, address = signed_in(alice), reverse("inventory:entries", args=[scan_of(resource).pk])

    def found(**asked: str) -> list[str]:
        page = client.get(address, asked).text
        return [name for name in ("a.bin", "b.bin", "c.bin", "d.bin") if f"{name}</span>" in page]

    assert found(state="verified") == ["a.bin"] and found(state="planned") == ["b.bin"]
    assert found(state="unexplained", kind="file") == ["c.bin", "d.bin"] and found(state="unexplained", name="c*") == [
        "c.bin"
    ]
    assert found(tier=str(inner_tier.pk)) == ["d.bin"]
    assert found(tier=str(resource.tier_id), kind="file") == ["a.bin", "b.bin", "c.bin"]
    everywhere = client.get(reverse("inventory:search"), {"tier": str(inner_tier.pk), "name": ".bin"}).text
    assert everywhere.count("d.bin</span>") == 1 and "a.bin</span>" not in everywhere
    assert inner.tier == inner_tier
