"""The near end of a soak: one link with steered lanes and its books in memory, a line of JSON for each second.

python -m benchmarks.soak_link ADDRESS PORT USER KEY KNOWN_HOSTS SOURCE LANDING SECONDS
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from inventory.remote.hostkeys import known_keys
from inventory.remote.keys import KeySource
from inventory.remote.names import RemoteName
from inventory.remote.pool import Endpoint, SshRemote
from transfers.engine.clock import SystemClock
from transfers.engine.control import begin, step
from transfers.engine.geometry import build_of_one_file
from transfers.engine.linkstate import LinkLimits
from transfers.engine.runner import run_link
from transfers.engine.types import BuildSpec, Directions, Finding, Outcome, Sample

LANES_TO_BEGIN_WITH, LANES_AT_MOST = 32, 48


class Books:
    """A ledger in memory that says each second what it hears."""

    def __init__(self, spec: BuildSpec, ends_at: float) -> None:
        self._spec, self._ends_at = spec, ends_at
        self._steering = begin(LANES_TO_BEGIN_WITH)
        self._matched = self._differed = 0

    def directions(self) -> Directions:
        return Directions((self._spec,), self._steering.lanes, stop=time.monotonic() > self._ends_at)

    def proven_chunks(self, key: str) -> frozenset[int]:
        return frozenset()

    def chunk_digests(self, key: str) -> Mapping[int, bytes]:
        return {}

    def record_chunk(self, key: str, finding: Finding) -> None:
        self._matched += finding.outcome is Outcome.MATCHED
        self._differed += finding.outcome is not Outcome.MATCHED

    def record_received(self, key: str) -> None:
        _say(event="received")

    def record_sample(self, sample: Sample, received_bytes: Mapping[str, int]) -> None:
        self._steering, decision = step(self._steering, sample, most=LANES_AT_MOST)
        _say(
            event="sample",
            at=time.monotonic(),
            seconds=sample.seconds,
            new_bytes=sample.new_bytes,
            wire_bytes=sample.wire_bytes,
            lanes=len(sample.lanes),
            working=sum(lane.state == "working" for lane in sample.lanes),
            redials=sample.redials,
            refusals=sample.refusals,
            resident_bytes=_resident_bytes(),
            handles=len(list(Path("/proc/self/fd").iterdir())),
            matched=self._matched,
            differed=self._differed,
            decision=decision.reason if decision is not None else "",
        )

    def record_problem(self, key: str | None, error: Exception, *, will_retry: bool) -> None:
        _say(event="problem", at=time.monotonic(), what=str(error), will_retry=will_retry)


def _say(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _with_digests(spec: BuildSpec, source: Path) -> BuildSpec:
    chunks = []
    with source.open("rb") as file:
        for chunk in spec.chunks:
            chunks.append(replace(chunk, sha256=hashlib.sha256(file.read(chunk.length)).digest()))
    return replace(spec, chunks=tuple(chunks))


def main(words: list[str]) -> int:
    """Run a link for so many seconds; returns 0 when it ended by itself."""
    address, port, username, key, known_hosts, source, landing, seconds = words
    pinned = known_keys(Path(known_hosts).read_text(), address, int(port))[0]
    endpoint = Endpoint(address, int(port), username, KeySource(Path(key)), pinned)
    folder = Path(landing)
    folder.mkdir(parents=True)
    spec = build_of_one_file(
        key="soak",
        source=RemoteName(os.fsencode(source)),
        size_bytes=Path(source).stat().st_size,
        folder=folder,
        name=b"soak",
    )
    spec = _with_digests(spec, Path(source))
    remote = SshRemote(endpoint, no_data_timeout_seconds=600, connect_timeout_seconds=60)
    try:
        run_link(remote, Books(spec, time.monotonic() + float(seconds)), SystemClock(), limits=LinkLimits())
    finally:
        remote.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
