"""Content that is not compressed: a tar, or bytes of a kind that this product does not know."""

from __future__ import annotations

import os

from transfers.engine.opens.base import ByteStream


class PlainStream:
    """The bytes of an open file as they are."""

    def __init__(self, file: int) -> None:
        self._file, self._at = file, 0

    def read(self, limit_bytes: int) -> bytes:
        """See ByteStream."""
        data = os.pread(self._file, limit_bytes, self._at)
        self._at += len(data)
        return data

    def notes(self) -> tuple[str, ...]:
        """See ByteStream."""
        return ()


class ExactStream:
    """Reads exact counts from a stream, and can look ahead at its beginning. `offset` counts what was handed out."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._ahead = stream, b""
        self.offset = 0

    def peek(self, count: int) -> bytes:
        """The next `count` bytes without taking them; fewer only at the end."""
        parts, here = [self._ahead], len(self._ahead)
        while here < count and (data := self._stream.read(count - here)):
            parts.append(data)
            here += len(data)
        self._ahead = b"".join(parts)
        return self._ahead[:count]

    def read(self, limit_bytes: int) -> bytes:
        """Between 1 and `limit_bytes` bytes; nothing at the end."""
        if self._ahead:
            data, self._ahead = self._ahead[:limit_bytes], self._ahead[limit_bytes:]
        else:
            data = self._stream.read(limit_bytes)
        self.offset += len(data)
        return data

    def exactly(self, count: int) -> bytes:
        """`count` bytes; fewer only at the end."""
        data = self.read(count)
        while len(data) < count and (more := self.read(count - len(data))):
            data += more
        return data

    def notes(self) -> tuple[str, ...]:
        """What the stream below tells."""
        return self._stream.notes()
