"""Digests taken at the source while lanes run: begun again when the link is lost, void when the file moves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from inventory.remote.base import ConnectionLost
from inventory.remote.names import RemoteName
from tests.engine.books import MIB, noise, one_file
from tests.fakes import MemoryRemote
from transfers.engine import digester as module
from transfers.engine.clock import SystemClock
from transfers.engine.digester import Digester, DigestJob
from transfers.engine.identity import SourceIdentity, source_from_home, source_identity
from transfers.engine.source import SourceChanged
from transfers.engine.types import BuildSpec


@dataclass
class Kept:
    digests: dict[int, bytes] = field(default_factory=dict)
    whole: bytes | None = None
    error: Exception | None = None

    def add_digest(self, chunk: int, sha256: bytes) -> None:
        self.digests[chunk] = sha256

    def add_whole(self, sha256: bytes) -> None:
        self.whole = sha256

    def fail(self, error: Exception) -> None:
        self.error = error


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryRemote]:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    memory = MemoryRemote(tmp_path)
    yield memory
    memory.close()


def _job(remote: MemoryRemote, tmp_path: Path, content: bytes) -> tuple[BuildSpec, DigestJob]:
    spec = one_file(tmp_path / "landing", tmp_path / "source", content, chunk_bytes=MIB)
    path = RemoteName(bytes(tmp_path / "source"))
    return spec, DigestJob(spec, path, source_identity(remote, path), frozenset())


def _run(remote: MemoryRemote, job: DigestJob, kept: Kept, no_data_seconds: float = 20.0) -> Digester:
    thread = Digester(remote, job, kept, SystemClock(), no_data_seconds=no_data_seconds)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return thread


def test_every_chunk_and_the_whole_get_their_digest(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(3 * MIB + 9)
    spec, job = _job(remote, tmp_path, content)
    kept = Kept()
    assert _run(remote, job, kept).is_done
    assert kept.digests == {chunk.index: chunk.sha256 for chunk in spec.chunks}
    assert kept.whole == hashlib.sha256(content).digest() and kept.error is None


def test_a_lost_connection_begins_the_pass_again(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(2 * MIB)
    _spec, job = _job(remote, tmp_path, content)
    remote.faults.fail_call(remote.calls + 1, ConnectionLost("memory", 22, "cut"))
    kept = Kept()
    assert _run(remote, job, kept).is_done
    assert kept.whole == hashlib.sha256(content).digest()


def test_after_three_lost_passes_the_chunks_that_are_missing_will_do(remote: MemoryRemote, tmp_path: Path) -> None:
    spec, job = _job(remote, tmp_path, noise(2 * MIB))
    for call in range(1, 4):
        remote.faults.fail_call(remote.calls + call, ConnectionLost("memory", 22, "cut"))
    kept = Kept()
    assert _run(remote, job, kept).is_done
    assert kept.digests == {chunk.index: chunk.sha256 for chunk in spec.chunks} and kept.whole is None


def test_a_link_that_stays_away_is_given_up(remote: MemoryRemote, tmp_path: Path) -> None:
    _spec, job = _job(remote, tmp_path, noise(MIB))
    for call in range(1, 500):
        remote.faults.fail_call(remote.calls + call, ConnectionLost("memory", 22, "cut"))
    kept = Kept()
    assert not _run(remote, job, kept, no_data_seconds=0.2).is_done
    assert isinstance(kept.error, ConnectionLost)


def test_a_source_that_moved_during_the_pass_has_no_digest(remote: MemoryRemote, tmp_path: Path) -> None:
    _spec, job = _job(remote, tmp_path, noise(2 * MIB))
    (tmp_path / "source").write_bytes(noise(2 * MIB, 2))
    kept = Kept()
    _run(remote, job, kept)
    assert isinstance(kept.error, SourceChanged) and "source" in str(kept.error) and kept.whole is None


def test_a_source_that_shrank_is_told_as_changed(remote: MemoryRemote, tmp_path: Path) -> None:
    _spec, job = _job(remote, tmp_path, noise(2 * MIB))
    (tmp_path / "source").write_bytes(noise(MIB))
    kept = Kept()
    _run(remote, job, kept)
    assert isinstance(kept.error, SourceChanged) and f"{2 * MIB:,} bytes long" in str(kept.error)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size_bytes": 6}, "was 5 bytes long and is 6 now"),
        ({"inode": 3}, "was replaced by another file"),
        ({"modified": "later"}, "was written to"),
        ({"changed": "later"}, "was touched"),
        ({}, ""),
    ],
)
def test_what_changed_is_said(change: dict[str, int | str], words: str) -> None:
    before = SourceIdentity(5, "m", "c", 1, 2)
    difference = before.difference(replace(before, **change))  # type: ignore[arg-type]
    assert difference.startswith(words) and bool(difference) == bool(words)


def test_a_path_relative_to_where_sessions_begin_becomes_absolute(remote: MemoryRemote, tmp_path: Path) -> None:
    (tmp_path / "-f").write_bytes(b"abc")
    here = Path.cwd()
    relative = RemoteName(bytes(tmp_path / "-f")[1:])
    up = RemoteName(b"/".join([b".."] * (len(here.parts) - 1) + [relative.raw]))
    path, identity = source_from_home(remote, up)
    assert path.is_absolute and identity.size_bytes == 3
    assert source_identity(remote, path) == identity
