"""zstd content: every frame, one after another, each walked before it is read.

The frames' structure is walked by their headers (RFC 8878), which costs a few bytes a block: so the window that a
frame asks for is known before any memory is given to it, a file that is cut off is told from one that is damaged, and
what follows the last frame is noticed. One decompressor call that stops after the first frame cannot hide the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, cast

import zstandard

from transfers.engine.opens.base import READ_BYTES, ContentDamaged, WindowTooLarge

MAGIC = b"\x28\xb5\x2f\xfd"
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the file: [offset, end). A skippable frame holds no content."""

    offset: int
    end: int
    window_bytes: int
    is_skippable: bool = False


def is_skippable(magic: bytes) -> bool:
    """True for the sixteen magic numbers of frames to be skipped."""
    return len(magic) >= 4 and magic[1:4] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50


def is_zstd(beginning: bytes) -> bool:
    """True when a file that begins so is zstd content."""
    return beginning[:4] == MAGIC or is_skippable(beginning[:4])


def walk_frames(file: int, size_bytes: int) -> Iterator[Frame]:
    """Yield the frames of an open file; ends before bytes that begin no frame. Raises ContentDamaged."""
    at = 0
    while at < size_bytes:
        head = os.pread(file, 18, at)
        if is_skippable(head):
            end = at + 8 + int.from_bytes(head[4:8], "little")
            if len(head) < 8 or end > size_bytes:
                raise ContentDamaged("the file ends in the middle of a skippable zstd frame", size_bytes)
            yield Frame(at, end, 0, is_skippable=True)
        elif head[:4] == MAGIC:
            header_bytes, window_bytes, has_checksum = _frame_header(head, at)
            end = _blocks_end(file, at + header_bytes, size_bytes) + (4 if has_checksum else 0)
            if end > size_bytes:
                raise ContentDamaged("the file ends in the middle of a zstd frame", size_bytes)
            yield Frame(at, end, window_bytes)
        else:
            return
        at = end


def _frame_header(head: bytes, at: int) -> tuple[int, int, bool]:
    """Length of the header, window in bytes, whether a checksum follows the blocks."""
    if len(head) < 6:
        raise ContentDamaged("the file ends in the middle of a zstd frame header", at + len(head))
    descriptor = head[4]
    if descriptor & 0x08:
        raise ContentDamaged("the zstd frame header sets a reserved bit", at + 4)
    is_single, size_code = bool(descriptor & 0x20), descriptor >> 6
    position, window_bytes = 5, 0
    if not is_single:
        exponent, mantissa = head[5] >> 3, head[5] & 7
        window_bytes = (1 << (10 + exponent)) // 8 * (8 + mantissa)
        position = 6
    position += _DICTIONARY_ID_BYTES[descriptor & 3]
    size_bytes = (1 if is_single else 0, 2, 4, 8)[size_code]
    if is_single:
        content = int.from_bytes(head[position : position + size_bytes], "little")
        window_bytes = content + 256 if size_code == 1 else content
    return position + size_bytes, window_bytes, bool(descriptor & 0x04)


def _blocks_end(file: int, at: int, size_bytes: int) -> int:
    while True:
        head = os.pread(file, 3, at)
        if len(head) < 3:
            raise ContentDamaged("the file ends in the middle of a zstd frame", size_bytes)
        value = int.from_bytes(head, "little")
        kind = value >> 1 & 3
        if kind == 3:
            raise ContentDamaged("a zstd block is of a kind that does not exist", at)
        at += 3 + (1 if kind == 1 else value >> 3)
        if at > size_bytes:
            raise ContentDamaged("the file ends in the middle of a zstd block", size_bytes)
        if value & 1:
            return at


class _Slice:
    """A frame's bytes as a file for the decompressor, which calls `read` and nothing else."""

    def __init__(self, file: int, frame: Frame) -> None:
        self._file, self._at, self._end = file, frame.offset, frame.end

    def read(self, limit_bytes: int = -1) -> bytes:
        count = self._end - self._at
        data = os.pread(self._file, count if limit_bytes < 0 else min(count, limit_bytes), self._at)
        self._at += len(data)
        return data


class ZstdStream:
    """The content of every frame of an open file."""

    def __init__(self, file: int, *, window_limit_bytes: int) -> None:
        self._file, self._limit = file, window_limit_bytes
        self._size = os.fstat(file).st_size
        self._frames = walk_frames(file, self._size)
        self._reader: zstandard.ZstdDecompressionReader | None = None
        self._frame: Frame | None = None
        self._end = 0
        self._counts = [0, 0]

    def read(self, limit_bytes: int) -> bytes:
        """See ByteStream."""
        while self._reader is not None or self._next_frame():
            if self._reader is None:
                continue
            frame = self._frame
            try:
                data = self._reader.read(min(limit_bytes, READ_BYTES))
            except zstandard.ZstdError as error:
                at = frame.offset if frame else 0
                raise ContentDamaged(f"the zstd frame that begins there does not decompress ({error})", at) from error
            if data:
                return data
            self._reader.close()  # type: ignore[no-untyped-call]  # the library has no annotation there
            self._reader = None
        return b""

    def _next_frame(self) -> bool:
        frame = next(self._frames, None)
        if frame is None:
            return False
        self._frame, self._end = frame, frame.end
        self._counts[frame.is_skippable] += 1
        if frame.is_skippable:
            return True
        if frame.window_bytes > self._limit:
            raise WindowTooLarge(frame.window_bytes, self._limit, frame.offset)
        # The library's own check is of the same header; the walk above has compared it with the limit.
        decompressor = zstandard.ZstdDecompressor(max_window_size=max(self._limit, 1024))
        self._reader = decompressor.stream_reader(cast("IO[bytes]", _Slice(self._file, frame)), read_size=READ_BYTES)
        return True

    def notes(self) -> tuple[str, ...]:
        """See ByteStream."""
        told = []
        if self._counts[0] != 1 or self._counts[1]:
            skipped = f" and {self._counts[1]:,} that hold no content" if self._counts[1] else ""
            told.append(f"{self._counts[0]:,} zstd frames{skipped} were read.")
        if self._end < self._size:
            told.append(f"{self._size - self._end:,} bytes after the last zstd frame belong to no frame.")
        return tuple(told)
