"""The books of a one-off fetch: lines that survive a kill, and are void when the source is another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inventory.remote.base import HostKeyChanged, HostUnreachable
from inventory.remote.names import RemoteName
from transfers.engine.cellmap import LedgerBusy
from transfers.engine.geometry import build_of_one_file
from transfers.engine.identity import SourceIdentity
from transfers.engine.types import BuildSpec, CheckLevel, Finding, Outcome, Sample
from transfers.fileledger import FileLedger, source_path

PATH = RemoteName(b"/data/\xff\n.tar")
IDENTITY = SourceIdentity(3 * 2**20, "m", "c", 1, 2)
A, B = b"a" * 32, b"b" * 32


class Lanes:
    lanes = 3

    def observe(self, sample: Sample, left_bytes: int) -> None:
        self.seen = (sample.new_bytes, left_bytes)


def _spec(folder: Path) -> BuildSpec:
    return build_of_one_file(
        key="k", source=PATH, size_bytes=3 * 2**20, folder=folder, name=b"\xff\n.tar", chunk_bytes=2**20
    )


class Opened:
    """An open ledger and what it said."""

    def __init__(self, folder: Path, identity: SourceIdentity = IDENTITY, path: RemoteName = PATH) -> None:
        self.said: list[str] = []
        self.ledger = FileLedger(
            _spec(folder), path, identity, chooser=Lanes(), stop=lambda: False, notice=self.said.append
        )


def _proof(chunk: int, found: bytes, outcome: Outcome = Outcome.MATCHED) -> Finding:
    return Finding(CheckLevel.CHUNK, str(chunk).encode(), chunk * 2**20, 2**20, A, found, outcome, 0.0)


def _filled(folder: Path) -> None:
    ledger = Opened(folder).ledger
    ledger.add_digest(0, A)
    ledger.add_digest(1, B)
    ledger.add_whole(B)
    ledger.record_chunk("k", _proof(0, A))
    ledger.close()


def test_what_was_noted_is_there_after_a_kill(tmp_path: Path) -> None:
    _filled(tmp_path)
    again = Opened(tmp_path).ledger
    assert again.is_continued and not again.difference
    assert again.chunk_digests("k") == {0: A, 1: B} and again.whole == B
    assert again.proven_chunks("k") == frozenset({0}) and not again.has_all_digests()
    again.close()


@pytest.mark.parametrize("cut", [1, 5, 30, 80])
def test_a_line_that_was_cut_off_is_dropped_and_the_rest_is_kept(tmp_path: Path, cut: int) -> None:
    _filled(tmp_path)
    path = source_path(_spec(tmp_path))
    path.write_bytes(path.read_bytes()[:-cut])
    again = Opened(tmp_path).ledger
    assert again.chunk_digests("k") == {0: A, 1: B} and again.proven_chunks("k") == frozenset()
    again.record_chunk("k", _proof(0, A))  # what is appended now stands on a line of its own
    again.close()
    third = Opened(tmp_path).ledger
    assert third.proven_chunks("k") == frozenset({0})
    third.close()


@pytest.mark.parametrize("content", [b"", b"no line of ours\n", b"[1]\n", b'{"is": "source"}\n', b"\xff\xfe" * 50])
def test_a_file_that_is_not_ours_says_nothing_and_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    source_path(_spec(tmp_path)).write_bytes(content)
    ledger = Opened(tmp_path).ledger
    assert not ledger.is_continued and ledger.chunk_digests("k") == {}
    ledger.close()
    again = Opened(tmp_path).ledger
    assert again.is_continued
    again.close()


def test_another_source_voids_digests_and_proofs_and_is_told(tmp_path: Path) -> None:
    _filled(tmp_path)
    changed = Opened(tmp_path, replace(IDENTITY, modified="later")).ledger
    assert "was written to" in changed.difference and not changed.is_continued
    assert changed.chunk_digests("k") == {} and changed.whole is None and not changed.proven_chunks("k")
    changed.close()
    moved = Opened(tmp_path, IDENTITY, RemoteName(b"/other")).ledger
    assert "is another path" in moved.difference
    moved.close()


def test_a_proof_counts_only_while_the_digest_is_the_same(tmp_path: Path) -> None:
    _filled(tmp_path)
    ledger = Opened(tmp_path).ledger
    ledger.add_digest(0, B)
    assert ledger.proven_chunks("k") == frozenset()
    ledger.close()


def test_forgotten_digests_and_proofs_stay_forgotten(tmp_path: Path) -> None:
    _filled(tmp_path)
    ledger = Opened(tmp_path).ledger
    ledger.forget_proof(0)
    assert not ledger.proven_chunks("k")
    ledger.close()
    ledger = Opened(tmp_path).ledger
    assert not ledger.proven_chunks("k") and ledger.chunk_digests("k")
    ledger.forget_digests()
    ledger.close()
    ledger = Opened(tmp_path).ledger
    assert ledger.is_continued and ledger.chunk_digests("k") == {} and ledger.whole is None
    ledger.close()


def test_two_processes_do_not_share_a_ledger(tmp_path: Path) -> None:
    first = Opened(tmp_path).ledger
    with pytest.raises(LedgerBusy):
        Opened(tmp_path)
    first.close()
    Opened(tmp_path).ledger.close()


def test_a_wrong_chunk_is_told_and_not_proven(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.ledger.record_chunk("k", _proof(1, B, Outcome.DIFFERED))
    assert "do not match the source's digest" in opened.said[0] and not opened.ledger.proven_chunks("k")
    opened.ledger.close()


def test_what_cannot_be_mended_ends_the_link_and_the_rest_is_told(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.ledger.record_problem(None, HostUnreachable("host", 22, "no route"), will_retry=True)
    assert "no route" in opened.said[0] and not opened.ledger.directions().stop
    fatal = HostKeyChanged("host", 22, "SHA256:a", "SHA256:b")
    opened.ledger.record_problem(None, fatal, will_retry=False)
    assert opened.ledger.directions().stop and opened.ledger.failure is fatal
    opened.ledger.close()


def test_lanes_come_from_the_chooser_which_learns_from_samples(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    assert opened.ledger.directions().lanes == 3
    opened.ledger.record_sample(Sample(1.0, 7, 7, (), 0, 0), {"k": 2**20})
    assert opened.ledger.here_bytes == 2**20
    opened.ledger.close()
    opened.ledger.remove()
    assert list(tmp_path.iterdir()) == []
