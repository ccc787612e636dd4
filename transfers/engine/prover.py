"""The hashing worker of a link: proves chunks as they fill, finds the wrong blocks of a chunk, adopts what lies here.

One thread with a list of jobs. It alone uses the host's command connection while the link runs, for block digests and
to look at a source that gave a short read. Results go back to the runner's thread, which keeps the books.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from inventory.remote.base import CommandFailed, PermanentError, Remote, TransientError
from transfers.engine.active import ActiveBuild
from transfers.engine.adopt import block_asker
from transfers.engine.identity import source_identity
from transfers.engine.source import PieceFault, SourceChanged
from transfers.engine.types import BLOCK_BYTES, CheckLevel, Clock, Finding, Outcome


@dataclass(frozen=True, slots=True)
class Proof:
    """Outcome of one chunk. `wrong` are the cells to fetch again; `error` why it could not be settled."""

    build: ActiveBuild
    chunk: int
    finding: Finding | None
    wrong: tuple[int, ...] = ()
    error: Exception | None = None
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a look at a source showed after a short read: `error` is None when the file is as it was."""

    build: ActiveBuild
    fault: PieceFault
    error: Exception | None


class Prover:
    """Runs the jobs one after another until it is closed."""

    def __init__(self, remote: Remote, clock: Clock, on_result: Callable[[], None]) -> None:
        self.results: queue.SimpleQueue[Proof | Inspection] = queue.SimpleQueue()
        self._jobs: queue.SimpleQueue[Callable[[], Proof | Inspection] | None] = queue.SimpleQueue()
        self._remote, self._clock, self._on_result = remote, clock, on_result
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prover", daemon=True)
        self._thread.start()

    def prove(self, build: ActiveBuild, chunk: int, *, adopt: bool) -> None:
        """Compare a chunk with its digest at the source, which must be known. `adopt`: its cells are not marked yet."""
        self._jobs.put(lambda: self._prove(build, chunk, adopt=adopt))

    def inspect(self, build: ActiveBuild, fault: PieceFault) -> None:
        """Look at the source of a short read."""
        self._jobs.put(lambda: self._inspect(build, fault))

    def close(self, timeout_seconds: float) -> None:
        """End after the stretch being hashed; what was not settled is found again at the next start."""
        self._closed.set()
        self._jobs.put(None)
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closed.is_set():
            try:
                result = job()
            except _Closed:
                return
            self.results.put(result)
            self._on_result()

    def _prove(self, build: ActiveBuild, chunk: int, *, adopt: bool) -> Proof:
        started = self._clock.monotonic()
        offset, length = build.geometry.chunk_offsets[chunk], build.geometry.chunk_lengths[chunk]
        expected = build.digests[chunk]
        subject = str(chunk).encode()
        try:
            if adopt and not build.writer.may_hold_data(offset, length):
                return Proof(build, chunk, None, tuple(build.geometry.chunk_cells(chunk)), adopted=True)
            build.writer.sync()
            found = self._hash(build, offset, length)
        except OSError as error:
            seconds = self._clock.monotonic() - started
            why = (error.strerror or str(error)).lower()
            finding = Finding(
                CheckLevel.CHUNK, subject, offset, length, expected, None, Outcome.UNREADABLE, seconds, why
            )
            return Proof(build, chunk, finding, error=error, adopted=adopt)
        outcome = Outcome.MATCHED if found == expected else Outcome.DIFFERED
        seconds = self._clock.monotonic() - started
        finding = Finding(CheckLevel.CHUNK, subject, offset, length, expected, found, outcome, seconds)
        if outcome is Outcome.MATCHED:
            cells = build.geometry.chunk_cells(chunk)
            if adopt:
                build.cells.mark(cells.start, len(cells))
            build.cells.prove(chunk, found)
            return Proof(build, chunk, finding, adopted=adopt)
        try:
            wrong = self._wrong_cells(build, chunk)
        except (TransientError, PermanentError) as error:
            return Proof(build, chunk, finding, error=error, adopted=adopt)
        if adopt:
            for cell in set(build.geometry.chunk_cells(chunk)) - set(wrong):
                build.cells.mark(cell)
        elif not wrong:
            source = build.segments.pieces(offset, 1)[0].source
            changed = SourceChanged(source, f"has other bytes in chunk {chunk} than when its digest was taken")
            return Proof(build, chunk, finding, error=changed)
        return Proof(build, chunk, finding, wrong, adopted=adopt)

    def _hash(self, build: ActiveBuild, offset: int, length: int) -> bytes:
        digest = hashlib.sha256()
        for data in build.writer.stretches(offset, length):
            if self._closed.is_set():
                raise _Closed
            digest.update(data)
        return digest.digest()

    def _wrong_cells(self, build: ActiveBuild, chunk: int) -> tuple[int, ...]:
        """Cells of the blocks whose digests differ from the source's. Raises RemoteError."""
        count = build.geometry.block_count(chunk)
        digests = block_asker(self._remote, build.spec)(chunk, range(count))
        if len(digests) != count:
            raise CommandFailed(f"take block digests of {build.key}", 0, f"{len(digests)} of {count} digests came")
        offset, length = build.geometry.chunk_offsets[chunk], build.geometry.chunk_lengths[chunk]
        wrong: list[int] = []
        for block in range(count):
            start = offset + block * BLOCK_BYTES
            found = self._hash(build, start, min(BLOCK_BYTES, offset + length - start))
            if found != digests[block]:
                wrong.extend(build.geometry.block_cells(chunk, block))
        return tuple(wrong)

    def _inspect(self, build: ActiveBuild, fault: PieceFault) -> Inspection:
        path = fault.piece.source
        expected = max(
            (s.source_offset + s.length for s in build.spec.segments if s.source == path),
            default=fault.piece.source_offset + fault.piece.length,
        )
        try:
            found = source_identity(self._remote, path)
        except TransientError:
            return Inspection(build, fault, None)
        except PermanentError as error:
            return Inspection(build, fault, SourceChanged(path, f"cannot be looked at any more ({error})"))
        if found.size_bytes < expected:
            what = f"is {found.size_bytes:,} bytes long now; at least {expected:,} were expected"
            return Inspection(build, fault, SourceChanged(path, what))
        return Inspection(build, fault, None)


class _Closed(Exception):
    """The link ends; the job at hand is left."""
