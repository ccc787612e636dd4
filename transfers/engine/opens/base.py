"""What reading a landed build's content may come to, and how content can fail.

    ContentError                a sentence for the person who must act; the bytes are kept
    ├── ContentDamaged          the content breaks its own format: where, and in which member
    ├── WindowTooLarge          whole, but needs more memory than this reader may take
    └── ContentRefused          a header that asks for more than any honest one

`Stopped` (from `transfers.engine.verify`) ends a read whose lease or worker is gone; nothing is concluded then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from inventory.remote.names import escape
from transfers.engine.types import MEBIBYTE, Finding, Outcome

READ_BYTES = MEBIBYTE
WINDOW_LIMIT_BYTES = 512 * MEBIBYTE  # what one zstd frame may ask for unless a person says more
WINDOW_CAP_BYTES = 2048 * MEBIBYTE  # what a person may say at most: zstd's own limit (--long=31)


class ContentError(Exception):
    """The content could not be read to its end. `str()` is the sentence to show."""

    offset: int = 0
    member: bytes = b""


@dataclass(eq=False)
class ContentDamaged(ContentError):
    """`offset` counts within the layer that `where` names ("file", "tar stream")."""

    reason: str
    offset: int
    where: str = "file"
    member: bytes = b""

    def __str__(self) -> str:
        near = f", in or after member “{escape(self.member)}”" if self.member else ""
        return (
            f"The content is damaged at byte {self.offset:,} of the {self.where}{near}: {self.reason}. The bytes are "
            "kept as they arrived. If they match the source's digest the source itself is damaged: look at it there, "
            "and build the pack anew."
        )


@dataclass(eq=False)
class WindowTooLarge(ContentError):
    window_bytes: int
    limit_bytes: int
    offset: int

    def __str__(self) -> str:
        need = -(-self.window_bytes // MEBIBYTE)
        if self.window_bytes > WINDOW_CAP_BYTES:
            advice = f"More than {WINDOW_CAP_BYTES // MEBIBYTE:,} MiB is never taken; have it compressed again."
        else:
            advice = f"It is not damaged: on a machine with that much memory free, open it with --window-mib {need}."
        return (
            f"The zstd frame at byte {self.offset:,} was made with a window of {need:,} MiB, and reading it needs that "
            f"much memory; the limit here is {self.limit_bytes // MEBIBYTE:,} MiB. The bytes are kept. {advice}"
        )


@dataclass(eq=False)
class ContentRefused(ContentError):
    reason: str
    offset: int
    member: bytes = b""

    def __str__(self) -> str:
        near = f" (member “{escape(self.member)}”)" if self.member else ""
        return (
            f"The archive was not read further than byte {self.offset:,} of its tar stream{near}: {self.reason}. No "
            "honest archive does that. The bytes are kept; look at it by hand, with care."
        )


class ByteStream(Protocol):
    """Uncompressed bytes, front to end, in flat memory."""

    def read(self, limit_bytes: int) -> bytes:
        """Between 1 and `limit_bytes` bytes; nothing at the end. Raises ContentError, OSError."""

    def notes(self) -> tuple[str, ...]:
        """What is worth telling about the outer layer once the end was reached."""


@dataclass(frozen=True, slots=True)
class FoundMember:
    """One member as it was found. `hard_link_to` names the earlier member whose content a hard link shares."""

    name: bytes
    kind: str  # "file", "folder", "link", "device", "pipe", "other"
    size_bytes: int
    stored_bytes: int
    mtime_ns: int
    mode: int
    offset: int
    link_target: bytes = b""
    hard_link_to: bytes | None = None
    sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """What opening a build found. Members that matched are counted, not listed, in `findings`."""

    content: str  # "zstd tar", "gzip tar", "tar", "zstd stream", "files", "unknown content", …
    members: tuple[FoundMember, ...]
    matched: int
    findings: tuple[Finding, ...]
    read_bytes: int  # of the content, uncompressed
    notes: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """True when every member was accounted for."""
        return all(finding.outcome in (Outcome.MATCHED, Outcome.RECORDED) for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Watch:
    """How a long read is stopped and how it tells its progress (bytes of content)."""

    stop: Callable[[], bool] = field(default=lambda: False)
    progress: Callable[[int], None] = field(default=lambda done_bytes: None)
