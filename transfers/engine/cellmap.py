"""The ledger file beside incoming data: which cells are here, and which chunks were proven.

The design counts received bytes for each 1 MiB block. This map refines that to one bit for each 16 KiB cell, because
ranges may then arrive in any order, be split and be doubled, and a `kill -9` costs a lane at most one cell. It is
written with `pwrite`, not through a memory map: what a killed process wrote stays in the page cache either way, and
a full disk is an error that can be told, where a memory map would end the process with SIGBUS.

Layout (little endian):

    header   magic, version, cell size, build size, cells, chunks, identity of build and geometry, CRC-32 of all that
    bitmap   one bit a cell, lowest bit first: set once the cell's bytes were written
    proofs   for each chunk the SHA-256 that was found here after a sync, and a CRC-32 of number and digest

The map says what is *here*; only digests say what is *right*. A set bit that is wrong (power loss, damage) makes the
chunk's digest differ, and the repair fetches the wrong blocks. A proof counts only when its CRC is right and its
digest is the source's. A file whose header, length or CRC is not right is refused, never trusted: the runner then
compares what lies on the disk with the source's digests.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from inventory.remote.names import escape
from transfers.engine.geometry import Geometry
from transfers.engine.types import CELL_BYTES

_HEADER: Final = struct.Struct("<8sIIQQI32s")
_CRC: Final = struct.Struct("<I")
_MAGIC: Final = b"CALCELLS"
_VERSION: Final = 1
_HEADER_BYTES: Final = _HEADER.size + _CRC.size
_PROOF_BYTES: Final = 32 + _CRC.size
_BITS: Final = tuple(tuple(bit for bit in range(8) if not value >> bit & 1) for value in range(256))

MapState = Literal["kept", "new", "refused"]


@dataclass(eq=False)
class LedgerBusy(Exception):
    """Another process fetches into the same place."""

    path: Path

    def __str__(self) -> str:
        return (
            f"Another process is fetching into “{escape(os.fsencode(self.path.parent))}” (it holds "
            f"“{escape(os.fsencode(self.path.name))}”). Nothing was changed. Let it finish, or end it first."
        )


class CellMap:
    """The open ledger file of one build. Thread-safe; holds an exclusive lock on its file while it is open."""

    def __init__(self, path: Path, key: str, geometry: Geometry, *, confirm: bool = True) -> None:
        """Open or make the map. Raises LedgerBusy, and OSError from the disk.

        Afterwards `state` is "kept", "new" (there was none) or "refused" (it was damaged or another build's and was
        emptied; `reason` says why). With `confirm` False a map that was not kept stays without its header until
        `confirm` is called: data of unknown worth lie beside it, and whoever is killed before they are compared leaves
        a map that is refused again.
        """
        self.path = path
        self.geometry = geometry
        self.reason = ""
        self._lock = threading.Lock()
        self._header = _header(key, geometry)
        self._bitmap_bytes = -(-geometry.cell_count // 8)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LedgerBusy(path) from None
            self._bitmap, self._proofs, self.state = self._load()
            if confirm:
                self.confirm()
        except BaseException:
            os.close(self._file)
            raise
        self.here_bytes = sum(self.geometry.cell_span(cell)[1] for cell in self._cells_here())

    def _load(self) -> tuple[bytearray, dict[int, bytes], MapState]:
        total = _HEADER_BYTES + self._bitmap_bytes + _PROOF_BYTES * self.geometry.chunk_count
        content = _read_all(self._file, total + 1)
        self.reason = self._fault(content, total)
        if not self.reason:
            bitmap = bytearray(content[_HEADER_BYTES : _HEADER_BYTES + self._bitmap_bytes])
            return bitmap, _proofs(content[_HEADER_BYTES + self._bitmap_bytes :]), "kept"
        # Without its header, which is written last, a map is refused by its successor.
        os.ftruncate(self._file, 0)
        _write_all(self._file, bytes(total), 0)
        return bytearray(self._bitmap_bytes), {}, "refused" if content else "new"

    def confirm(self) -> None:
        """Write the header: from here on the map counts. Safe to call twice."""
        with self._lock:
            _write_all(self._file, self._header, 0)

    def _fault(self, content: bytes, total: int) -> str:
        if not content:
            return "there was none"
        if len(content) < _HEADER_BYTES or content[:8] != _MAGIC:
            return "it is not a ledger, or its beginning is damaged"
        if _CRC.unpack_from(content, _HEADER.size)[0] != zlib.crc32(content[: _HEADER.size]):
            return "its header is damaged"
        if content[:_HEADER_BYTES] != self._header:
            return "it belongs to another build or another cut of it"
        if len(content) != total:
            return f"it is {len(content):,} bytes long instead of {total:,}"
        return ""

    def _cells_here(self) -> Iterator[int]:
        for at, value in enumerate(self._bitmap):
            if value:
                yield from (at * 8 + bit for bit in range(8) if value >> bit & 1 and at * 8 + bit < self._limit)

    @property
    def _limit(self) -> int:
        return self.geometry.cell_count

    def has(self, cell: int) -> bool:
        """True when the cell's bytes are here."""
        return bool(self._bitmap[cell >> 3] >> (cell & 7) & 1)

    def mark(self, first: int, count: int = 1) -> None:
        """Note that the cells' bytes were written. Call it after the write, never before."""
        with self._lock:
            for cell in range(first, first + count):
                if not self.has(cell):
                    self._bitmap[cell >> 3] |= 1 << (cell & 7)
                    self.here_bytes += self.geometry.cell_span(cell)[1]
            self._store(first, first + count - 1)

    def clear(self, cells: Iterable[int]) -> None:
        """Forget cells whose bytes were proven wrong, together with their chunks' proofs."""
        with self._lock:
            for cell in cells:
                chunk = self.geometry.cell_chunk(cell)
                if self._proofs.pop(chunk, None) is not None:
                    _write_all(self._file, bytes(_PROOF_BYTES), self._proof_at(chunk))
                if self.has(cell):
                    self._bitmap[cell >> 3] &= ~(1 << (cell & 7))
                    self.here_bytes -= self.geometry.cell_span(cell)[1]
                    self._store(cell, cell)

    def _store(self, first: int, last: int) -> None:
        _write_all(self._file, bytes(self._bitmap[first >> 3 : (last >> 3) + 1]), _HEADER_BYTES + (first >> 3))

    def missing_runs(self, cells: range | None = None) -> list[tuple[int, int]]:
        """Runs (first cell, count) that are not here, in order; of the whole build, or of `cells`."""
        wanted = range(self._limit) if cells is None else cells
        runs: list[tuple[int, int]] = []
        start = -1
        for cell in self._missing(wanted):
            if runs and cell == start + runs[-1][1]:
                runs[-1] = (start, runs[-1][1] + 1)
            else:
                start = cell
                runs.append((cell, 1))
        return runs

    def _missing(self, wanted: range) -> Iterator[int]:
        for at in range(wanted.start >> 3, (wanted.stop + 7) >> 3):
            for bit in _BITS[self._bitmap[at]]:
                if wanted.start <= at * 8 + bit < wanted.stop:
                    yield at * 8 + bit

    def is_full(self, chunk: int) -> bool:
        """True when every cell of the chunk is here."""
        return next(self._missing(self.geometry.chunk_cells(chunk)), None) is None

    def prove(self, chunk: int, digest: bytes) -> None:
        """Keep the digest found for a chunk whose bytes are synced to the disk."""
        with self._lock:
            self._proofs[chunk] = digest
            _write_all(self._file, digest + _CRC.pack(_proof_crc(chunk, digest)), self._proof_at(chunk))

    def forget_proof(self, chunk: int) -> None:
        """The chunk's bytes are not what they were proven to be: it is compared anew. Its cells stay marked."""
        with self._lock:
            if self._proofs.pop(chunk, None) is not None:
                _write_all(self._file, bytes(_PROOF_BYTES), self._proof_at(chunk))

    def proof(self, chunk: int) -> bytes | None:
        """The digest found here for a chunk, if it was proven."""
        return self._proofs.get(chunk)

    def _proof_at(self, chunk: int) -> int:
        return _HEADER_BYTES + self._bitmap_bytes + chunk * _PROOF_BYTES

    def sync(self) -> None:
        """Flush the map itself to the disk."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Let go of the file and its lock. Safe to call twice."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


def _header(key: str, geometry: Geometry) -> bytes:
    cut = ",".join(map(str, geometry.chunk_lengths))
    identity = hashlib.sha256(f"{key}\n{cut}".encode()).digest()
    packed = _HEADER.pack(
        _MAGIC, _VERSION, CELL_BYTES, geometry.size_bytes, geometry.cell_count, geometry.chunk_count, identity
    )
    return packed + _CRC.pack(zlib.crc32(packed))


def _proofs(table: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for chunk in range(len(table) // _PROOF_BYTES):
        digest, crc = struct.unpack_from("<32sI", table, chunk * _PROOF_BYTES)
        if crc == _proof_crc(chunk, digest) and any(digest):
            found[chunk] = digest
    return found


def _proof_crc(chunk: int, digest: bytes) -> int:
    return zlib.crc32(chunk.to_bytes(8, "little") + digest)


def _read_all(file: int, limit: int) -> bytes:
    content = b""
    while len(content) < limit and (more := os.pread(file, limit - len(content), len(content))):
        content += more
    return content


def _write_all(file: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def here_by_chunk(path: Path, key: str, geometry: Geometry) -> tuple[int, ...] | None:
    """How many cells of each chunk are here, read without the lock while another process may be writing.

    None when there is no map, or when it is not whole or another build's. Raises OSError from the disk.
    """
    bitmap_bytes = -(-geometry.cell_count // 8)
    try:
        with path.open("rb") as file:
            content = file.read(_HEADER_BYTES + bitmap_bytes)
    except FileNotFoundError:
        return None
    if len(content) != _HEADER_BYTES + bitmap_bytes or content[:_HEADER_BYTES] != _header(key, geometry):
        return None
    bitmap = content[_HEADER_BYTES:]
    counts = []
    for chunk in range(geometry.chunk_count):
        cells = geometry.chunk_cells(chunk)
        stretch = int.from_bytes(bitmap[cells.start >> 3 : (cells.stop + 7) >> 3], "little")
        counts.append((stretch >> (cells.start & 7) & (1 << len(cells)) - 1).bit_count())
    return tuple(counts)
