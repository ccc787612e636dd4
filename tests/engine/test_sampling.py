"""Whether compressing pays: what is sampled, what the figures decide, and that SSH itself never compresses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inventory.remote.channels import SshShellStream
from inventory.remote.names import RemoteName
from inventory.remote.pool import SshRemote
from tests.engine.books import MIB, noise
from tests.fakes import MemoryRemote
from tests.parts import need
from tests.sshd import Sshd
from transfers.engine.packing import StagingPlaces
from transfers.engine.sampling import SampleResult, sample_list, sample_of, take_sample
from transfers.engine.types import Member


def _member(name: bytes, size_bytes: int) -> Member:
    return Member(name, "file", size_bytes, 0, 0o644)


def test_places_are_spread_over_the_bytes_and_inside_large_files() -> None:
    members = [_member(b"small", 1000), _member(b"large", 1000 * MIB), _member(b"tail", 1000)]
    chosen = sample_of(members)
    assert len(chosen) == 64 and {member.name for member, _block in chosen} == {b"large"}
    blocks = [block for _member, block in chosen]
    assert blocks == sorted(set(blocks)) and blocks[0] < 16 and blocks[-1] > 984


def test_a_file_that_fills_half_of_the_bytes_fills_half_of_the_sample() -> None:
    members = [_member(b"text", 32 * MIB), *(_member(b"%d" % number, MIB) for number in range(32))]
    names = [member.name for member, _block in sample_of(members)]
    assert names.count(b"text") == 32 and len(names) == 64


@pytest.mark.parametrize("members", [[], [_member(b"empty", 0)]])
def test_nothing_is_sampled_of_nothing(members: list[Member]) -> None:
    assert sample_of(members) == [] and list(sample_list(members)) == []


def test_few_small_files_stand_once_each() -> None:
    members = [_member(b"%d" % number, 10) for number in range(3)]
    assert sample_of(members) == [(member, 0) for member in members]


def _taken(folder: Path, contents: dict[bytes, bytes]) -> SampleResult:
    need("zstd")
    home, staging = folder / "home", folder / "staging"
    home.mkdir()
    staging.mkdir()
    members = []
    for name, content in contents.items():
        path = os.fsencode(folder) + b"/" + name
        Path(os.fsdecode(path)).write_bytes(content)
        members.append(_member(path.lstrip(b"/"), len(content)))
    remote, places = MemoryRemote(home), StagingPlaces(RemoteName(os.fsencode(staging)), "key", 0)
    try:
        remote.write_file(places.list_of("sample"), sample_list(members))
        return take_sample(remote, places)
    finally:
        remote.close()


def test_content_that_only_begins_compressible_is_told_by_its_middle(tmp_path: Path) -> None:
    found = _taken(tmp_path, {b"-rf \xff\n'x": b"header " * (MIB // 7) + noise(12 * MIB)})
    assert found.raw_bytes > 10 * MIB and not found.pays
    assert found.zstd_bytes_per_second is not None and found.zstd_bytes_per_second > 1e6


def test_text_pays_and_what_is_compressed_already_does_not_whatever_its_name(tmp_path: Path) -> None:
    assert _taken(tmp_path, {b"log": b"a line of a log\n" * 40_000}).pays
    other = tmp_path / "other"
    other.mkdir()
    assert not _taken(other, {b"log.txt": noise(3 * MIB)}).pays


@pytest.mark.parametrize(
    ("result", "link", "pays", "words"),
    [
        (
            SampleResult(10**8, 4 * 10**7, 0.5),
            2.5e6,
            True,
            "at 200 MB/s on one core of the host; the link brought 2.50",
        ),
        (SampleResult(10**8, 4 * 10**7, 0.5), None, True, "(40 %) with zstd -3, at 200 MB/s"),
        (SampleResult(10**8, 4 * 10**7, 0.5), 130e6, False, "it would take longer than fetching what it saves"),
        (SampleResult(10**8, 4 * 10**7), 1e9, True, "(40 %) with zstd -3; the link brought"),
        (SampleResult(10**8, 95 * 10**6, 0.1), 1e6, False, "zstd does not pay; a plain .tar is made"),
        (SampleResult(0, 0), 1e6, False, "nothing to take a sample of"),
    ],
)
def test_the_decision_is_told_with_its_figures(
    result: SampleResult, link: float | None, pays: bool, words: str
) -> None:
    assert result.pays_on(link) == pays
    assert words in result.sentence(link)


def test_ssh_itself_compresses_nothing_though_the_server_offers_it(ssh_remote: SshRemote, sshd: Sshd) -> None:
    stream = ssh_remote.open_shell()
    assert isinstance(stream, SshShellStream)
    stream.send(b"head -c 2097152 /dev/zero\n")
    received = 0
    while received < 2 * MIB:
        received += len(stream.receive(MIB, timeout_seconds=20))
    wire = stream.wire()
    stream.close()
    assert wire is not None and wire.received_bytes > 2 * MIB
