"""Bytes that are on this machine already: where they may lie in a build, and which of them are the source's.

An *offer* says which stretches of a build some local files could hold: one file from its beginning (a partial file of
any tool, with or without holes), a set of parts placed by number and size, files by their names, or an earlier build.
Digests decide: a chunk whose SHA-256 is the source's is taken whole; of any other, the source is asked for the digests
of the blocks (1 MiB) that lie here, and those that match are taken. What tools wrote beside their partial files
(`.aria2`, `.lftp-pget-status`) is not read: it says what should be here, not what is.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inventory.remote.base import CommandFailed, Remote
from transfers.engine.geometry import Geometry, SegmentMap, final_name, spans
from transfers.engine.landing import shown
from transfers.engine.source import block_digests_script, parse_digests
from transfers.engine.types import BLOCK_BYTES, BuildSpec
from transfers.engine.verify import Stopped

BLOCK_DIGEST_SECONDS = 600.0
OPEN_FILES_AT_MOST = 32

Ask = Callable[[int, Sequence[int]], Mapping[int, bytes]]  # chunk, its blocks -> the source's digests of these


@dataclass(eq=False)
class AdoptionRefused(Exception):
    """What was offered cannot be used. `str()` is the sentence to show."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"“{shown(self.path)}” cannot be taken over: {self.reason}. Nothing there was changed."


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of a local file that may be those of the build from `offset` on."""

    offset: int
    length: int
    path: Path
    path_offset: int


@dataclass(frozen=True, slots=True)
class Offer:
    """What may be used: stretches in order, none over another."""

    stretches: tuple[Stretch, ...]
    remarks: tuple[str, ...] = ()

    @property
    def offered_bytes(self) -> int:
        """Bytes that may be the build's."""
        return sum(one.length for one in self.stretches)

    def whole_file(self) -> Path | None:
        """The one file that lies as the build does, from its first byte on: only such a one can be taken (renamed)."""
        if len(self.stretches) == 1 and self.stretches[0].offset == self.stretches[0].path_offset == 0:
            return self.stretches[0].path
        return None

    def identity(self) -> list[list[int]]:
        """What the files are now: a later look that finds others must compare again. Raises OSError."""
        paths = sorted({one.path for one in self.stretches})
        return [[found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns] for found in map(os.stat, paths)]


class BlockSet:
    """Which blocks of a build: a bit for each, chunk after chunk. Not thread-safe."""

    def __init__(self, geometry: Geometry, content: bytes = b"") -> None:
        """`content` is what `to_bytes` gave; other lengths count as empty."""
        self.geometry = geometry
        self._first: list[int] = []
        count = 0
        for chunk in range(geometry.chunk_count):
            self._first.append(count)
            count += geometry.block_count(chunk)
        size = -(-count // 8)
        self._bits = bytearray(content) if len(content) == size else bytearray(size)

    def add(self, chunk: int, block: int) -> None:
        """Put a block in."""
        at = self._first[chunk] + block
        self._bits[at >> 3] |= 1 << (at & 7)

    def has(self, chunk: int, block: int) -> bool:
        """True when the block is in."""
        at = self._first[chunk] + block
        return bool(self._bits[at >> 3] >> (at & 7) & 1)

    def blocks(self, chunk: int) -> list[int]:
        """The blocks of a chunk that are in."""
        return [block for block in range(self.geometry.block_count(chunk)) if self.has(chunk, block)]

    def span(self, chunk: int, block: int) -> tuple[int, int]:
        """Offset in the build, and length, of a block."""
        start = block * BLOCK_BYTES
        length = min(BLOCK_BYTES, self.geometry.chunk_lengths[chunk] - start)
        return self.geometry.chunk_offsets[chunk] + start, length

    @property
    def total_bytes(self) -> int:
        """Bytes of all blocks that are in."""
        chunks = range(self.geometry.chunk_count)
        return sum(self.span(chunk, block)[1] for chunk in chunks for block in self.blocks(chunk))

    def to_bytes(self) -> bytes:
        """For keeping."""
        return bytes(self._bits)


class LocalBytes:
    """Reads an offer by offsets of the build. Never writes. Use it as a context."""

    def __init__(self, offer: Offer) -> None:
        self._stretches = offer.stretches
        self._offsets = [one.offset for one in offer.stretches]
        self._files: OrderedDict[Path, int] = OrderedDict()

    def __enter__(self) -> LocalBytes:
        return self

    def __exit__(self, *_: object) -> None:
        while self._files:
            os.close(self._files.popitem()[1])

    def pieces(self, offset: int, length: int) -> list[tuple[int, int, int]]:
        """Where the stretch lies: (open file, offset in it, length), in order; empty unless all of it is offered.

        Raises OSError.
        """
        found: list[tuple[int, int, int]] = []
        at, end = bisect_right(self._offsets, offset) - 1, offset + length
        while offset < end:
            if not 0 <= at < len(self._stretches) or not self._covers(at, offset):
                return []
            one = self._stretches[at]
            count = min(end, one.offset + one.length) - offset
            found.append((self._open(one.path), one.path_offset + offset - one.offset, count))
            offset, at = offset + count, at + 1
        return found

    def _covers(self, at: int, offset: int) -> bool:
        one = self._stretches[at]
        return one.offset <= offset < one.offset + one.length

    def touches(self, offset: int, length: int) -> bool:
        """True when any of the stretch is offered."""
        at = bisect_right(self._offsets, offset) - 1
        if at >= 0 and self._covers(at, offset):
            return True
        return at + 1 < len(self._offsets) and self._offsets[at + 1] < offset + length

    def read(self, offset: int, length: int) -> bytes | None:
        """The bytes; None unless all are offered, are there, and some of them are no hole. Raises OSError."""
        pieces = self.pieces(offset, length)
        if not pieces or all(_is_hole(*piece) for piece in pieces):
            return None
        data = b"".join(os.pread(file, count, at) for file, at, count in pieces)
        return data if len(data) == length else None

    def _open(self, path: Path) -> int:
        if path in self._files:
            self._files.move_to_end(path)
            return self._files[path]
        while len(self._files) >= OPEN_FILES_AT_MOST:
            os.close(self._files.popitem(last=False)[1])
        # O_NONBLOCK: a pipe that took the file's place must not hold us.
        self._files[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(self._files[path]).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return self._files[path]


def _is_hole(file: int, offset: int, length: int) -> bool:
    try:
        return os.lseek(file, offset, os.SEEK_DATA) >= offset + length
    except OSError as error:
        return error.errno == errno.ENXIO  # no data from here to the end


def block_asker(remote: Remote, spec: BuildSpec) -> Ask:
    """Asks the host for digests of blocks, one command a chunk.

    The function raises RemoteError (CommandFailed also when the source could not be read in full).
    """
    segments, geometry = SegmentMap(spec.segments), Geometry(spec.chunks)

    def ask(chunk: int, blocks: Sequence[int]) -> dict[int, bytes]:
        step = f"take block digests of chunk {chunk} of {spec.key}"
        every = spans(geometry.chunk_offsets[chunk], geometry.chunk_lengths[chunk])
        script = block_digests_script([segments.pieces(*every[block]) for block in blocks])
        output = remote.check(script, step=step, timeout_seconds=BLOCK_DIGEST_SECONDS)
        try:
            lines = list(parse_digests(output.splitlines()))
        except ValueError as error:
            raise CommandFailed(step, 0, str(error)) from error
        return {
            blocks[line.index]: line.sha256 for line in lines if line.index is not None and line.index < len(blocks)
        }

    return ask


@dataclass(frozen=True, slots=True)
class Compared:
    """How far a comparison is: chunks looked at, and bytes read here and matched so far."""

    next_chunk: int
    read_bytes: int
    matched: BlockSet


def compare(
    spec: BuildSpec,
    offer: Offer,
    ask: Ask,
    *,
    begin: Compared | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Compared]:
    """Compare what is offered with the source, chunk by chunk; yields after each chunk, the last one being the result.

    `begin` goes on from an earlier yield. Raises OSError (the disk here), what `ask` raises, and Stopped.
    """
    geometry = Geometry(spec.chunks)
    now = begin or Compared(0, 0, BlockSet(geometry))
    expected = {chunk.index: chunk.sha256 for chunk in spec.chunks}
    with LocalBytes(offer) as local:
        for chunk in range(now.next_chunk, geometry.chunk_count):
            read = 0
            if local.touches(geometry.chunk_offsets[chunk], geometry.chunk_lengths[chunk]):
                read = _compare_chunk(chunk, expected[chunk], local, ask, now.matched, stop)
            now = Compared(chunk + 1, now.read_bytes + read, now.matched)
            yield now


def _compare_chunk(
    chunk: int, expected: bytes | None, local: LocalBytes, ask: Ask, matched: BlockSet, stop: Callable[[], bool]
) -> int:
    """Put the chunk's blocks that are the source's into `matched`; returns the bytes read here."""
    found: dict[int, bytes] = {}
    whole, worth_asking, read = hashlib.sha256(), False, 0
    count = matched.geometry.block_count(chunk)
    for block in range(count):
        if stop():
            raise Stopped
        data = local.read(*matched.span(chunk, block))
        if data is not None:
            read += len(data)
            found[block] = hashlib.sha256(data).digest()
            whole.update(data)
            worth_asking = worth_asking or data.count(0) < len(data)
    right: Sequence[int] = ()
    if len(found) == count and expected is not None and whole.digest() == expected:
        right = range(count)
    elif worth_asking:  # zeros are what a tool preallocated; they are not worth a question
        digests = ask(chunk, list(found))
        right = [block for block, digest in found.items() if digests.get(block) == digest]
    for block in right:
        matched.add(chunk, block)
    return read


def offer_of_build(former: BuildSpec, spec: BuildSpec, *, is_landed: bool) -> Offer:
    """What an earlier build of the same pack holds for this one: the same stretches of the same sources."""
    top = former.folder / (os.fsdecode(final_name(former)) if is_landed else former.incoming_name)

    def lies(name: bytes) -> Path:
        return top if former.single_file else Path(os.fsdecode(bytes(top) + b"/" + name))

    if former.single_file and spec.single_file and len(former.segments) == len(spec.segments) == 1:
        # An archive that was made anew lies elsewhere on the host, and may still begin with the same bytes.
        length = min(former.size_bytes, spec.size_bytes)
        return Offer((Stretch(0, length, top, 0),) if length else ())
    olds: dict[bytes, list[tuple[int, int, Path, int]]] = {}
    for old in former.segments:
        where = (old.source_offset, old.length, lies(old.landing_name), old.landing_offset)
        olds.setdefault(old.source.raw, []).append(where)
    stretches = []
    for segment in spec.segments:
        for source_offset, old_length, path, landing_offset in olds.get(segment.source.raw, ()):
            start = max(segment.source_offset, source_offset)
            length = min(segment.source_offset + segment.length, source_offset + old_length) - start
            if length > 0:
                offset = segment.offset + start - segment.source_offset
                stretches.append(Stretch(offset, length, path, landing_offset + start - source_offset))
    return Offer(tuple(stretches))
