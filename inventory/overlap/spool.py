"""The findings of one look, kept in a temporary file while its tree is made, so that memory stays flat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

import zstandard

from inventory.overlap.archives import read_records
from inventory.overlap.images import Findings
from inventory.overlap.inside import Record, encode

_READ_BYTES = 2**18
_PIECE_BYTES = 2**20
_DESCRIPTIONS_BYTES_AT_MOST = 64 * 2**20


class Spool:
    """Use it in a `with`; `findings` and `end` are there after `fill`."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 -- closed by __exit__
        self._places: dict[bytes, list[tuple[int, int]]] = {}
        self.end = Record("e", b"cut-off")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def fill(self, records: Iterable[Record]) -> Findings:
        """Take every record in. Raises what reading them raises."""
        descriptions: dict[bytes, bytes] = {}
        faults: dict[bytes, str] = {}
        part, begin, at, described = b"", 0, 0, 0
        self._places = {b"": []}
        for record in records:
            if record.kind == "p":
                self._places.setdefault(part, []).append((begin, at))
                part, begin = record.name, at
                self._places.setdefault(part, [])
            elif record.kind == "j":
                described += len(record.target)
                if described <= _DESCRIPTIONS_BYTES_AT_MOST:
                    descriptions[record.name] = record.target
            elif record.kind == "x":
                faults[part] = record.name.decode("ascii", "replace")
            elif record.kind == "e":
                self.end = record
            else:
                at += self._file.write(encode(record))
        self._places.setdefault(part, []).append((begin, at))
        parts = frozenset(name for name in self._places if name)
        return Findings(self._part, parts, descriptions, faults)

    def _part(self, name: bytes) -> Iterator[Record]:
        for begin, end in self._places.get(name, ()):
            yield from read_records(self._slice(begin, end))

    def _slice(self, begin: int, end: int) -> Iterator[bytes]:
        while begin < end:
            self._file.seek(begin)
            piece = self._file.read(min(_READ_BYTES, end - begin))
            begin += len(piece)
            yield piece


def packed(files: Iterable[Record]) -> Iterator[tuple[bytes, int, int]]:
    """Records in pieces of about a mebibyte, each compressed, with its files and their bytes."""
    held: list[bytes] = []
    length = size_bytes = 0
    for record in files:
        text = encode(record)
        held.append(text)
        length += len(text)
        size_bytes += record.size_bytes
        if length >= _PIECE_BYTES:
            yield zstandard.compress(b"".join(held), 3), len(held), size_bytes
            held, length, size_bytes = [], 0, 0
    if held:
        yield zstandard.compress(b"".join(held), 3), len(held), size_bytes


def unpacked(piece: bytes) -> Iterator[Record]:
    """The records of a piece. Raises FindingsDamaged."""
    return read_records([zstandard.decompress(piece)])
