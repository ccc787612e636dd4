"""How a build is cut: chunks (proof), blocks (repair), cells (ledger), and where each stretch of it lies.

Cells are counted inside their chunk: the last cell of a chunk may be shorter than `CELL_BYTES`, so that no cell and
no range ever crosses a chunk, whatever size the chunks have (sets of parts keep the size of their parts).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from inventory.remote.names import RemoteName
from transfers.engine.types import BLOCK_BYTES, CELL_BYTES, CHUNK_BYTES, BuildSpec, ChunkSpec, Segment

INCOMING_SUFFIX = b".incoming"
LEDGER_SUFFIX = b".ledger"
LARGEST_PART_AS_CHUNK_BYTES = 4 * CHUNK_BYTES  # a larger part is cut, or its proof would come too late


class Geometry:
    """Cell and chunk arithmetic of one build. Immutable."""

    def __init__(self, chunks: Sequence[ChunkSpec]) -> None:
        self.chunk_offsets = [chunk.offset for chunk in chunks]
        self.chunk_lengths = [chunk.length for chunk in chunks]
        self._first_cells: list[int] = []
        self.cell_count = 0
        for length in self.chunk_lengths:
            self._first_cells.append(self.cell_count)
            self.cell_count += -(-length // CELL_BYTES)
        self.size_bytes = sum(self.chunk_lengths)

    @property
    def chunk_count(self) -> int:
        return len(self.chunk_lengths)

    def chunk_cells(self, chunk: int) -> range:
        """The cells of a chunk."""
        first = self._first_cells[chunk]
        return range(first, first + -(-self.chunk_lengths[chunk] // CELL_BYTES))

    def cell_chunk(self, cell: int) -> int:
        """The chunk that a cell belongs to."""
        return bisect_right(self._first_cells, cell) - 1

    def cell_span(self, cell: int) -> tuple[int, int]:
        """Offset within the build, and length, of one cell."""
        chunk = self.cell_chunk(cell)
        within = (cell - self._first_cells[chunk]) * CELL_BYTES
        return self.chunk_offsets[chunk] + within, min(CELL_BYTES, self.chunk_lengths[chunk] - within)

    def run_span(self, first: int, count: int) -> tuple[int, int]:
        """Offset and length of `count` cells of one chunk beginning with `first`."""
        offset, _ = self.cell_span(first)
        last_offset, last_length = self.cell_span(first + count - 1)
        return offset, last_offset + last_length - offset

    def block_cells(self, chunk: int, block: int) -> range:
        """The cells of one block (1 MiB, the last one shorter) of a chunk."""
        cells = self.chunk_cells(chunk)
        each = BLOCK_BYTES // CELL_BYTES
        return range(cells.start + block * each, min(cells.start + (block + 1) * each, cells.stop))

    def block_count(self, chunk: int) -> int:
        """Blocks of a chunk."""
        return -(-self.chunk_lengths[chunk] // BLOCK_BYTES)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the build that lies in one remote file."""

    offset: int
    length: int
    source: RemoteName
    source_offset: int


@dataclass(frozen=True, slots=True)
class LandingPiece:
    """A stretch of the build that lies in one landing file."""

    offset: int
    length: int
    landing_name: bytes
    landing_offset: int


class SegmentMap:
    """Finds the segments of a stretch quickly, however many files a build has. Immutable."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = [segment for segment in segments if segment.length]
        self._offsets = [segment.offset for segment in self._segments]

    def _cut(self, offset: int, length: int) -> Iterator[tuple[Segment, int, int]]:
        at, end = bisect_right(self._offsets, offset) - 1, offset + length
        while offset < end:
            segment = self._segments[at]
            count = min(end, segment.offset + segment.length) - offset
            yield segment, offset - segment.offset, count
            offset, at = offset + count, at + 1

    def pieces(self, offset: int, length: int) -> list[Piece]:
        """Where the stretch lies on the host, in order."""
        return [
            Piece(segment.offset + within, count, segment.source, segment.source_offset + within)
            for segment, within, count in self._cut(offset, length)
        ]

    def landing_pieces(self, offset: int, length: int) -> list[LandingPiece]:
        """Where the stretch lies in the landing, in order."""
        return [
            LandingPiece(segment.offset + within, count, segment.landing_name, segment.landing_offset + within)
            for segment, within, count in self._cut(offset, length)
        ]


def cut_chunks(size_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> tuple[ChunkSpec, ...]:
    """Chunks of equal size (the last one shorter) that cover `size_bytes`; none for an empty build."""
    return tuple(
        ChunkSpec(index=index, offset=offset, length=min(chunk_bytes, size_bytes - offset))
        for index, offset in enumerate(range(0, size_bytes, chunk_bytes))
    )


def build_of_one_file(
    *, key: str, source: RemoteName, size_bytes: int, folder: Path, name: bytes, chunk_bytes: int = CHUNK_BYTES
) -> BuildSpec:
    """One remote file that lands under `name`."""
    segment = Segment(0, size_bytes, source, 0, name, 0)
    return BuildSpec(
        key=key,
        size_bytes=size_bytes,
        segments=(segment,),
        chunks=cut_chunks(size_bytes, chunk_bytes),
        folder=folder,
        incoming_name=_text(name + INCOMING_SUFFIX),
    )


def build_of_parts(
    *, key: str, parts: Iterable[tuple[RemoteName, int]], folder: Path, name: bytes, chunk_bytes: int = CHUNK_BYTES
) -> BuildSpec:
    """Part files, in order, joined into one landing file `name`; each part is a chunk unless it is very large."""
    segments: list[Segment] = []
    chunks: list[ChunkSpec] = []
    at = 0
    for source, size_bytes in parts:
        segments.append(Segment(at, size_bytes, source, 0, name, at))
        step = size_bytes if size_bytes <= LARGEST_PART_AS_CHUNK_BYTES else chunk_bytes
        for within in range(0, size_bytes, step or 1):
            chunks.append(ChunkSpec(len(chunks), at + within, min(step, size_bytes - within)))
        at += size_bytes
    return BuildSpec(
        key=key,
        size_bytes=at,
        segments=tuple(segments),
        chunks=tuple(chunks),
        folder=folder,
        incoming_name=_text(name + INCOMING_SUFFIX),
    )


def build_of_files(
    *, key: str, files: Iterable[tuple[RemoteName, bytes, int]], folder: Path, chunk_bytes: int = CHUNK_BYTES
) -> BuildSpec:
    """Files as they are, each (remote path, name in the landing, size), under the folder `files`.

    Chunks are cut over the files one after another. An empty file has a segment of no bytes, so that it is made.
    """
    segments: list[Segment] = []
    at = 0
    for source, name, size_bytes in files:
        segments.append(Segment(at, size_bytes, source, 0, name, 0))
        at += size_bytes
    return BuildSpec(
        key=key,
        size_bytes=at,
        segments=tuple(segments),
        chunks=cut_chunks(at, chunk_bytes),
        folder=folder,
        incoming_name=_text(b"files" + INCOMING_SUFFIX),
        single_file=False,
    )


def spans(offset: int, length: int, step: int = BLOCK_BYTES) -> list[tuple[int, int]]:
    """Stretches of `step` bytes, the last one shorter, that cover a stretch."""
    return [(at, min(step, offset + length - at)) for at in range(offset, offset + length, step)]


def final_name(spec: BuildSpec) -> bytes:
    """The name that the incoming file or folder gets when the build is verified."""
    return _bytes(spec.incoming_name).removesuffix(INCOMING_SUFFIX)


def ledger_path(spec: BuildSpec) -> Path:
    """The cell map's file, beside the incoming data."""
    return spec.folder / _text(final_name(spec) + LEDGER_SUFFIX)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
