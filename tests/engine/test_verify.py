"""Reading back from the disk: everything is compared and told, and what cannot be read is no difference."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from inventory.remote.names import RemoteName
from tests.engine.books import MIB, noise, one_file, with_digests
from transfers.engine.clock import SystemClock
from transfers.engine.geometry import build_of_files
from transfers.engine.landing import publish
from transfers.engine.types import BuildSpec, CheckLevel, Outcome
from transfers.engine.verify import Expected, ReadBack, Stopped, read_back

CONTENT = noise(5 * MIB + 3)


def _spec(tmp_path: Path) -> BuildSpec:
    spec = one_file(tmp_path / "landing", tmp_path / "source", CONTENT, chunk_bytes=2 * MIB)
    spec.folder.mkdir()
    (spec.folder / spec.incoming_name).write_bytes(CONTENT)
    return spec


def _expected(spec: BuildSpec) -> Expected:
    chunks = {chunk.index: chunk.sha256 for chunk in spec.chunks if chunk.sha256 is not None}
    return Expected(whole=hashlib.sha256(CONTENT).digest(), chunks=chunks)


def _read(spec: BuildSpec, expected: Expected | None = None, *, landed: bool = False) -> ReadBack:
    return read_back(spec, expected or _expected(spec), SystemClock(), landed=landed)


def _bad(found: ReadBack) -> list[tuple[CheckLevel, bytes, Outcome]]:
    return [(one.level, one.subject, one.outcome) for one in found.findings if one.outcome is not Outcome.MATCHED]


def test_every_chunk_and_the_whole_are_compared_before_and_after_publishing(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    found = _read(spec)
    assert found.is_good and found.sha256 == hashlib.sha256(CONTENT).digest()
    assert [one.level for one in found.findings] == [CheckLevel.CHUNK] * 3 + [CheckLevel.BUILD]
    publish(spec)
    assert _read(spec, landed=True).is_good


def test_a_changed_byte_is_found_in_its_chunk_and_in_the_whole(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    with (spec.folder / spec.incoming_name).open("r+b") as file:
        file.seek(3 * MIB)
        file.write(bytes([CONTENT[3 * MIB] ^ 1]))
    found = _read(spec)
    assert not found.is_good
    assert _bad(found) == [(CheckLevel.CHUNK, b"1", Outcome.DIFFERED), (CheckLevel.BUILD, b"", Outcome.DIFFERED)]


def test_a_file_that_is_too_short_is_unreadable_there_and_has_no_digest(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    with (spec.folder / spec.incoming_name).open("r+b") as file:
        file.truncate(3 * MIB)
    found = _read(spec)
    assert not found.is_good and found.sha256 is None
    outcomes = {(one.level, one.subject): one.outcome for one in found.findings}
    assert outcomes[CheckLevel.CHUNK, b"0"] is Outcome.MATCHED
    assert outcomes[CheckLevel.CHUNK, b"1"] is outcomes[CheckLevel.CHUNK, b"2"] is Outcome.UNREADABLE
    assert outcomes[CheckLevel.BUILD, b""] is Outcome.DIFFERED


def test_a_file_that_is_too_long_is_told(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    with (spec.folder / spec.incoming_name).open("ab") as file:
        file.write(b"x")
    found = _read(spec)
    assert not found.is_good and "instead of" in next(one.message for one in found.findings if one.message)


def test_a_file_that_is_gone_is_missing(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    (spec.folder / spec.incoming_name).unlink()
    found = _read(spec)
    assert Outcome.MISSING in {one.outcome for one in found.findings} and not found.is_good


def test_without_a_digest_of_the_source_nothing_is_called_good(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    found = _read(spec, Expected())
    assert {one.outcome for one in found.findings} == {Outcome.RECORDED} and not found.is_good


def test_each_file_of_a_set_is_compared_with_its_own_digest(tmp_path: Path) -> None:
    contents = {b"a/one": noise(MIB, 1), b"empty": b"", b"two\n": noise(700_001, 2)}
    files = [(RemoteName(b"/s"), name, len(content)) for name, content in contents.items()]
    build = build_of_files(key="k", files=files, folder=tmp_path, chunk_bytes=MIB // 2)
    spec = with_digests(build, b"".join(contents.values()))
    top = tmp_path / "files.incoming"
    for name, content in contents.items():
        path = top / name.decode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    members = {name: hashlib.sha256(content).digest() for name, content in contents.items()}
    found = _read(spec, Expected(members=members))
    matched = {one.subject for one in found.findings if one.level is CheckLevel.MEMBER}
    assert found.is_good and matched == set(contents)
    (top / "a/one").write_bytes(bytes(MIB))
    found = _read(spec, Expected(members=members))
    assert (CheckLevel.MEMBER, b"a/one", Outcome.DIFFERED) in _bad(found)


def test_a_stop_concludes_nothing(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    with pytest.raises(Stopped):
        read_back(spec, _expected(spec), SystemClock(), stop=lambda: True)


def test_progress_counts_the_bytes_read(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    seen: list[int] = []
    read_back(spec, _expected(spec), SystemClock(), progress=seen.append)
    assert seen == [2 * MIB, 4 * MIB, len(CONTENT)]
