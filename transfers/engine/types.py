"""The words of the engine: what is to be brought home, where it goes, and what is told to whoever keeps the books.

Plain Python. Sizes are bytes, times seconds; digests are raw 32-byte SHA-256 values unless a name says hex.

A *build* is one byte string, `size_bytes` long, whatever its mode: for an archive or image that string is one remote
file; for *parts* it is the part files one after another; for *files* it is the files of the list one after another.
`Segment`s say where each stretch of it lies on the host and in the landing, so lanes, ledger and verification know
one kind of thing only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from inventory.remote.names import RemoteName

MEBIBYTE = 2**20
CHUNK_BYTES = 64 * MEBIBYTE  # unit of verification
BLOCK_BYTES = MEBIBYTE  # unit of repair: a wrong chunk fetches only the blocks whose digests differ
CELL_BYTES = 16 * 1024  # unit of the ledger and of dd: what a kill -9 can cost a lane at most


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the build that lies in one remote file and in one landing file.

    `offset` counts within the build, `source_offset` within the remote file, `landing_offset` within the landing
    file; `landing_name` is relative to the build's incoming folder (one file for all modes but *files*).
    """

    offset: int
    length: int
    source: RemoteName
    source_offset: int
    landing_name: bytes
    landing_offset: int


@dataclass(frozen=True, slots=True)
class ChunkSpec:
    """One chunk: where it lies in the build, and its digest at the source once that is known."""

    index: int
    offset: int
    length: int
    sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """Everything a link must know to fetch one build."""

    key: str  # stable name of the build, for ledger and log
    size_bytes: int
    segments: tuple[Segment, ...]  # in order, without gap or overlap, covering the build exactly
    chunks: tuple[ChunkSpec, ...]  # likewise
    folder: Path  # the build's landing folder; incoming files and the cell map live here
    incoming_name: str  # single file: "<name>.incoming"; files mode: a folder "files.incoming"
    single_file: bool = True


@dataclass(frozen=True, slots=True)
class Directions:
    """What the link should do now, asked for at least once a second; the owner of the link decides.

    `builds` in execution order: whatever is not in it (paused, on hold, removed) gets no new range, and what lanes
    still stream of it is cut within three seconds; received cells are kept.
    """

    builds: tuple[BuildSpec, ...]
    lanes: int
    stop: bool = False
    more_expected: bool = False  # keep the lanes connected though nothing is to be fetched at this moment
    bytes_per_second: float | None = None  # a bandwidth limit, above zero; None: none


class CheckLevel(StrEnum):
    CHUNK = "chunk"
    BLOCK = "block"
    BUILD = "build"
    MEMBER = "member"
    SAMPLE = "sample"
    RECHECK = "re-check"
    CONTENT = "content"


class Outcome(StrEnum):
    MATCHED = "matched"
    DIFFERED = "differed"
    UNREADABLE = "could not read"
    MISSING = "missing"
    UNEXPECTED = "not expected"
    RECORDED = "recorded here"  # no digest at the source exists; this one is the first


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison of a digest expected with a digest found. `subject` is a chunk number, a member's name, …"""

    level: CheckLevel
    subject: bytes
    offset: int
    length: int
    expected: bytes | None
    found: bytes | None
    outcome: Outcome
    seconds: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class LaneReading:
    """One lane at one moment, for pages and for steering."""

    number: int
    state: str  # "dialling", "working", "waiting", "redialling", "closed"
    build_key: str
    rate_bytes_per_second: float
    silent_seconds: float
    redials: int
    brought_bytes: int = 0  # since the lane began, doubled and lost ones included
    round_trip_seconds: float = 0.0  # as the first answer of its present connection showed it; 0 before that


@dataclass(frozen=True, slots=True)
class Sample:
    """What the link did since the last sample (about once a second)."""

    seconds: float
    new_bytes: int  # distinct bytes made durable in this interval
    wire_bytes: int  # all bytes received, doubled ones included
    lanes: tuple[LaneReading, ...]
    refusals: int
    redials: int


class Clock(Protocol):
    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class LeaseLost(Exception):
    """Another owner has taken this link or build over: end at once and write nothing more."""

    def __str__(self) -> str:
        return "This worker's lease was taken over by another one; it stops, and nothing it proved is lost."


class Ledger(Protocol):
    """The books of a link. Any call may raise LeaseLost. Calls come from the runner's own thread only."""

    def directions(self) -> Directions:
        """What to do now. Cheap; called about twice a second."""

    def proven_chunks(self, key: str) -> frozenset[int]:
        """Chunks of the build that were proven before; they are neither fetched nor hashed again."""

    def chunk_digests(self, key: str) -> Mapping[int, bytes]:
        """Digests at the source as far as they are known by now; asked again while some are missing."""

    def record_chunk(self, key: str, finding: Finding) -> None:
        """A chunk was compared. On MATCHED its bytes are already synced to the disk."""

    def record_received(self, key: str) -> None:
        """Every chunk of the build is proven."""

    def record_sample(self, sample: Sample, received_bytes: Mapping[str, int]) -> None:
        """Progress of the link and of each build (bytes here, proven or not)."""

    def record_problem(self, key: str | None, error: Exception, *, will_retry: bool) -> None:
        """Something went wrong with a build (or with the link when key is None)."""


@dataclass(frozen=True, slots=True)
class LinkSummary:
    """What a run of a link came to."""

    seconds: float
    new_bytes: int
    refetched_bytes: int
    reconnects: int
    refusals: int
    lanes: int
    received: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Member:
    """One path of a build's explicit list. `name` is root-relative (no leading slash), kept exactly."""

    name: bytes
    kind: str  # "file", "folder", "link"
    size_bytes: int
    mtime_ns: int
    mode: int
    link_target: bytes = b""
    sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class Deviation:
    """A member that is not what the list said: `what` is "changed", "vanished", "unreadable", "not packed", "extra"."""

    name: bytes
    what: str
    detail: str


def total_bytes(segments: Sequence[Segment]) -> int:
    """Bytes of a run of segments."""
    return sum(segment.length for segment in segments)
