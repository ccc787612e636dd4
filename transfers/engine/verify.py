"""Reading a landed build back from the disk and comparing it: from cheap to dear, everything found is reported.

The cache is dropped first (after a sync), so that what is compared is what the disk holds. One pass gives the digests
of chunks, of the whole and, in files mode, of each file. A stretch that cannot be read is its own outcome; it is never
told as a difference.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from transfers.engine.geometry import SegmentMap, final_name
from transfers.engine.types import MEBIBYTE, BuildSpec, CheckLevel, Clock, Finding, Outcome

READ_BYTES = MEBIBYTE


@dataclass(frozen=True, slots=True)
class Expected:
    """Digests at the source, as far as they are known: of the whole, of chunks, of files by landing name."""

    whole: bytes | None = None
    chunks: Mapping[int, bytes] = field(default_factory=dict)
    members: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What a whole-build read found. `sha256` is None when a part could not be read."""

    findings: tuple[Finding, ...]
    sha256: bytes | None

    @property
    def is_good(self) -> bool:
        """True when nothing differed, was missing or unreadable, and at least one digest of the source matched."""
        outcomes = {finding.outcome for finding in self.findings}
        return Outcome.MATCHED in outcomes and outcomes <= {Outcome.MATCHED, Outcome.RECORDED}


class Stopped(Exception):
    """The caller's stop flag ended the read; nothing was concluded."""


def read_back(
    spec: BuildSpec,
    expected: Expected,
    clock: Clock,
    *,
    landed: bool = False,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda done_bytes: None,
) -> ReadBack:
    """Sync, drop from cache and read the build (`landed`: under its final name), and compare every digest known.

    Raises Stopped.
    """
    return _Reader(spec, expected, clock, landed=landed, stop=stop, progress=progress).run()


class _Reader:
    def __init__(
        self,
        spec: BuildSpec,
        expected: Expected,
        clock: Clock,
        *,
        landed: bool,
        stop: Callable[[], bool],
        progress: Callable[[int], None],
    ) -> None:
        self._spec, self._expected, self._clock = spec, expected, clock
        self._stop, self._progress = stop, progress
        self._top = spec.folder / (os.fsdecode(final_name(spec)) if landed else spec.incoming_name)
        self._map = SegmentMap(spec.segments)
        self._findings: list[Finding] = []
        self._whole = hashlib.sha256()
        self._readable = True
        self._file = -1
        self._name: bytes | None = None
        self._member = hashlib.sha256()

    def run(self) -> ReadBack:
        started = self._clock.monotonic()
        self._check_sizes()
        # Two digests of each buffer are taken at once: hashing lets go of the interpreter's lock.
        with ThreadPoolExecutor(1) as helper:
            try:
                for chunk in self._spec.chunks:
                    self._chunk(chunk.index, chunk.offset, chunk.length, helper)
                self._end_member()
            finally:
                self._close()
        self._empty_members()
        sha256 = self._whole.digest() if self._readable else None
        if self._readable:
            self._compare(CheckLevel.BUILD, b"", 0, self._spec.size_bytes, self._expected.whole, sha256, started)
        return ReadBack(tuple(self._findings), sha256)

    def _check_sizes(self) -> None:
        sizes: dict[bytes, int] = {}
        for segment in self._spec.segments:
            name = b"" if self._spec.single_file else segment.landing_name
            sizes[name] = max(sizes.get(name, 0), segment.landing_offset + segment.length)
        for name, size in sizes.items():
            try:
                found = self._path(name).lstat().st_size
            except OSError as error:
                self._find(CheckLevel.BUILD, name, 0, size, Outcome.MISSING, message=_why(error))
                continue
            if found != size:
                message = f"{found:,} bytes long instead of {size:,}"
                self._find(CheckLevel.BUILD, name, 0, size, Outcome.DIFFERED, message=message)

    def _chunk(self, index: int, offset: int, length: int, helper: ThreadPoolExecutor) -> None:
        started = self._clock.monotonic()
        digest = hashlib.sha256()
        waiting: Future[None] | None = None
        try:
            for data in self._bytes(offset, length):
                if waiting is not None:
                    waiting.result()
                waiting = helper.submit(self._whole.update, data)
                digest.update(data)
        except OSError as error:
            self._readable = False
            subject = str(index).encode()
            self._find(CheckLevel.CHUNK, subject, offset, length, Outcome.UNREADABLE, message=_why(error))
            return
        finally:
            if waiting is not None:
                waiting.result()
        expected = self._expected.chunks.get(index)
        self._compare(CheckLevel.CHUNK, str(index).encode(), offset, length, expected, digest.digest(), started)
        self._progress(offset + length)

    def _bytes(self, offset: int, length: int) -> Iterator[bytes]:
        for piece in self._map.landing_pieces(offset, length):
            file = self._open(piece.landing_name)
            at, end = piece.landing_offset, piece.landing_offset + piece.length
            while at < end:
                if self._stop():
                    raise Stopped
                data = os.pread(file, min(READ_BYTES, end - at), at)
                if not data:
                    raise OSError(f"the file ends at byte {at:,}")
                if not self._spec.single_file:
                    self._member.update(data)
                at += len(data)
                yield data

    def _open(self, name: bytes) -> int:
        key = b"" if self._spec.single_file else name
        if key != self._name:
            self._end_member()
            self._close()
            self._file = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._name, self._member = key, hashlib.sha256()
            os.fsync(self._file)
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        return self._file

    def _end_member(self) -> None:
        if self._name and self._name in self._expected.members:
            expected = self._expected.members[self._name]
            size = os.fstat(self._file).st_size
            now = self._clock.monotonic()
            self._compare(CheckLevel.MEMBER, self._name, 0, size, expected, self._member.digest(), now)

    def _empty_members(self) -> None:
        for segment in self._spec.segments:
            expected = self._expected.members.get(segment.landing_name)
            if not segment.length and expected is not None and self._path(segment.landing_name).is_file():
                now, nothing = self._clock.monotonic(), hashlib.sha256().digest()
                self._compare(CheckLevel.MEMBER, segment.landing_name, 0, 0, expected, nothing, now)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file, self._name = -1, None

    def _path(self, name: bytes) -> Path:
        return self._top / os.fsdecode(name) if name else self._top

    def _compare(
        self,
        level: CheckLevel,
        subject: bytes,
        offset: int,
        length: int,
        expected: bytes | None,
        found: bytes | None,
        started: float,
    ) -> None:
        outcome = Outcome.RECORDED if expected is None else Outcome.MATCHED if expected == found else Outcome.DIFFERED
        seconds = self._clock.monotonic() - started
        self._findings.append(Finding(level, subject, offset, length, expected, found, outcome, seconds))

    def _find(
        self, level: CheckLevel, subject: bytes, offset: int, length: int, outcome: Outcome, *, message: str
    ) -> None:
        self._findings.append(Finding(level, subject, offset, length, None, None, outcome, 0.0, message))


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
