"""What engine tests share: books kept in memory, sources with known digests, and a link run in a thread."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from inventory.remote.base import Remote
from inventory.remote.names import RemoteName
from transfers.engine.clock import SystemClock
from transfers.engine.geometry import build_of_one_file
from transfers.engine.linkstate import LinkLimits
from transfers.engine.runner import run_link
from transfers.engine.types import BuildSpec, Directions, Finding, LinkSummary, Outcome, Sample

MIB = 2**20
QUICK = LinkLimits(no_data_seconds=20, silent_seconds=2, quiet_seconds=1, dial_seconds=10, scout_seconds=3)


def noise(count: int, seed: int = 1) -> bytes:
    """Bytes that do not compress, the same for a seed."""
    return random.Random(seed).randbytes(count)


def with_digests(spec: BuildSpec, content: bytes) -> BuildSpec:
    """The build with the digest of each chunk of its content."""
    chunks = tuple(
        replace(chunk, sha256=hashlib.sha256(content[chunk.offset : chunk.offset + chunk.length]).digest())
        for chunk in spec.chunks
    )
    return replace(spec, chunks=chunks)


def one_file(
    folder: Path, source: Path, content: bytes, *, key: str = "build", chunk_bytes: int = 4 * MIB, name: bytes = b"pack"
) -> BuildSpec:
    """Write the content to the source; the build that fetches it, digests known."""
    source.write_bytes(content)
    spec = build_of_one_file(
        key=key,
        source=RemoteName(os.fsencode(source)),
        size_bytes=len(content),
        folder=folder,
        name=name,
        chunk_bytes=chunk_bytes,
    )
    return with_digests(spec, content)


@dataclass
class Books:
    """A `Ledger` in memory. A test changes `builds`, `lanes` and `stop` while the link runs."""

    builds: Sequence[BuildSpec]
    lanes: int = 4
    stop: bool = False
    more_expected: bool = False
    bytes_per_second: float | None = None
    proven: dict[str, set[int]] = field(default_factory=dict)
    digests: dict[str, dict[int, bytes]] = field(default_factory=dict)
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    samples: list[tuple[float, Sample, dict[str, int]]] = field(default_factory=list)
    problems: list[tuple[str | None, Exception, bool]] = field(default_factory=list)

    def directions(self) -> Directions:
        return Directions(tuple(self.builds), self.lanes, self.stop, self.more_expected, self.bytes_per_second)

    def proven_chunks(self, key: str) -> frozenset[int]:
        return frozenset(self.proven.get(key, ()))

    def chunk_digests(self, key: str) -> Mapping[int, bytes]:
        return dict(self.digests.get(key, {}))

    def record_chunk(self, key: str, finding: Finding) -> None:
        self.findings.append((key, finding))
        if finding.outcome is Outcome.MATCHED:
            self.proven.setdefault(key, set()).add(int(finding.subject))

    def record_received(self, key: str) -> None:
        self.received.append(key)

    def record_sample(self, sample: Sample, received_bytes: Mapping[str, int]) -> None:
        self.samples.append((time.monotonic(), sample, dict(received_bytes)))

    def record_problem(self, key: str | None, error: Exception, *, will_retry: bool) -> None:
        self.problems.append((key, error, will_retry))

    def outcomes(self, outcome: Outcome) -> list[int]:
        """Chunks that were compared with this outcome, in order."""
        return [int(finding.subject) for _key, finding in self.findings if finding.outcome is outcome]


def fetch(remote: Remote, books: Books, *, limits: LinkLimits = QUICK) -> LinkSummary:
    """Run a link to its end in this thread."""
    return run_link(remote, books, SystemClock(), limits=limits)


class RunningLink:
    """A link in a thread of its own. Use it as a context: it is ended on the way out."""

    def __init__(self, remote: Remote, books: Books, *, limits: LinkLimits = QUICK) -> None:
        self._remote, self.books, self._limits = remote, books, limits
        self.summary: LinkSummary | None = None
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.summary = run_link(
                self._remote, self.books, SystemClock(), stop=self._stop.is_set, limits=self._limits
            )
        except BaseException as error:
            self.error = error

    def __enter__(self) -> RunningLink:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def finish(self, seconds: float = 40.0) -> LinkSummary:
        """Wait for the end; its summary. What it raised is raised here."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the link did not come to its end"
        if self.error is not None:
            raise self.error
        assert self.summary is not None
        return self.summary

    def here(self, key: str = "build") -> int:
        """Bytes of a build that are here, by the last sample."""
        return self.books.samples[-1][2].get(key, 0) if self.books.samples else 0


def wait_until(condition: Callable[[], bool], seconds: float = 15.0, *, what: str = "") -> None:
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what or 'a condition'}"
        time.sleep(0.01)
