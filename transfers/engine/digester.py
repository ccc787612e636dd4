"""Taking a build's digests at the source while its lanes fetch: one pass, on a session of its own, in a thread.

A pass that a lost connection ends begins again; after three of them only the chunks still missing are asked for, and
the digest of the whole is left out: a link that never holds for a pass must not keep a fetch from its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from inventory.remote.base import CommandFailed, PermanentError, Remote, TransientError
from inventory.remote.names import RemoteName
from transfers.engine.geometry import SegmentMap
from transfers.engine.identity import SourceIdentity, source_identity
from transfers.engine.source import SourceChanged, digests_script, parse_digests
from transfers.engine.types import BuildSpec, Clock

WHOLE_PASSES_AT_MOST = 3
RETRY_SECONDS = 2.0
SILENCE_SECONDS = 600.0  # one chunk's digest takes no longer


class DigestKeeper(Protocol):
    """Where digests go. Called from the digester's thread."""

    def add_digest(self, chunk: int, sha256: bytes) -> None: ...

    def add_whole(self, sha256: bytes) -> None: ...

    def fail(self, error: Exception) -> None: ...


@dataclass(frozen=True, slots=True)
class DigestJob:
    """What to take digests of: a build that lies in one remote file, and what that file was when it was looked at."""

    spec: BuildSpec
    path: RemoteName
    identity: SourceIdentity
    known: frozenset[int]  # chunks whose digest is known already


class Digester(threading.Thread):
    """Takes the digests of every chunk and of the whole. `is_done` tells whether all came."""

    def __init__(
        self, remote: Remote, job: DigestJob, keeper: DigestKeeper, clock: Clock, *, no_data_seconds: float
    ) -> None:
        super().__init__(name="digester", daemon=True)
        self._remote, self._job, self._keeper, self._clock = remote, job, keeper, clock
        self._no_data_seconds = no_data_seconds
        self._stopping = threading.Event()
        self._known = set(job.known)
        self._pieces = [SegmentMap(job.spec.segments).pieces(chunk.offset, chunk.length) for chunk in job.spec.chunks]
        self.is_done = False

    def stop(self) -> None:
        """End after the line being waited for; closing the remote ends the wait itself."""
        self._stopping.set()

    def run(self) -> None:
        """Pass after pass until every digest is known, a stop, or an error that trying again cannot mend."""
        last_progress = self._clock.monotonic()
        passes = 0
        while not self._stopping.is_set():
            known_before = len(self._known)
            passes += 1
            try:
                self._pass(whole=passes <= WHOLE_PASSES_AT_MOST)
            except TransientError as error:
                if len(self._known) > known_before:
                    last_progress = self._clock.monotonic()
                elif self._clock.monotonic() - last_progress > self._no_data_seconds:
                    self._fail(error)
                    return
                self._stopping.wait(RETRY_SECONDS)
            except (PermanentError, ValueError) as error:
                self._fail(error)
                return
            else:
                self.is_done = not self._stopping.is_set()
                return

    def _fail(self, error: Exception) -> None:
        if not self._stopping.is_set():
            self._keeper.fail(error)

    def _pass(self, *, whole: bool) -> None:
        job = self._job
        first = 0 if whole else next((i for i in range(len(self._pieces)) if i not in self._known), len(self._pieces))
        script = digests_script(self._pieces[first:], first=first, whole=whole)
        step = f"take digests of {job.path}"
        has_whole = False
        output = self._remote.stream(script, step=step, timeout_seconds=SILENCE_SECONDS)
        try:
            for line in parse_digests(_lines(output, self._stopping.is_set)):
                if line.index is None:
                    has_whole = True
                    self._compare_identity()  # only a source that was at rest all the while has a digest of the whole
                    self._keeper.add_whole(line.sha256)
                else:
                    self._known.add(line.index)
                    self._keeper.add_digest(line.index, line.sha256)
        except ValueError as error:
            self._compare_identity()
            raise CommandFailed(step, 0, str(error)) from error
        if self._stopping.is_set():
            return
        if not has_whole:
            self._compare_identity()
        if len(self._known) < len(self._pieces) or (whole and not has_whole):
            raise CommandFailed(step, 0, f"{len(self._known)} of {len(self._pieces)} digests came")

    def _compare_identity(self) -> None:
        """Raises SourceChanged when the file is not what it was before the pass."""
        now = source_identity(self._remote, self._job.path)
        if difference := self._job.identity.difference(now):
            raise SourceChanged(self._job.path, difference)


def _lines(pieces: Iterable[bytes], stop: Callable[[], bool]) -> Iterator[bytes]:
    """Whole lines of a stream of pieces; ends early when told to stop."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if stop():
            return
        yield from lines
    if rest:
        yield rest
