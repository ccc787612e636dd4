"""What lies on the disk is believed for its digest alone: damaged ledgers, files that only look whole, kills, races."""

from __future__ import annotations

import fcntl
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.books import MIB, Books, RunningLink, fetch, noise, one_file, wait_until
from tests.fakes import MemoryRemote
from transfers.engine.active import ActiveBuild
from transfers.engine.cellmap import CellMap, LedgerBusy
from transfers.engine.geometry import Geometry, cut_chunks, ledger_path
from transfers.engine.landing import publish
from transfers.engine.queue import Range, RangeQueue
from transfers.engine.types import BuildSpec, Outcome

HEADER_BYTES = 76


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[MemoryRemote]:
    (tmp_path / "home").mkdir()
    memory = MemoryRemote(tmp_path / "home")
    yield memory
    memory.close()


def _incoming(spec: BuildSpec) -> Path:
    return spec.folder / spec.incoming_name


def _bitmap(spec: BuildSpec) -> slice:
    cells = Geometry(spec.chunks).cell_count
    return slice(HEADER_BYTES, HEADER_BYTES + -(-cells // 8))


def _truncated(spec: BuildSpec, content: bytearray) -> bytes:
    return bytes(content[: len(content) // 2])


def _zeroed(spec: BuildSpec, content: bytearray) -> bytes:
    return bytes(len(content))


def _garbage(spec: BuildSpec, content: bytearray) -> bytes:
    return noise(len(content), 7)


def _too_long(spec: BuildSpec, content: bytearray) -> bytes:
    return bytes(content) + b"\0" * 100


def _header_bit(spec: BuildSpec, content: bytearray) -> bytes:
    content[9] ^= 4
    return bytes(content)


def _no_proofs(spec: BuildSpec, content: bytearray) -> bytes:
    stop = _bitmap(spec).stop
    return bytes(content[:stop]) + bytes(len(content) - stop)


def _empty(spec: BuildSpec, content: bytearray) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [_truncated, _zeroed, _garbage, _too_long, _header_bit, _no_proofs, _empty])
def test_a_damaged_ledger_is_mended_from_the_digests_and_nothing_is_fetched_again(
    remote: MemoryRemote, tmp_path: Path, damage: Callable[[BuildSpec, bytearray], bytes]
) -> None:
    content = noise(9 * MIB + 5)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    assert fetch(remote, Books([spec])).received
    ledger = ledger_path(spec)
    ledger.write_bytes(damage(spec, bytearray(ledger.read_bytes())))
    books = Books([spec])
    summary = fetch(remote, books)
    assert summary.received and summary.new_bytes == 0
    assert sorted(books.outcomes(Outcome.MATCHED)) == [0, 1, 2]
    assert _incoming(spec).read_bytes() == content
    assert fetch(remote, Books([spec])).new_bytes == 0, "the mended ledger is a good one"


def test_bits_that_are_set_for_bytes_that_never_came_cost_their_blocks(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    spec.folder.mkdir()
    _incoming(spec).write_bytes(content[: 5 * MIB] + bytes(3 * MIB))
    cells = CellMap(ledger_path(spec), spec.key, Geometry(spec.chunks))
    cells.mark(0, cells.geometry.cell_count)
    cells.close()
    summary = fetch(remote, Books([spec]))
    assert summary.received and summary.new_bytes == 3 * MIB
    assert _incoming(spec).read_bytes() == content


def test_bits_that_are_lost_cost_what_they_stood_for_and_no_more(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    assert fetch(remote, Books([spec])).received
    cells = CellMap(ledger_path(spec), spec.key, Geometry(spec.chunks))
    lost = [3, 4, 200]
    size = sum(cells.geometry.cell_span(cell)[1] for cell in lost)
    cells.clear(lost)
    cells.close()
    assert fetch(remote, Books([spec])).new_bytes == size


def test_a_kill_while_data_of_unknown_worth_are_compared_loses_none_of_them(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    content = noise(12 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    assert fetch(remote, Books([spec])).received
    ledger_path(spec).write_bytes(b"damaged")
    killed = ActiveBuild(spec)
    assert killed.needs_adoption
    killed.cells.mark(0, 4)  # it had begun
    killed.close()
    assert _must_compare(spec), "the next one compares all of it as well"
    assert fetch(remote, Books([spec])).new_bytes == 0
    assert not _must_compare(spec)


def _must_compare(spec: BuildSpec) -> bool:
    build = ActiveBuild(spec)
    build.close()
    return build.needs_adoption


# ---- a file that only looks finished (R02) ----


@pytest.mark.parametrize("ledger", ["none", "made, nothing marked", "last cell marked"])
@pytest.mark.parametrize("data", ["preallocated zeros", "sparse with its last block", "other bytes"])
def test_a_file_of_the_right_size_is_not_taken_for_a_whole_one(
    remote: MemoryRemote, tmp_path: Path, data: str, ledger: str
) -> None:
    content = noise(3 * MIB + 9)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content, chunk_bytes=2 * MIB)
    spec.folder.mkdir()
    with _incoming(spec).open("wb") as file:
        if data == "preallocated zeros":
            os.posix_fallocate(file.fileno(), 0, len(content))
        elif data == "other bytes":
            file.write(noise(len(content), 3))
        else:
            file.truncate(len(content))
            file.seek(3 * MIB)
            file.write(content[3 * MIB :])
    if ledger != "none":
        cells = CellMap(ledger_path(spec), spec.key, Geometry(spec.chunks))
        if ledger == "last cell marked":
            cells.mark(cells.geometry.cell_count - 1)
        cells.close()
    books = Books([spec])
    summary = fetch(remote, books)
    assert summary.received and sorted(books.outcomes(Outcome.MATCHED)) == [0, 1]
    assert summary.new_bytes >= 3 * MIB
    assert publish(spec).read_bytes() == content


# ---- two at one place (R03) ----


def test_the_second_of_two_waits_says_so_and_finds_the_work_done(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(12 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    first, second = Books([spec], bytes_per_second=8.0 * MIB), Books([spec])
    with RunningLink(remote, first) as owner:
        wait_until(lambda: owner.here() > 0)
        with RunningLink(remote, second) as other:
            wait_until(lambda: bool(second.problems), what="the second one to be told")
            assert isinstance(second.problems[0][1], LedgerBusy) and second.problems[0][2]
            assert owner.finish().new_bytes == len(content)
            assert other.finish().new_bytes == 0
    assert first.received == second.received == ["build"]
    assert _incoming(spec).read_bytes() == content


def test_on_a_disk_whose_locks_do_nothing_two_at_one_place_spoil_nothing(
    remote: MemoryRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_words: None)
    content = noise(12 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    books = [Books([spec], bytes_per_second=16.0 * MIB) for _ in range(2)]
    with RunningLink(remote, books[0]) as first, RunningLink(remote, books[1]) as second:
        assert first.finish().received and second.finish().received
    assert _incoming(spec).read_bytes() == content
    assert fetch(remote, Books([spec])).received


# ---- the order of syncs and names (R05) ----


def test_bytes_are_synced_before_they_are_called_proven_and_the_name_before_the_folder(
    remote: MemoryRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def noted(name: str) -> None:
        real = getattr(os, name)

        def call(*words: Any, **named: Any) -> Any:
            steps.append(name)
            return real(*words, **named)

        monkeypatch.setattr(os, name, call)

    class Watched(Books):
        def record_received(self, key: str) -> None:
            steps.append("received")
            super().record_received(key)

    content = noise(5 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    for name in ("pwrite", "fdatasync", "link", "rename", "fsync"):
        noted(name)
    assert fetch(remote, Watched([spec])).received
    received = steps.index("received")
    last_data = max(at for at, step in enumerate(steps[:received]) if step == "pwrite")
    assert "fdatasync" in steps[last_data:received]
    steps.clear()
    publish(spec)
    assert [step for step in steps if step in ("link", "rename", "fsync")] == ["link", "fsync"]


# ---- sources that move ----


def test_a_source_that_grows_while_it_is_fetched_gives_what_the_build_was_made_of(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    content = noise(10 * MIB)
    source = tmp_path / "source"
    spec = one_file(tmp_path / "landing", source, content)
    books = Books([spec], bytes_per_second=8.0 * MIB)
    with RunningLink(remote, books) as link, source.open("ab") as file:
        wait_until(lambda: link.here() > 0)
        while not books.received:
            file.write(noise(100_000, 2))
            file.flush()
            link._thread.join(0.05)
        assert link.finish().received
    assert _incoming(spec).read_bytes() == content


def test_a_source_that_grew_where_it_was_cut_is_a_changed_one_and_is_named(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    content = noise(6 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    (tmp_path / "source").write_bytes(noise(100, 4) + content)  # as a log that is turned over and begun anew
    summary = fetch(remote, Books([spec]))
    assert not summary.received and "source changed" in summary.failed["build"]
    assert "source" in summary.failed["build"] and "kept" in summary.failed["build"]


# ---- the ledger under any order of completions, failures and restarts ----


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_whatever_happens_every_block_comes_once_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, seed: int, lanes: int
) -> None:
    rng = random.Random(seed)
    geometry = Geometry(cut_chunks(2 * MIB + 77, MIB + 5))
    path = tmp_path_factory.mktemp("ledger") / "map"
    written = [0] * geometry.cell_count  # times that a cell was put on the disk
    again = [0] * geometry.cell_count  # times that it was proven wrong
    cells, queue = _restarted(path, geometry)
    held: dict[int, list[Range]] = {}
    restarts = 0
    for _ in range(4000):
        if queue.is_full("a"):
            break
        act, lane = rng.random(), rng.randrange(lanes)
        if act < 0.5:
            queue.note_rate(lane, rng.choice([1e4, 1e6]))
            taken = queue.take(lane, rng.choice([1, 300_000])) or queue.take_double(lane, 0.0)
            held.setdefault(lane, []).extend([taken] if taken is not None else [])
        elif act < 0.9 and held.get(lane):
            _bring(queue, cells, held[lane].pop(0), rng, written)
        elif act < 0.95 and sum(again) < 5:
            wrong = rng.choice([cell for cell in range(geometry.cell_count) if cells.has(cell)] or [-1])
            if wrong >= 0:  # a proof found it wrong: it must come again, once
                again[wrong] += 1
                cells.clear([wrong])
                queue.reopen("a", [(wrong, 1)])
        elif act < 0.96 and restarts < 4:  # everything is killed and started again
            restarts += 1
            cells.close()
            cells, queue = _restarted(path, geometry)
            held = {}
    assert queue.is_full("a")
    assert cells.here_bytes == geometry.size_bytes and cells.missing_runs() == []
    assert written == [1 + count for count in again]
    cells.close()


def _restarted(path: Path, geometry: Geometry) -> tuple[CellMap, RangeQueue]:
    cells, queue = CellMap(path, "a", geometry), RangeQueue()
    queue.add("a", geometry, cells.missing_runs())
    queue.set_order(["a"])
    return cells, queue


def _bring(queue: RangeQueue, cells: CellMap, one: Range, rng: random.Random, written: list[int]) -> None:
    """Some of a range comes; a write may fail; then the lane is through with it."""
    stop = rng.randint(one.first, one.first + one.count)
    for first, count in queue.begin_write(one, one.first, stop - one.first):
        if rng.random() < 0.2:
            queue.fail_write(one, first, count)
            continue
        for cell in range(first, first + count):
            written[cell] += 1
        cells.mark(first, count)
        queue.finish_write(one, first, count)
    queue.release(one)
