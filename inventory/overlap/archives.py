"""Look inside archives that lie here, and read findings that were made on a host."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

from inventory.overlap.inside import (
    JSON_BYTES_AT_MOST,
    WINDOW_BYTES_AT_MOST,
    Readable,
    Record,
    Stop,
    look_file,
)
from inventory.remote.files import parse_stat

_LINE_BYTES_AT_MOST = 256
_SUFFIXES = (b".tar", b".tar.gz", b".tgz", b".tar.zst", b".tzst", b".tar.zstd")
_KINDS = frozenset("fdlhopjxe")


@dataclass(eq=False)
class FindingsDamaged(Exception):
    """What came back from a look is not what a look writes."""

    reason: str

    def __str__(self) -> str:
        return f"The findings of the look inside cannot be read: {self.reason}. Nothing of them was kept. Look again."


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells that a file is still the one that was looked into; times in nanoseconds."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int


def is_archive_name(base: bytes) -> bool:
    """True when a file of this name (its last part) is taken for an archive that can be looked into."""
    return base.lower().endswith(_SUFFIXES)


def look_here(path: Path) -> Iterator[Record]:
    """Look inside a file, or a folder that is an OCI layout, on this machine. The last record is the end."""
    return look_file(os.fsencode(path), _Unpacked)


class _Unpacked:
    """The content of every frame of a zstd stream."""

    def __init__(self, stream: Readable) -> None:
        unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_AT_MOST)
        self._fault: Exception | None = None
        self._reader = unpacker.stream_reader(_Source(stream), read_across_frames=True, closefd=False)  # type: ignore[arg-type]

    def read(self, count: int) -> bytes:
        try:
            return bytes(self._reader.read(count))
        except zstandard.ZstdError as error:
            raise Stop("window" if "memory" in str(error) else "damaged") from error


@dataclass
class _Source:
    """A stream as the decompressor asks for it."""

    stream: Readable

    def read(self, count: int = -1) -> bytes:
        return self.stream.read(2**17 if count < 0 else count)


def identity_of(end: Record) -> Identity | None:
    """The identity that the end of a look names; None when nothing could be opened. Raises CommandFailed."""
    if b"|" in end.target:  # as the host's stat printed it
        found = parse_stat(end.target, "look inside an archive")
        return Identity(found.device, found.inode, found.size_bytes, found.mtime_ns, found.ctime_ns)
    numbers = end.target.split()
    return Identity(*(int(one) for one in numbers)) if len(numbers) == 5 else None


def read_records(pieces: Iterable[bytes]) -> Iterator[Record]:
    """Records from the bytes that `inside.encode` made. Raises FindingsDamaged."""
    held = b""
    source = iter(pieces)

    def more() -> bool:
        nonlocal held
        piece = next(source, b"")
        held += piece
        return bool(piece)

    while held or more():
        while b"\n" not in held[:_LINE_BYTES_AT_MOST]:
            if len(held) >= _LINE_BYTES_AT_MOST or not more():
                raise FindingsDamaged("a line of figures is cut off")
        line, _, held = held.partition(b"\n")
        kind, size, sha256, lengths = _figures(line)
        wanted = sum(lengths)
        if wanted < len(held):
            content, held = held[:wanted], held[wanted:]
        else:
            parts, count = [held], len(held)
            while count < wanted:
                piece = next(source, b"")
                if not piece:
                    raise FindingsDamaged("a name is cut off")
                parts.append(piece)
                count += len(piece)
            whole = b"".join(parts)
            content, held = whole[:wanted], whole[wanted:]
        yield Record(kind, content[: lengths[0]], size, sha256, content[lengths[0] :])


def _figures(line: bytes) -> tuple[str, int, str, tuple[int, int]]:
    words = line.decode("ascii", "replace").split(" ")
    try:
        kind, size, sha256, name_bytes, target_bytes = words
        figures = int(size), (int(name_bytes), int(target_bytes))
        if sha256 != "-":
            bytes.fromhex(sha256)
    except ValueError as error:
        raise FindingsDamaged(f"a line reads {line[:80]!r}") from error
    sha256 = "" if sha256 == "-" else sha256
    if kind not in _KINDS or min(figures[0], *figures[1]) < 0 or sum(figures[1]) > JSON_BYTES_AT_MOST + 2**16:
        raise FindingsDamaged(f"a line reads {line[:80]!r}")
    if kind == "f" and len(sha256) != 64:
        raise FindingsDamaged(f"a file has no digest: {line[:80]!r}")
    return kind, figures[0], sha256, figures[1]
