"""Bytes that are here already: found by digest wherever other tools left them, copied or taken, never fetched again."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.remote.base import CommandFailed
from inventory.remote.names import RemoteName
from tests.engine.books import MIB, Books, fetch, noise, one_file, with_digests
from tests.fakes import MemoryRemote
from transfers.engine.adopt import (
    AdoptionRefused,
    BlockSet,
    Compared,
    Offer,
    Stretch,
    block_asker,
    compare,
    offer_of_build,
)
from transfers.engine.adopt_look import look_at
from transfers.engine.adopt_put import put, why_not_taken
from transfers.engine.cellmap import CellMap, LedgerBusy
from transfers.engine.geometry import Geometry, build_of_files, build_of_parts, ledger_path
from transfers.engine.landing import publish
from transfers.engine.types import BuildSpec


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[MemoryRemote]:
    (tmp_path / "home").mkdir()
    memory = MemoryRemote(tmp_path / "home")
    yield memory
    memory.close()


def _compare(remote: MemoryRemote, spec: BuildSpec, offer: Offer) -> Compared:
    *_rest, last = compare(spec, offer, block_asker(remote, spec))
    return last


def _adopt(remote: MemoryRemote, spec: BuildSpec, path: Path, *, take: bool = False) -> int:
    """Look, compare, put; then fetch the rest. Returns the bytes that were fetched."""
    offer = look_at(path, spec)
    matched = _compare(remote, spec, offer).matched
    assert put(spec, offer, matched, take=take).new_bytes == matched.total_bytes
    books = Books([spec])
    summary = fetch(remote, books)
    assert summary.received, summary.failed
    assert summary.new_bytes + matched.total_bytes == spec.size_bytes
    return summary.new_bytes


def _ident(path: Path) -> tuple[str, int, int]:
    return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns, path.stat().st_size


@pytest.mark.parametrize("name", ["pack.incoming", "pack.a1b2c3.partial", "pack"])
def test_a_prefix_is_taken_over_up_to_its_last_whole_block(remote: MemoryRemote, tmp_path: Path, name: str) -> None:
    content = noise(12 * MIB + 5)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / name
    left.write_bytes(content[: 6 * MIB + 700_000])
    before = _ident(left)
    assert _adopt(remote, spec, left) == 6 * MIB + 5
    assert _ident(left) == before
    assert publish(spec).read_bytes() == content


def test_holes_and_wrong_bytes_in_a_leftover_are_fetched_and_nothing_else(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(16 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "image.qcow2"  # as aria2, lftp and mscp leave it: of full length, written here and there
    with left.open("wb") as file:
        file.truncate(len(content))
        for start, stop in ((0, 3), (5, 6), (8, 12), (13, 14)):
            file.seek(start * MIB)
            file.write(content[start * MIB : stop * MIB])
        file.seek(9 * MIB + 77)
        file.write(b"damage")
        file.seek(15 * MIB)
        file.write(bytes(MIB))
    (tmp_path / "image.qcow2.aria2").write_bytes(b"control")
    assert _adopt(remote, spec, left) == (16 - 3 - 1 - 4 - 1 + 1) * MIB
    assert publish(spec).read_bytes() == content
    with pytest.raises(AdoptionRefused, match="control file"):
        look_at(tmp_path / "image.qcow2.aria2", spec)


@pytest.mark.parametrize(("count", "options"), [(101, ("-d", "-a", "4")), (101, ()), (1001, ("-d",))])
def test_a_set_of_parts_of_another_size_is_placed_by_number(
    remote: MemoryRemote, tmp_path: Path, count: int, options: tuple[str, ...]
) -> None:
    part = 70_000
    content = noise(part * (count - 1) + 123)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content, chunk_bytes=8 * MIB)
    parts = tmp_path / "parts"
    parts.mkdir()
    subprocess.run(["split", "-b", str(part), *options, tmp_path / "source", f"{parts}/p."], check=True)
    (parts / "SHA256SUMS").write_text("sums")
    assert len(list(parts.iterdir())) == count + 1
    offer = look_at(parts, spec)
    assert offer.offered_bytes == len(content) and offer.remarks == ()
    assert _adopt(remote, spec, parts) == 0
    assert publish(spec).read_bytes() == content


def test_a_set_with_a_gap_keeps_its_places_and_says_what_is_missing_and_what_is_stray(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    content = noise(101 * 100_000)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    parts = tmp_path / "parts"
    parts.mkdir()
    subprocess.run(["split", "-b", "100000", "-d", "-a", "3", tmp_path / "source", f"{parts}/p."], check=True)
    (parts / "p.050").unlink()
    (parts / "notes").write_text("x")
    offer = look_at(parts, spec)
    assert "1 parts are missing" in offer.remarks[0] and "notes" in offer.remarks[1]
    assert _adopt(remote, spec, parts) == MIB  # the block that the part lay in
    assert publish(spec).read_bytes() == content


def test_parts_at_the_source_take_over_parts_here_by_their_names(remote: MemoryRemote, tmp_path: Path) -> None:
    contents = [noise(2 * MIB + number, number) for number in range(4)]
    there, here = tmp_path / "there", tmp_path / "here"
    for folder, which in ((there, range(4)), (here, (1, 3))):
        folder.mkdir()
        for number in which:
            (folder / f"p.{number}").write_bytes(contents[number])
    (here / "p.3").write_bytes(noise(2 * MIB, 9))  # of that name, and other bytes
    parts = [(RemoteName(os.fsencode(there / f"p.{number}")), len(contents[number])) for number in range(4)]
    spec = build_of_parts(key="build", parts=parts, folder=tmp_path / "landing", name=b"whole")
    spec = with_digests(spec, b"".join(contents))
    assert _adopt(remote, spec, here) == spec.size_bytes - len(contents[1])
    assert publish(spec).read_bytes() == b"".join(contents)


def test_files_are_taken_over_by_their_names_below_any_folder(remote: MemoryRemote, tmp_path: Path) -> None:
    contents = {b"data/a/one": noise(MIB), b"data/a/\xfftwo": noise(2 * MIB + 9, 2), b"data/b": noise(100, 3)}
    files = []
    for name, content in contents.items():
        source = Path(os.fsdecode(os.fsencode(tmp_path / "source") + b"/" + name))
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(content)
        files.append((RemoteName(os.fsencode(source)), name, len(content)))
    spec = build_of_files(key="build", files=files, folder=tmp_path / "landing", chunk_bytes=2 * MIB)
    spec = with_digests(spec, b"".join(contents.values()))
    copy = tmp_path / "copy"
    (copy / "a").mkdir(parents=True)
    (copy / "a" / "one").write_bytes(contents[b"data/a/one"])
    Path(os.fsdecode(os.fsencode(copy / "a") + b"/\xfftwo")).write_bytes(contents[b"data/a/\xfftwo"])
    assert _adopt(remote, spec, copy) == spec.size_bytes - 3 * MIB
    top = publish(spec)
    for name, content in contents.items():
        assert Path(os.fsdecode(os.fsencode(top) + b"/" + name)).read_bytes() == content


def test_what_came_already_is_kept_and_counted_apart(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "left"
    left.write_bytes(content[: 4 * MIB])
    offer = look_at(left, spec)
    matched = _compare(remote, spec, offer).matched
    assert put(spec, offer, matched).new_bytes == 4 * MIB
    again = put(spec, offer, matched)
    assert (again.new_bytes, again.had_bytes) == (0, 4 * MIB)


def test_data_that_no_map_tells_of_are_compared_too(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    spec.folder.mkdir()
    (spec.folder / spec.incoming_name).write_bytes(bytes(4 * MIB) + content[4 * MIB :])
    left = tmp_path / "left"
    left.write_bytes(content[: 4 * MIB])
    offer = look_at(left, spec)
    put(spec, offer, _compare(remote, spec, offer).matched)
    summary = fetch(remote, Books([spec]))
    assert summary.received and summary.new_bytes == 0
    assert publish(spec).read_bytes() == content


def test_a_taken_file_becomes_the_incoming_one_and_only_what_differs_is_fetched(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "left"
    left.write_bytes(content[: 5 * MIB] + b"wrong" + noise(9 * MIB, 2))
    inode = left.stat().st_ino
    offer = look_at(left, spec)
    assert "longer than the build" in offer.remarks[0]
    assert why_not_taken(offer, spec) == ""
    assert _adopt(remote, spec, left, take=True) == 3 * MIB
    assert not left.exists()
    assert publish(spec).stat().st_ino == inode and (spec.folder / "pack").read_bytes() == content


def test_a_kill_after_the_taking_is_made_good(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(4 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "left"
    left.write_bytes(content)
    offer = look_at(left, spec)
    matched = _compare(remote, spec, offer).matched
    spec.folder.mkdir()
    CellMap(ledger_path(spec), spec.key, Geometry(spec.chunks)).close()
    left.rename(spec.folder / spec.incoming_name)
    assert put(spec, offer, matched, take=True).new_bytes == len(content)
    assert fetch(remote, Books([spec])).new_bytes == 0


def test_a_file_with_a_second_name_or_bytes_that_came_forbid_the_taking(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(4 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "left"
    left.write_bytes(content)
    (tmp_path / "second").hardlink_to(left)
    offer = look_at(left, spec)
    matched = _compare(remote, spec, offer).matched
    with pytest.raises(AdoptionRefused, match="another name"):
        put(spec, offer, matched, take=True)
    (tmp_path / "second").unlink()
    one_block = BlockSet(Geometry(spec.chunks))
    one_block.add(0, 2)
    put(spec, offer, one_block)
    with pytest.raises(AdoptionRefused, match="copied instead"):
        put(spec, offer, matched, take=True)
    assert left.read_bytes() == content


def test_a_file_that_changes_after_the_comparison_costs_a_repair_and_spoils_nothing(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "left"
    left.write_bytes(content)
    offer = look_at(left, spec)
    matched = _compare(remote, spec, offer).matched
    left.write_bytes(content[: 3 * MIB] + noise(MIB, 5) + content[4 * MIB : 6 * MIB])  # and it is shorter
    assert put(spec, offer, matched).new_bytes == 6 * MIB
    summary = fetch(remote, Books([spec]))
    assert summary.received and summary.new_bytes == 3 * MIB
    assert publish(spec).read_bytes() == content


def test_a_changed_archive_takes_what_its_former_build_brought(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(9 * MIB)
    former = one_file(tmp_path / "1", tmp_path / "source-1", content, key="one")
    assert fetch(remote, Books([former])).received
    publish(former)
    changed = content[: 4 * MIB] + noise(MIB, 3) + content[5 * MIB :] + noise(2 * MIB, 4)
    spec = one_file(tmp_path / "2", tmp_path / "source-2", changed, key="two")
    offer = offer_of_build(former, spec, is_landed=True)
    matched = _compare(remote, spec, offer).matched
    assert put(spec, offer, matched).new_bytes == 8 * MIB
    assert fetch(remote, Books([spec])).new_bytes == 3 * MIB
    assert publish(spec).read_bytes() == changed and (tmp_path / "1" / "pack").read_bytes() == content


def test_files_that_shifted_within_the_list_are_found_in_the_former_build(remote: MemoryRemote, tmp_path: Path) -> None:
    contents = {b"a": noise(MIB + 1), b"b": noise(3 * MIB, 2), b"c": noise(2 * MIB, 3)}
    for name, content in contents.items():
        (tmp_path / os.fsdecode(name)).write_bytes(content)

    def build(key: str, names: bytes) -> BuildSpec:
        order = [bytes([sign]) for sign in names]
        files = [(RemoteName(os.fsencode(tmp_path / os.fsdecode(n))), n, len(contents[n])) for n in order]
        spec = build_of_files(key=key, files=files, folder=tmp_path / key, chunk_bytes=2 * MIB)
        return with_digests(spec, b"".join(contents[n] for n in order))

    former, spec = build("one", b"bc"), build("two", b"abc")
    assert fetch(remote, Books([former])).received
    publish(former)
    matched = _compare(remote, spec, offer_of_build(former, spec, is_landed=True)).matched
    put(spec, offer_of_build(former, spec, is_landed=True), matched)
    summary = fetch(remote, Books([spec]))
    assert summary.received and summary.new_bytes <= 2 * MIB  # the new file, and the rest of the block it ends in


def test_zeros_that_a_tool_preallocated_are_not_asked_about(tmp_path: Path) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "left"
    left.write_bytes(content[:MIB] + bytes(7 * MIB))
    asked: list[tuple[int, list[int]]] = []

    def ask(chunk: int, blocks: object) -> dict[int, bytes]:
        asked.append((chunk, list(blocks)))  # type: ignore[call-overload]
        return {}

    assert list(compare(spec, look_at(left, spec), ask))[-1].matched.total_bytes == 0
    assert asked == [(0, [0, 1, 2, 3])]


def test_a_comparison_goes_on_where_it_was_ended(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(12 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "left"
    left.write_bytes(content)
    offer = look_at(left, spec)
    first = next(compare(spec, offer, block_asker(remote, spec)))
    kept = Compared(first.next_chunk, first.read_bytes, BlockSet(Geometry(spec.chunks), first.matched.to_bytes()))
    *_rest, last = compare(spec, offer, block_asker(remote, spec), begin=kept)
    assert last.read_bytes == last.matched.total_bytes == len(content)


def test_a_source_that_cannot_be_read_in_full_ends_the_comparison(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(4 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "left"
    left.write_bytes(content[: 3 * MIB])
    (tmp_path / "source").write_bytes(content[:MIB])
    with pytest.raises(CommandFailed, match="could not be read in full"):
        _compare(remote, spec, look_at(left, spec))


def test_without_digests_of_chunks_the_blocks_decide(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(8 * MIB)
    known = one_file(tmp_path / "landing", tmp_path / "source", content)
    spec = replace(known, chunks=tuple(replace(chunk, sha256=None) for chunk in known.chunks))
    left = tmp_path / "left"
    left.write_bytes(content[: 7 * MIB] + bytes(MIB))
    assert _compare(remote, spec, look_at(left, spec)).matched.total_bytes == 7 * MIB


def test_a_build_that_a_link_has_open_is_left_alone(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(2 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    left = tmp_path / "left"
    left.write_bytes(content)
    offer = look_at(left, spec)
    matched = _compare(remote, spec, offer).matched
    spec.folder.mkdir()
    cells = CellMap(ledger_path(spec), spec.key, Geometry(spec.chunks))
    with pytest.raises(LedgerBusy):
        put(spec, offer, matched)
    cells.close()


@pytest.mark.parametrize("what", ["fifo", "nothing", "link", "empty folder"])
def test_what_holds_no_bytes_is_refused_in_a_sentence(tmp_path: Path, what: str) -> None:
    spec = one_file(tmp_path / "landing", tmp_path / "source", noise(MIB))
    path = tmp_path / what
    if what == "fifo":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to(tmp_path / "source")
    elif what == "empty folder":
        path.mkdir()
    with pytest.raises(AdoptionRefused, match="cannot be taken over"):
        look_at(path, spec)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3 * MIB)), max_size=6), st.integers(0, 2**16))
def test_whatever_lies_where_only_right_blocks_match(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int]], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("adopt")
    content = noise(6 * MIB + 17, 1)
    spec = one_file(folder / "landing", folder / "source", content, chunk_bytes=2 * MIB + 5)
    local = bytearray(noise(len(content), 2))
    for start, length in places:
        at = start * 600_000 % len(content)
        local[at : at + length] = content[at : at + length]
    left = folder / "left"
    left.write_bytes(local[: len(content)])
    geometry = Geometry(spec.chunks)
    source = folder / "source"

    def ask(chunk: int, blocks: object) -> dict[int, bytes]:
        data, every = source.read_bytes(), BlockSet(geometry)
        spans_ = {block: every.span(chunk, block) for block in blocks}  # type: ignore[attr-defined]
        return {block: hashlib.sha256(data[at : at + count]).digest() for block, (at, count) in spans_.items()}

    *_rest, last = compare(spec, Offer((Stretch(0, len(content), left, 0),)), ask)
    for chunk in range(geometry.chunk_count):
        for block in range(geometry.block_count(chunk)):
            at, count = last.matched.span(chunk, block)
            is_same = bytes(local[at : at + count]) == content[at : at + count]
            assert last.matched.has(chunk, block) == is_same
