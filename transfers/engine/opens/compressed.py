"""gzip, bzip2 and xz content: every member of the file, one after another, in bounded memory."""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable
from typing import Final, Protocol

from transfers.engine.opens.base import READ_BYTES, ContentDamaged

XZ_MEMORY_BYTES: Final = 512 * 2**20
_INPUT_BYTES: Final = 256 * 1024


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decode(self, data: bytes, limit_bytes: int) -> bytes: ...
    def needs_input(self) -> bool: ...


class _Gzip:
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decode(self, data: bytes, limit_bytes: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, limit_bytes)

    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail


class _Incremental:
    def __init__(self, inner: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._inner = inner

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decode(self, data: bytes, limit_bytes: int) -> bytes:
        return self._inner.decompress(data, limit_bytes)

    def needs_input(self) -> bool:
        return self._inner.needs_input


_DECODERS: Final[dict[str, tuple[bytes, Callable[[], _Decoder]]]] = {
    "gzip": (b"\x1f\x8b\x08", _Gzip),
    "bzip2": (b"BZh", lambda: _Incremental(bz2.BZ2Decompressor())),
    "xz": (b"\xfd7zXZ\0", lambda: _Incremental(lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES))),
}


def compression_of(beginning: bytes) -> str | None:
    """The name of the compression that a file which begins so has, of those that this module reads."""
    return next((name for name, (magic, _make) in _DECODERS.items() if beginning.startswith(magic)), None)


class CompressedStream:
    """The content of every member of an open file of one compression."""

    def __init__(self, file: int, compression: str) -> None:
        self._file, self._name = file, compression
        self._magic, self._make = _DECODERS[compression]
        self._size = os.fstat(file).st_size
        self._at = 0  # of the next input to be read
        self._decoder: _Decoder | None = self._make()
        self._members, self._begun, self._trailing = 1, 0, 0

    def read(self, limit_bytes: int) -> bytes:
        """See ByteStream."""
        while self._decoder is not None:
            data = b""
            if self._decoder.needs_input():
                data = os.pread(self._file, _INPUT_BYTES, self._at)
                self._at += len(data)
            try:
                content = self._decoder.decode(data, min(limit_bytes, READ_BYTES))
            except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
                raise ContentDamaged(
                    f"the {self._name} data that begin there do not decompress ({error})", self._begun
                ) from error
            if self._decoder.eof:
                self._next_member(self._at - len(self._decoder.unused_data))
            elif not content and not data and self._at >= self._size and self._decoder.needs_input():
                raise ContentDamaged(f"the file ends in the middle of the {self._name} data", self._size)
            if content:
                return content
        return b""

    def _next_member(self, at: int) -> None:
        """Begin the next member, when one follows; zeros are padding, anything else is told as trailing bytes."""
        self._decoder = None
        while at < self._size:
            data = os.pread(self._file, _INPUT_BYTES, at)
            stripped = data.lstrip(b"\0")
            at += len(data) - len(stripped)
            if not stripped:
                continue
            if os.pread(self._file, len(self._magic), at) == self._magic:
                self._at = self._begun = at
                self._decoder = self._make()
                self._members += 1
            else:
                self._trailing = self._size - at
            return

    def notes(self) -> tuple[str, ...]:
        """See ByteStream."""
        told = []
        if self._members > 1:
            told.append(f"{self._members:,} {self._name} members were read.")
        if self._trailing:
            told.append(f"{self._trailing:,} bytes after the {self._name} data belong to none of it.")
        return tuple(told)
