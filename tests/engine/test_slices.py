"""Stretches of lists: whatever is cut joins to the same list again, and each part's tree is whole."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from transfers.engine.slices import Stretch, cut, cuts_by_bytes, cuts_by_folders, join, members_in, order_key
from transfers.engine.types import Member

_PARTS = st.sampled_from([b"a", b"a!", b"b", b"b-", b"c\xff", b"d e"])


@st.composite
def trees(draw: st.DrawFn) -> list[Member]:
    """A sorted list of files with every folder above them."""
    files = draw(st.sets(st.lists(_PARTS, min_size=1, max_size=4).map(tuple), max_size=25))
    folders = {path[:depth] for path in files for depth in range(1, len(path))}
    members = [Member(b"/".join(path), "folder", 0, 0, 0o755) for path in folders]
    members += [
        Member(b"/".join(path), "file", draw(st.integers(0, 100)), 0, 0o644) for path in sorted(files - folders)
    ]
    return sorted(members, key=lambda one: one.name.split(b"/"))


@given(trees(), st.integers(1, 200))
def test_parts_of_at_most_so_many_bytes_hold_every_entry_and_join_to_the_same_list(
    members: list[Member], most: int
) -> None:
    parts = cut(Stretch(), cuts_by_bytes(members, most))
    lists = [members_in(members, part) for part in parts]
    together = {member.name: member for part in lists for member in part}
    assert sorted(together.values(), key=lambda one: order_key(one.name)) == members
    for one in lists:
        files = [member.size_bytes for member in one if member.kind == "file"]
        assert sum(files) <= most or len([size for size in files if size]) == 1
    files_of = [{member.name for member in one if member.kind == "file"} for one in lists]
    assert sum(len(names) for names in files_of) == len(set().union(*files_of))  # no file twice
    joined = join(parts)
    assert joined == Stretch()
    assert members_in(members, joined) == members


@given(trees(), st.integers(1, 200), st.integers(1, 50))
def test_a_part_is_cut_again_and_its_parts_join_to_it(members: list[Member], most: int, less: int) -> None:
    for part in cut(Stretch(), cuts_by_bytes(members, most)):
        inner = [name for name in cuts_by_bytes(members_in(members, part), less) if part.holds(name)]
        assert join(cut(part, inner)) == part


@given(trees(), st.integers(1, 100))
def test_each_part_holds_the_folders_above_its_files(members: list[Member], most: int) -> None:
    for part in cut(Stretch(), cuts_by_bytes(members, most)):
        found = members_in(members, part)
        names = {member.name for member in found}
        assert all(b"/" not in name or name.rpartition(b"/")[0] in names for name in names)
        assert all(one.name.split(b"/") < other.name.split(b"/") for one, other in pairwise(found))


def test_each_top_folder_begins_a_part_and_loose_files_go_with_the_folder_before_them() -> None:
    names = [b"srv", b"srv/0.txt", b"srv/a", b"srv/a/1", b"srv/b.txt", b"srv/c", b"srv/c/deep", b"srv/c/deep/2"]
    folders = {b"srv", b"srv/a", b"srv/c", b"srv/c/deep"}
    members = [Member(name, "folder" if name in folders else "file", 1, 0, 0o755) for name in names]
    cuts = cuts_by_folders(members, [b"/srv"], Stretch())
    assert cuts == [b"srv/c"]
    first, second = (members_in(members, part) for part in cut(Stretch(), cuts))
    assert [one.name for one in first] == names[:5]
    assert [one.name for one in second] == [b"srv", *names[5:]]


def test_stretches_with_a_gap_are_not_joined() -> None:
    assert join([Stretch(b"", b"b"), Stretch(b"c", b"")]) is None
    assert join([Stretch(b"b", b""), Stretch(b"", b"b")]) == Stretch()
