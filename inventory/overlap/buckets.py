"""Records of one length, spread over buckets by their key: what is equal meets in one bucket, and memory stays flat.

A bucket is kept in memory up to a share of the whole, and beyond it in one private temporary file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Self

_BUCKETS = 256
_PIECE_BYTES = 128 * 1024  # of a bucket in memory; all of them: 32 MiB


class Buckets:
    """Records that are told apart by one byte of their key. A context: the temporary file ends with it."""

    def __init__(self) -> None:
        self._held = [bytearray() for _number in range(_BUCKETS)]
        self._kept: list[list[tuple[int, int]]] = [[] for _number in range(_BUCKETS)]
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (closed by __exit__)
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, bucket: int, record: bytes) -> None:
        """Keep one record in the bucket with this number, 0 to 255."""
        held = self._held[bucket]
        held += record
        if len(held) >= _PIECE_BYTES:
            os.pwrite(self._file.fileno(), held, self._end)
            self._kept[bucket].append((self._end, len(held)))
            self._end += len(held)
            held.clear()

    def each(self) -> Iterator[bytes]:
        """The content of each bucket that has any."""
        for held, kept in zip(self._held, self._kept, strict=True):
            pieces = [os.pread(self._file.fileno(), length, start) for start, length in kept]
            if held or pieces:
                yield b"".join((*pieces, held))
