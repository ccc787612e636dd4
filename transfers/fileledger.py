"""The engine's books for one build without a database: a file of lines beside the incoming data.

    NAME.source     one JSON object a line, appended, each line synced before anything relies on it:

    {"is": "source", "version": 1, "path": HEX, "size_bytes": N, "modified": TEXT, "changed": TEXT, "device": N,
     "inode": N}                                        first line: what is being fetched, as it was seen on the host
    {"is": "digest", "chunk": N, "sha256": HEX}         a digest taken at the source
    {"is": "whole", "sha256": HEX}                      likewise, of the whole file
    {"is": "proof", "chunk": N, "sha256": HEX}          the chunk was synced to the disk and matched

A line that was cut off by a kill is dropped with all that follows it; what it said is found out again. The file is
locked while a process works with it. A source that is not the remembered one voids every digest and proof, and keeps
every byte: chunks are compared with new digests, and only blocks that differ are fetched again.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol

from inventory.remote.base import TransientError
from inventory.remote.names import RemoteName
from transfers.engine.cellmap import LedgerBusy
from transfers.engine.geometry import final_name, ledger_path
from transfers.engine.identity import SourceIdentity
from transfers.engine.landing import landing_error
from transfers.engine.types import BuildSpec, Directions, Finding, Outcome, Sample

SOURCE_SUFFIX: Final = b".source"
_VERSION: Final = 1
_LIMIT_BYTES: Final = 256 * 2**20


def source_path(spec: BuildSpec) -> Path:
    """The file of lines of a build."""
    return spec.folder / os.fsdecode(final_name(spec) + SOURCE_SUFFIX)


class Chooser(Protocol):
    """Says how many lanes to use now, and learns from what they bring."""

    @property
    def lanes(self) -> int: ...

    def observe(self, sample: Sample, left_bytes: int) -> None: ...


class FileLedger:
    """`Ledger` for one build. `chooser` and `stop` are asked at each direction; `notice` is told sentences.

    `add_digest`, `add_whole` and `fail` may be called from any thread.
    """

    def __init__(
        self,
        spec: BuildSpec,
        path: RemoteName,
        identity: SourceIdentity,
        *,
        chooser: Chooser,
        stop: Callable[[], bool],
        notice: Callable[[str], None],
    ) -> None:
        """Open or make the file. Raises LedgerBusy, LandingError.

        Afterwards `difference` says how the source differs from the remembered one ("" when it does not, or none is
        remembered), and `is_continued` whether the same source was being fetched before.
        """
        self._spec, self._chooser, self._stop, self._notice = spec, chooser, stop, notice
        self._path = source_path(spec)
        self._lock = threading.Lock()
        self._digests: dict[int, bytes] = {}
        self._proofs: dict[int, bytes] = {}
        self.whole: bytes | None = None
        self.failure: Exception | None = None
        self.sample: Sample | None = None
        self.here_bytes = 0
        self.difference = ""
        self.is_continued = False
        self._file = self._open()
        try:
            self._begin(path, identity)
        except OSError as error:
            self.close()
            raise landing_error(error, spec.folder, 0) from error

    # -- the file ----------------------------------------------------------------------------------------------

    def _open(self) -> int:
        """The locked file. Another process may remove it between opening and locking: then it is opened again."""
        while True:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except OSError as error:
                raise landing_error(error, self._spec.folder, 0) from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                raise LedgerBusy(self._path) from None
            try:
                if self._path.lstat().st_ino == os.fstat(file).st_ino:
                    return file
            except FileNotFoundError:
                pass
            os.close(file)

    def _begin(self, path: RemoteName, identity: SourceIdentity) -> None:
        lines, length = self._lines()
        header = {"is": "source", "version": _VERSION, "path": path.raw.hex(), **asdict(identity)}
        if lines and lines[0] == header:
            os.ftruncate(self._file, length)
            self.is_continued = True
            for line in lines[1:]:
                self._recall(line)
            return
        if lines:
            self.difference = _difference(lines[0], path, identity)
        os.ftruncate(self._file, 0)
        self._append(header)

    def _lines(self) -> tuple[list[dict[str, Any]], int]:
        """The readable lines from the beginning, and where they end."""
        content = b""
        while len(content) < _LIMIT_BYTES and (more := os.pread(self._file, 2**20, len(content))):
            content += more
        lines: list[dict[str, Any]] = []
        length = 0
        for raw in content.splitlines(keepends=True):
            try:
                line = json.loads(raw)
            except ValueError:
                break
            if not isinstance(line, dict) or not raw.endswith(b"\n"):
                break
            lines.append(line)
            length += len(raw)
        return lines, length

    def _recall(self, line: dict[str, Any]) -> None:
        kind, chunk = line.get("is"), line.get("chunk")
        try:
            digest = bytes.fromhex(line.get("sha256", ""))
        except (TypeError, ValueError):
            return
        if len(digest) != 32:
            return
        if kind == "whole":
            self.whole = digest
        elif isinstance(chunk, int) and 0 <= chunk < len(self._spec.chunks):
            known = {"digest": self._digests, "proof": self._proofs}.get(str(kind))
            if known is not None:
                known[chunk] = digest

    def _append(self, line: dict[str, Any]) -> None:
        content = json.dumps(line).encode() + b"\n"
        end = os.lseek(self._file, 0, os.SEEK_END)
        if os.pwrite(self._file, content, end) != len(content):
            os.ftruncate(self._file, end)
            raise OSError(28, "No space left on device")
        os.fdatasync(self._file)

    def _note(self, line: dict[str, Any]) -> None:
        """Append a line. A full disk is no reason to stop: what was not noted is found out again at the next start."""
        try:
            if self._file >= 0:
                self._append(line)
        except OSError as error:
            self._notice(str(landing_error(error, self._spec.folder, 0)))

    def remove(self) -> None:
        """Remove this file and the cell map, when the build has its final name. Raises OSError."""
        ledger_path(self._spec).unlink(missing_ok=True)
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and let go of its lock. Safe to call twice."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    # -- what is found out at the source -----------------------------------------------------------------------

    def add_digest(self, chunk: int, sha256: bytes) -> None:
        """A digest taken at the source became known."""
        with self._lock:
            if self._digests.get(chunk) == sha256:
                return
            self._digests[chunk] = sha256
            self._note({"is": "digest", "chunk": chunk, "sha256": sha256.hex()})

    def add_whole(self, sha256: bytes) -> None:
        """The digest of the whole, taken at the source, became known."""
        with self._lock:
            self.whole = sha256
            self._note({"is": "whole", "sha256": sha256.hex()})

    def forget_digests(self) -> None:
        """The digests taken so far are of a source that changed meanwhile; they and the proofs are void."""
        with self._lock:
            header = self._lines()[0][:1]
            self._digests.clear()
            self._proofs.clear()
            self.whole = None
            os.ftruncate(self._file, 0)
            for line in header:
                self._note(line)

    def forget_proof(self, chunk: int) -> None:
        """The chunk was read back from the disk and is not what was proven."""
        with self._lock:
            self._proofs.pop(chunk, None)
            self._note({"is": "proof", "chunk": chunk, "sha256": bytes(32).hex()})

    def has_all_digests(self) -> bool:
        """True when each chunk's digest at the source is known."""
        with self._lock:
            return len(self._digests) == len(self._spec.chunks)

    def fail(self, error: Exception) -> None:
        """End the link at the next direction; whoever ran it raises `failure`."""
        with self._lock:
            self.failure = self.failure or error

    # -- Ledger ------------------------------------------------------------------------------------------------

    def directions(self) -> Directions:
        """See `Ledger`."""
        return Directions(
            builds=(self._spec,), lanes=self._chooser.lanes, stop=self._stop() or self.failure is not None
        )

    def proven_chunks(self, key: str) -> frozenset[int]:
        """See `Ledger`. A proof counts only while the source's digest is the same."""
        with self._lock:
            return frozenset(chunk for chunk, found in self._proofs.items() if self._digests.get(chunk) == found)

    def chunk_digests(self, key: str) -> Mapping[int, bytes]:
        """See `Ledger`."""
        with self._lock:
            return dict(self._digests)

    def record_chunk(self, key: str, finding: Finding) -> None:
        """See `Ledger`."""
        chunk = int(finding.subject)
        if finding.outcome is Outcome.MATCHED and finding.found is not None:
            with self._lock:
                self._proofs[chunk] = finding.found
                self._note({"is": "proof", "chunk": chunk, "sha256": finding.found.hex()})
        elif finding.outcome is Outcome.DIFFERED:
            self._notice(
                f"Bytes {finding.offset:,} to {finding.offset + finding.length:,} do not match the source's digest; "
                "only the blocks that differ are fetched again."
            )

    def record_received(self, key: str) -> None:
        """See `Ledger`. The runner ends by itself: there is one build only."""

    def record_sample(self, sample: Sample, received_bytes: Mapping[str, int]) -> None:
        """See `Ledger`."""
        self.sample = sample
        self.here_bytes = received_bytes.get(self._spec.key, self.here_bytes)
        self._chooser.observe(sample, self._spec.size_bytes - self.here_bytes)

    def record_problem(self, key: str | None, error: Exception, *, will_retry: bool) -> None:
        """See `Ledger`. What trying again cannot mend ends the link; the rest is told, and the runner goes on."""
        if isinstance(error, LedgerBusy) or not will_retry:
            self.fail(error)
        else:
            self._notice(str(error) if isinstance(error, TransientError) else f"{error}")


def _difference(before: dict[str, Any], path: RemoteName, now: SourceIdentity) -> str:
    """How the source differs from the remembered one, as the end of a sentence about the file."""
    if before.get("path") != path.raw.hex():
        return "is another path than the one that was being fetched here before"
    try:
        was = SourceIdentity(
            size_bytes=int(before["size_bytes"]),
            modified=str(before["modified"]),
            changed=str(before["changed"]),
            device=int(before["device"]),
            inode=int(before["inode"]),
        )
    except (KeyError, TypeError, ValueError):
        return "cannot be compared with what was being fetched here before"
    return was.difference(now) or "cannot be compared with what was being fetched here before"
