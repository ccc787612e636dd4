"""The cell map: what is here, kept over any kill, refused when it is not to be trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from transfers.engine.cellmap import CellMap, LedgerBusy
from transfers.engine.geometry import Geometry
from transfers.engine.types import CELL_BYTES, ChunkSpec

SIXTEEN_CELLS = 16 * CELL_BYTES
GEOMETRY = Geometry([ChunkSpec(0, 0, SIXTEEN_CELLS), ChunkSpec(1, SIXTEEN_CELLS, SIXTEEN_CELLS + 7)])


def _open(path: Path, key: str = "k", geometry: Geometry = GEOMETRY) -> CellMap:
    return CellMap(path, key, geometry)


def test_marks_and_proofs_are_there_after_reopening(tmp_path: Path) -> None:
    cells = _open(tmp_path / "m")
    assert cells.state == "new" and cells.missing_runs() == [(0, 33)]
    cells.mark(3, 5)
    cells.mark(32)
    cells.prove(1, b"d" * 32)
    cells.close()
    again = _open(tmp_path / "m")
    assert again.state == "kept"
    assert again.missing_runs() == [(0, 3), (8, 24)]
    assert again.here_bytes == 5 * CELL_BYTES + 7
    assert again.proof(1) == b"d" * 32 and again.proof(0) is None
    again.close()


def test_a_mark_is_in_the_file_without_a_close(tmp_path: Path) -> None:
    cells = _open(tmp_path / "m")
    cells.mark(0, 16)
    copy = tmp_path / "copy"
    copy.write_bytes((tmp_path / "m").read_bytes())  # what another process would find after a kill -9
    other = _open(copy)
    assert other.is_full(0) and not other.is_full(1)
    other.close()
    cells.close()


def test_clearing_cells_takes_their_chunks_proof_away(tmp_path: Path) -> None:
    cells = _open(tmp_path / "m")
    cells.mark(0, 16)
    cells.prove(0, b"d" * 32)
    cells.clear([2, 3])
    assert cells.proof(0) is None and cells.missing_runs(range(16)) == [(2, 2)]
    cells.close()
    again = _open(tmp_path / "m")
    assert again.proof(0) is None and again.missing_runs(range(16)) == [(2, 2)]
    again.close()


def test_a_forgotten_proof_leaves_the_cells(tmp_path: Path) -> None:
    cells = _open(tmp_path / "m")
    cells.mark(0, 16)
    cells.prove(0, b"d" * 32)
    cells.forget_proof(0)
    cells.close()
    again = _open(tmp_path / "m")
    assert again.proof(0) is None and again.is_full(0)
    again.close()


@pytest.mark.parametrize("damage", ["header", "short", "long", "empty-ish"])
def test_a_damaged_map_is_refused_and_emptied(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m"
    cells = _open(path)
    cells.mark(0, 10)
    cells.close()
    content = bytearray(path.read_bytes())
    if damage == "header":
        content[20] ^= 1
    elif damage == "short":
        del content[-3:]
    elif damage == "long":
        content += b"x"
    else:
        content = bytearray(b"x")
    path.write_bytes(bytes(content))
    again = _open(path)
    assert again.state == "refused" and again.reason and again.here_bytes == 0
    again.close()
    third = _open(path)
    assert third.state == "kept" and third.here_bytes == 0
    third.close()


def test_a_damaged_proof_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "m"
    cells = _open(path)
    cells.prove(0, b"d" * 32)
    cells.close()
    with path.open("r+b") as file:
        file.seek(-40, os.SEEK_END)  # within the proofs' table
        at = file.read().find(b"d")
    content = bytearray(path.read_bytes())
    at = content.find(b"d" * 32)
    content[at] ^= 1
    path.write_bytes(bytes(content))
    again = _open(path)
    assert again.proof(0) is None
    again.close()


def test_a_map_of_another_build_or_cut_is_refused(tmp_path: Path) -> None:
    _open(tmp_path / "m").close()
    other = _open(tmp_path / "m", key="other")
    assert other.state == "refused"
    other.close()
    cut = _open(tmp_path / "m", key="other", geometry=Geometry([ChunkSpec(0, 0, GEOMETRY.size_bytes)]))
    assert cut.state == "refused"
    cut.close()


def test_only_one_process_at_a_time_holds_a_map(tmp_path: Path) -> None:
    cells = _open(tmp_path / "m")
    with pytest.raises(LedgerBusy) as caught:
        _open(tmp_path / "m")
    assert "Another process is fetching" in str(caught.value)
    cells.close()
    _open(tmp_path / "m").close()


def test_a_link_in_the_maps_place_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "m").symlink_to(victim)
    with pytest.raises(OSError):
        _open(tmp_path / "m")
    assert victim.read_bytes() == b"mine"
