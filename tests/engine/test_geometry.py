"""Chunks, blocks, cells and segments: arithmetic that must leave no byte out and count none twice."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from inventory.remote.names import RemoteName
from transfers.engine.geometry import (
    Geometry,
    SegmentMap,
    build_of_files,
    build_of_one_file,
    build_of_parts,
    cut_chunks,
    final_name,
    ledger_path,
    spans,
)
from transfers.engine.types import CELL_BYTES, CHUNK_BYTES, MEBIBYTE, ChunkSpec

LENGTHS = st.lists(st.integers(1, 5 * MEBIBYTE), min_size=1, max_size=6)


def _chunks(lengths: list[int]) -> list[ChunkSpec]:
    at, chunks = 0, []
    for index, length in enumerate(lengths):
        chunks.append(ChunkSpec(index, at, length))
        at += length
    return chunks


@given(LENGTHS)
def test_cells_cover_every_byte_once_and_cross_no_chunk(lengths: list[int]) -> None:
    geometry = Geometry(_chunks(lengths))
    at = 0
    for cell in range(geometry.cell_count):
        offset, length = geometry.cell_span(cell)
        assert offset == at and 0 < length <= CELL_BYTES
        chunk = geometry.cell_chunk(cell)
        assert cell in geometry.chunk_cells(chunk)
        assert geometry.chunk_offsets[chunk] <= offset
        assert offset + length <= geometry.chunk_offsets[chunk] + geometry.chunk_lengths[chunk]
        at += length
    assert at == geometry.size_bytes == sum(lengths)


@given(LENGTHS)
def test_blocks_of_a_chunk_hold_its_cells_once(lengths: list[int]) -> None:
    geometry = Geometry(_chunks(lengths))
    for chunk in range(geometry.chunk_count):
        cells = [cell for block in range(geometry.block_count(chunk)) for cell in geometry.block_cells(chunk, block)]
        assert cells == list(geometry.chunk_cells(chunk))
        spanned = spans(geometry.chunk_offsets[chunk], geometry.chunk_lengths[chunk])
        assert len(spanned) == geometry.block_count(chunk)
        assert sum(length for _offset, length in spanned) == geometry.chunk_lengths[chunk]


@given(st.lists(st.integers(0, 300_000), min_size=1, max_size=8), st.data())
def test_a_stretch_is_cut_at_files_without_gap(sizes: list[int], data: st.DataObject) -> None:
    files = [(RemoteName(b"/f%d" % i), b"f%d" % i, size) for i, size in enumerate(sizes)]
    spec = build_of_files(key="k", files=files, folder=Path("/x"))
    if not spec.size_bytes:
        return
    offset = data.draw(st.integers(0, spec.size_bytes - 1))
    length = data.draw(st.integers(1, spec.size_bytes - offset))
    at = offset
    pieces = SegmentMap(spec.segments).pieces(offset, length)
    for piece in pieces:
        segment = next(s for s in spec.segments if s.source == piece.source)
        assert piece.offset == at and piece.offset == segment.offset + piece.source_offset
        assert piece.source_offset + piece.length <= segment.length
        at += piece.length
    assert at == offset + length
    landing = SegmentMap(spec.segments).landing_pieces(offset, length)
    assert [(p.offset, p.length) for p in landing] == [(p.offset, p.length) for p in pieces]


def test_equal_chunks_leave_a_shorter_last_one_and_none_for_nothing() -> None:
    chunks = cut_chunks(2 * CHUNK_BYTES + 5)
    assert [chunk.length for chunk in chunks] == [CHUNK_BYTES, CHUNK_BYTES, 5]
    assert cut_chunks(0) == ()


def test_parts_are_chunks_of_their_own_size_unless_they_are_very_large() -> None:
    parts = [(RemoteName(b"/a"), 8 * MEBIBYTE), (RemoteName(b"/b"), 5), (RemoteName(b"/c"), 5 * CHUNK_BYTES)]
    spec = build_of_parts(key="k", parts=parts, folder=Path("/x"), name=b"image")
    assert [chunk.length for chunk in spec.chunks] == [8 * MEBIBYTE, 5, *[CHUNK_BYTES] * 5]
    assert [chunk.offset for chunk in spec.chunks][:3] == [0, 8 * MEBIBYTE, 8 * MEBIBYTE + 5]


def test_names_beside_a_build_keep_bytes_that_are_no_text() -> None:
    spec = build_of_one_file(key="k", source=RemoteName(b"/a"), size_bytes=1, folder=Path("/x"), name=b"\xff\n.tar")
    assert final_name(spec) == b"\xff\n.tar"
    assert bytes(ledger_path(spec)) == b"/x/\xff\n.tar.ledger"
