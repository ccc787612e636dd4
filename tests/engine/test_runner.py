"""A link from its first range to the last proof, over a shell of this machine and over a real OpenSSH server."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.remote.base import ConnectionLost, ConnectionRefused, HostKeyChanged, LoginRefused, TransientError
from inventory.remote.names import RemoteName
from inventory.remote.pool import SshRemote
from tests.engine.books import MIB, QUICK, Books, RunningLink, fetch, noise, one_file, wait_until, with_digests
from tests.engine.disks import small_disk
from tests.fakes import MemoryRemote
from tests.parts import find, need
from tests.sshd import Sshd, busybox_folder, make_key
from transfers.engine import runner
from transfers.engine.geometry import build_of_files, build_of_one_file, build_of_parts, ledger_path
from transfers.engine.landing import LandingFull, publish
from transfers.engine.types import BuildSpec, Outcome


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[MemoryRemote]:
    (tmp_path / "home").mkdir()
    memory = MemoryRemote(tmp_path / "home")
    yield memory
    memory.close()


def _landed(spec: BuildSpec) -> bytes:
    return (spec.folder / spec.incoming_name).read_bytes()


def test_a_file_is_fetched_proven_and_received(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(9 * MIB + 123)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    books = Books([spec])
    summary = fetch(remote, books)
    assert summary.received == ("build",) and not summary.failed
    assert _landed(spec) == content
    assert sorted(books.outcomes(Outcome.MATCHED)) == [0, 1, 2] and books.received == ["build"]
    assert summary.new_bytes == len(content)
    assert summary.refetched_bytes < MIB
    assert sum(sample.new_bytes for _at, sample, _here in books.samples) == len(content)


def test_an_empty_file_is_received_without_a_range(remote: MemoryRemote, tmp_path: Path) -> None:
    spec = one_file(tmp_path / "landing", tmp_path / "source", b"")
    summary = fetch(remote, Books([spec]))
    assert summary.received == ("build",) and publish(spec).read_bytes() == b""


@pytest.mark.parametrize("name", [b"-rf", b"with 'quotes' \"and\" space", b"two\nlines", b"\xff\xfe.tar"])
def test_hostile_names_are_fetched_in_all_modes(remote: MemoryRemote, tmp_path: Path, name: bytes) -> None:
    source = tmp_path / "source"
    source.mkdir()
    path = Path(os.fsdecode(bytes(source) + b"/" + name))
    content = noise(300_000)
    one = one_file(tmp_path / "one", path, content, key="one", name=name)
    parts = [(RemoteName(bytes(path)), len(content))] * 2
    joined = build_of_parts(key="parts", parts=parts, folder=tmp_path / "parts", name=name)
    files = [(RemoteName(bytes(path)), b"a/" + name, len(content)), (RemoteName(bytes(path)), name, len(content))]
    as_they_are = build_of_files(key="files", files=files, folder=tmp_path / "files", chunk_bytes=MIB)
    builds = [one, with_digests(joined, content * 2), with_digests(as_they_are, content * 2)]
    assert set(fetch(remote, Books(builds)).received) == {"one", "parts", "files"}
    assert publish(one).read_bytes() == content and publish(joined).read_bytes() == content * 2
    top = bytes(publish(as_they_are))
    for file in (top + b"/a/" + name, top + b"/" + name):
        assert Path(os.fsdecode(file)).read_bytes() == content


def test_bytes_that_come_before_their_digests_are_proven_when_these_are_known(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    content = noise(8 * MIB)
    known = one_file(tmp_path / "landing", tmp_path / "source", content)
    spec = replace(known, chunks=tuple(replace(chunk, sha256=None) for chunk in known.chunks))
    books = Books([spec])
    with RunningLink(remote, books) as link:
        wait_until(lambda: link.here() == len(content), what="all bytes")
        assert books.findings == []
        books.digests["build"] = {chunk.index: chunk.sha256 or b"" for chunk in known.chunks}
        assert link.finish().received == ("build",)
    assert sorted(books.outcomes(Outcome.MATCHED)) == [0, 1]


def test_a_wrong_cell_costs_one_block_and_no_more(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    stop = Books([spec], lanes=2)
    assert fetch(remote, stop).received
    damaged = bytearray(content)
    damaged[5 * MIB + 17] ^= 1
    (spec.folder / spec.incoming_name).write_bytes(bytes(damaged))
    ledger = ledger_path(spec).read_bytes()
    proofs = ledger.rfind(spec.chunks[1].sha256 or b"?")
    ledger_path(spec).write_bytes(ledger[:proofs] + bytes(36))  # the second chunk's proof is gone as well
    books = Books([spec], lanes=2)
    summary = fetch(remote, books)
    assert _landed(spec) == content
    assert books.outcomes(Outcome.DIFFERED) == [1]
    assert sorted(books.outcomes(Outcome.MATCHED)) == [0, 1]
    assert summary.new_bytes == MIB and summary.refetched_bytes <= MIB


def test_data_without_a_ledger_is_adopted_by_digest_and_only_the_rest_is_fetched(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    content = noise(12 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    spec.folder.mkdir()
    half = content[: 6 * MIB] + bytes(6 * MIB)
    (spec.folder / spec.incoming_name).write_bytes(half)
    summary = fetch(remote, Books([spec]))
    assert summary.received and _landed(spec) == content
    assert summary.new_bytes == 6 * MIB


def test_a_second_start_fetches_nothing_again(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    assert fetch(remote, Books([spec])).received
    books = Books([spec])
    summary = fetch(remote, books)
    assert summary.received and summary.new_bytes == 0
    assert [finding.message for _key, finding in books.findings] == ["proven before", "proven before"]


def test_a_source_that_changes_while_it_is_fetched_is_named(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(16 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    (tmp_path / "source").write_bytes(content[: 9 * MIB] + noise(7 * MIB, 2))
    books = Books([spec])
    summary = fetch(remote, books)
    assert not summary.received
    assert "The source changed" in summary.failed["build"] and str(tmp_path / "source") in summary.failed["build"]
    assert set(books.outcomes(Outcome.DIFFERED)) <= {2, 3}


@pytest.mark.parametrize("what", ["shorter", "gone", "a folder"])
def test_a_source_that_shrank_or_vanished_is_named_and_what_came_is_kept(
    remote: MemoryRemote, tmp_path: Path, what: str
) -> None:
    content = noise(8 * MIB)
    source = tmp_path / "source"
    spec = one_file(tmp_path / "landing", source, content)
    if what == "shorter":
        source.write_bytes(content[: 5 * MIB])
    else:
        source.unlink()
        if what == "a folder":
            source.mkdir()
    summary = fetch(remote, Books([spec]))
    assert "The source changed" in summary.failed["build"]
    assert summary.new_bytes <= 5 * MIB
    assert (spec.folder / spec.incoming_name).exists() and not (spec.folder / "pack").exists()


def test_one_bad_build_does_not_keep_the_others(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(2 * MIB)
    bad = one_file(tmp_path / "bad", tmp_path / "s1", content, key="bad")
    (tmp_path / "s1").unlink()
    good = one_file(tmp_path / "good", tmp_path / "s2", content, key="good")
    summary = fetch(remote, Books([bad, good]))
    assert summary.received == ("good",) and set(summary.failed) == {"bad"}


def test_lanes_that_are_cut_lose_no_complete_cell(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(24 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    for after in (3 * MIB, MIB + 5, 700_001, 100):
        remote.faults.fail_lane(after, ConnectionLost("memory", 22, "cut"))
    remote.faults.refuse_lane(ConnectionRefused("memory", 22, "busy"))
    summary = fetch(remote, Books([spec]))
    assert summary.received and _landed(spec) == content
    assert summary.reconnects >= 4 and summary.refusals == 1
    assert summary.refetched_bytes <= 4 * 256 * 1024 + 8 * MIB


def test_a_landing_that_fills_waits_and_goes_on_when_there_is_room(
    remote: MemoryRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RETRY_SECONDS", 0.3)
    content = noise(4 * MIB)
    with small_disk(tmp_path / "disk", 6 * MIB) as disk:
        hog = disk / "hog"
        hog.write_bytes(bytes(3 * MIB))
        spec = one_file(disk / "landing", tmp_path / "source", content)
        books = Books([spec])
        with RunningLink(remote, books) as link:
            wait_until(lambda: bool(books.problems), what="a full disk being told")
            key, error, will_retry = books.problems[0]
            assert key == "build" and isinstance(error, LandingFull) and will_retry
            hog.unlink()
            assert link.finish().received
        assert len(books.problems) == 1
        assert _landed(spec) == content


def test_files_that_fill_the_disk_in_the_middle_go_on_when_there_is_room(
    remote: MemoryRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RETRY_SECONDS", 0.3)
    content = noise(4 * MIB)
    (tmp_path / "s").write_bytes(content)
    with small_disk(tmp_path / "disk", 12 * MIB) as disk:
        files = [(RemoteName(bytes(tmp_path / "s")), b"f%d" % number, len(content)) for number in range(2)]
        build = build_of_files(key="build", files=files, folder=disk / "landing", chunk_bytes=MIB)
        spec = with_digests(build, content * 2)
        (disk / "landing" / "files.incoming").mkdir(parents=True)  # begun before, so that room is not asked for
        hog = disk / "hog"
        hog.write_bytes(bytes(8 * MIB))
        books = Books([spec])
        with RunningLink(remote, books) as link:
            wait_until(lambda: any(isinstance(error, LandingFull) for _k, error, _r in books.problems), what="full")
            hog.unlink()
            assert link.finish().received
        top = publish(spec)
        assert (top / "f0").read_bytes() == content and (top / "f1").read_bytes() == content


def test_stop_ends_within_two_seconds_and_keeps_what_came(remote: MemoryRemote, tmp_path: Path) -> None:
    spec = one_file(tmp_path / "landing", tmp_path / "source", noise(64 * MIB), chunk_bytes=64 * MIB)
    books = Books([spec], lanes=2)
    with RunningLink(remote, books) as link:
        wait_until(lambda: link.here() > 0, what="bytes")
        begun = time.monotonic()
        books.stop = True
        summary = link.finish()
        assert time.monotonic() - begun < 2.5
    again = fetch(remote, Books([spec]))
    assert again.new_bytes == 64 * MIB - summary.new_bytes


# -- over a real server ------------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


def _slow(server: Sshd, kibibytes: int) -> None:
    """Make each lane of this host read slowly: its dd is one that sleeps."""
    folder = server.folder / "slow"
    folder.mkdir()
    (folder / "dd").write_text(
        "#!/bin/sh\n"
        f'[ "$1" = bs=4 ] && exec {find("dd")} "$@"\n'  # the probe of what dd can
        f'{find("dd")} "$@" | while :; do {find("dd")} bs=1024 count={kibibytes} iflag=fullblock 2>/dev/null'
        f" >{folder}/$$; [ -s {folder}/$$ ] || break; cat {folder}/$$; sleep 0.1; done; rm -f {folder}/$$\n"
    )
    (folder / "dd").chmod(0o755)


@pytest.fixture
def slow_sshd(make_sshd: Callable[..., Sshd], tmp_path: Path) -> Sshd:
    """A server whose lanes bring about 640 KiB a second each."""
    server = make_sshd(path=f"{tmp_path}/sshd0/slow:/usr/bin:/bin")
    _slow(server, 64)
    return server


def _remote(server: Sshd) -> SshRemote:
    return SshRemote(server.endpoint(), no_data_timeout_seconds=30, connect_timeout_seconds=10)


def test_a_file_comes_over_a_real_server_whose_login_shell_talks(
    sshd: Sshd, ssh_remote: SshRemote, tmp_path: Path, source: Path
) -> None:
    sshd.talk_at_login()
    content = noise(20 * MIB + 1)
    spec = one_file(tmp_path / "landing", source, content)
    summary = fetch(ssh_remote, Books([spec], lanes=8))
    assert summary.received and _landed(spec) == content
    assert summary.lanes == 8 and summary.reconnects == 0


def test_eight_lanes_connect_without_a_refusal_at_sshds_usual_limits(
    sshd: Sshd, ssh_remote: SshRemote, tmp_path: Path, source: Path
) -> None:
    spec = one_file(tmp_path / "landing", source, noise(24 * MIB))
    summary = fetch(ssh_remote, Books([spec], lanes=8))
    assert summary.received and summary.refusals == 0
    assert "drop connection" not in sshd.log_path.read_text()


def test_lanes_that_sshd_turns_away_come_later(make_sshd: Callable[..., Sshd], tmp_path: Path, source: Path) -> None:
    server = make_sshd(config=["MaxStartups 2:100:2"])
    remote = _remote(server)
    spec = one_file(tmp_path / "landing", source, noise(24 * MIB))
    summary = fetch(remote, Books([spec], lanes=8))
    remote.close()
    assert summary.received and _landed(spec) == noise(24 * MIB)


def test_a_host_with_busybox_alone_serves(make_sshd: Callable[..., Sshd], tmp_path: Path, source: Path) -> None:
    need("busybox")
    server = make_sshd(path=str(busybox_folder(tmp_path / "busybox")))
    remote = _remote(server)
    content = noise(6 * MIB + 77)
    spec = one_file(tmp_path / "landing", source, content)
    (source).write_bytes(content)
    assert fetch(remote, Books([spec], lanes=3)).received
    damaged = bytearray(content)
    damaged[MIB + 5] ^= 1
    (spec.folder / spec.incoming_name).write_bytes(bytes(damaged))
    ledger_path(spec).unlink()
    summary = fetch(remote, Books([spec], lanes=3))  # block digests come from BusyBox as well
    remote.close()
    assert summary.received and _landed(spec) == content and summary.new_bytes == MIB


def test_fish_as_the_login_shell_is_no_hindrance(remote: MemoryRemote, tmp_path: Path, source: Path) -> None:
    need("fish")
    login = tmp_path / "login"
    login.write_text(f"#!/bin/sh\nexec {find('fish')} -c 'exec /bin/sh -s'\n")
    login.chmod(0o755)
    fish = MemoryRemote(tmp_path / "home", shell=str(login))
    content = noise(3 * MIB)
    spec = one_file(tmp_path / "landing", source, content)
    summary = fetch(fish, Books([spec]))
    fish.close()
    assert summary.received and _landed(spec) == content


def test_killed_connections_and_a_restarted_server_cost_little(slow_sshd: Sshd, tmp_path: Path, source: Path) -> None:
    content = noise(8 * MIB)
    spec = one_file(tmp_path / "landing", source, content)
    remote = _remote(slow_sshd)
    books = Books([spec], lanes=4)
    with RunningLink(remote, books) as link:
        wait_until(lambda: link.here() > MIB, what="one MiB")
        assert slow_sshd.kill_children() >= 4
        wait_until(lambda: link.here() > 3 * MIB, what="three MiB")
        slow_sshd.restart()
        summary = link.finish()
    remote.close()
    assert summary.received and _landed(spec) == content
    assert summary.new_bytes == len(content)
    assert summary.reconnects >= 8
    # Twice a part of a cell for each of four lanes, and what lay in the windows; doubled ends included.
    assert summary.refetched_bytes <= 2 * 4 * 256 * 1024


def test_a_server_that_is_away_for_a_while_is_told_and_waited_for(
    slow_sshd: Sshd, tmp_path: Path, source: Path
) -> None:
    spec = one_file(tmp_path / "landing", source, noise(3 * MIB))
    remote = _remote(slow_sshd)
    books = Books([spec], lanes=2)
    with RunningLink(remote, books) as link:
        wait_until(lambda: link.here() > MIB, what="a MiB")
        slow_sshd.stop()
        wait_until(lambda: bool(books.problems), what="the outage being told")
        assert books.problems[0][0] is None and isinstance(books.problems[0][1], TransientError)
        slow_sshd.start()
        back = time.monotonic()
        before = link.here()
        wait_until(lambda: link.here() > before, what="bytes again")
        assert time.monotonic() - back < 6.0
        assert link.finish().received
    remote.close()


def test_a_hung_server_is_left_for_a_new_connection(slow_sshd: Sshd, tmp_path: Path, source: Path) -> None:
    spec = one_file(tmp_path / "landing", source, noise(3 * MIB))
    remote = _remote(slow_sshd)
    books = Books([spec], lanes=2)
    with RunningLink(remote, books) as link:
        wait_until(lambda: link.here() > MIB, what="a MiB")
        slow_sshd.stop_children()
        summary = link.finish()
    slow_sshd.continue_children()
    remote.close()
    assert summary.received and summary.reconnects >= 2


def test_nothing_for_the_whole_no_data_time_gives_the_attempt_up(slow_sshd: Sshd, tmp_path: Path, source: Path) -> None:
    spec = one_file(tmp_path / "landing", source, noise(4 * MIB))
    remote = _remote(slow_sshd)
    books = Books([spec], lanes=2)
    with RunningLink(remote, books, limits=replace(QUICK, no_data_seconds=2)) as link:
        wait_until(lambda: link.here() > MIB, what="a MiB")
        slow_sshd.stop()
        with pytest.raises(TransientError):
            link.finish()
    remote.close()
    kept = link.here()
    slow_sshd.start()
    remote = _remote(slow_sshd)
    summary = fetch(remote, Books([spec], lanes=4))
    remote.close()
    assert summary.received and summary.new_bytes <= 4 * MIB - kept


def test_a_changed_host_key_ends_the_link_with_both_fingerprints(sshd: Sshd, tmp_path: Path, source: Path) -> None:
    remote = _remote(sshd)
    before = sshd.pinned.fingerprint
    sshd.change_host_key()
    sshd.restart()
    books = Books([one_file(tmp_path / "landing", source, noise(MIB))])
    with pytest.raises(HostKeyChanged) as caught:
        fetch(remote, books)
    remote.close()
    assert before in str(caught.value) and str(caught.value).count("SHA256:") == 2
    assert books.problems and not books.problems[0][2]


def test_a_key_that_is_not_accepted_ends_the_link(sshd: Sshd, tmp_path: Path, source: Path) -> None:
    stranger = make_key(tmp_path / "stranger")
    remote = SshRemote(sshd.endpoint(key_path=stranger))
    with pytest.raises(LoginRefused):
        fetch(remote, Books([one_file(tmp_path / "landing", source, noise(MIB))]))
    remote.close()


def test_pause_and_reorder_take_effect_within_three_seconds(slow_sshd: Sshd, tmp_path: Path) -> None:
    one = one_file(tmp_path / "one", tmp_path / "s1", noise(40 * MIB), key="one", chunk_bytes=64 * MIB)
    two = one_file(tmp_path / "two", tmp_path / "s2", noise(40 * MIB), key="two", chunk_bytes=64 * MIB)
    remote = _remote(slow_sshd)
    books = Books([one, two], lanes=4)
    with RunningLink(remote, books) as link:
        wait_until(lambda: link.here("one") > MIB, what="the first build")
        assert link.here("two") == 0
        untouched = ledger_path(two).read_bytes()
        books.builds = [two, one]
        begun = time.monotonic()
        wait_until(lambda: ledger_path(two).read_bytes() != untouched, what="the second build")
        assert time.monotonic() - begun < 3.0
        books.builds, books.more_expected = [], True  # both paused; lanes stay connected
        time.sleep(2.8)
        held = ledger_path(one).read_bytes(), ledger_path(two).read_bytes()
        time.sleep(1.1)
        assert (ledger_path(one).read_bytes(), ledger_path(two).read_bytes()) == held
        assert all(lane.state == "waiting" for lane in books.samples[-1][1].lanes)
        books.builds = [one]
        begun = time.monotonic()
        wait_until(lambda: ledger_path(one).read_bytes() != held[0], what="the resumed build")
        assert time.monotonic() - begun < 3.0
        books.stop = True
        link.finish()
    remote.close()


def test_fewer_and_more_lanes_take_effect_while_it_runs(slow_sshd: Sshd, tmp_path: Path, source: Path) -> None:
    remote = _remote(slow_sshd)
    books = Books([one_file(tmp_path / "landing", source, noise(40 * MIB), chunk_bytes=64 * MIB)], lanes=2)

    def working() -> int:
        return len([one for one in books.samples[-1][1].lanes if one.state == "working"]) if books.samples else 0

    with RunningLink(remote, books):
        wait_until(lambda: working() == 2, what="two lanes")
        books.lanes = 5
        wait_until(lambda: working() == 5, what="five lanes")
        books.lanes = 1
        wait_until(lambda: working() == 1, 6, what="one lane")
        assert threading.active_count() < 20
    remote.close()


def test_a_host_that_lets_us_in_and_never_brings_a_byte_is_given_up(tmp_path: Path) -> None:
    useless = MemoryRemote(tmp_path, shell="/bin/true")
    books = Books([one_file(tmp_path / "landing", tmp_path / "source", noise(MIB))])
    begun = time.monotonic()
    with pytest.raises(TransientError):
        fetch(useless, books, limits=replace(QUICK, no_data_seconds=3))
    assert time.monotonic() - begun < 6.0
    assert useless.lanes_opened < 30  # it was not hammered meanwhile
    useless.close()


def test_many_small_files_come_in_one_chunk_over_one_lane(ssh_remote: SshRemote, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    contents = {b"f%04d" % number: noise(number % 7000, number) for number in range(150)}
    files = []
    for name, content in contents.items():
        path = bytes(folder) + b"/" + name
        with open(path, "wb") as file:
            file.write(content)
        files.append((RemoteName(path), name, len(content)))
    spec = with_digests(
        build_of_files(key="build", files=files, folder=tmp_path / "landing"), b"".join(contents.values())
    )
    assert fetch(ssh_remote, Books([spec], lanes=1)).received
    top = publish(spec)
    for name, content in contents.items():
        assert (top / name.decode()).read_bytes() == content


def test_a_chunk_is_hashed_as_it_lies_on_the_disk(remote: MemoryRemote, tmp_path: Path) -> None:
    content = noise(MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    books = Books([spec])
    fetch(remote, books)
    (_key, finding) = books.findings[0]
    assert finding.found == hashlib.sha256(content).digest() == finding.expected
    assert (finding.offset, finding.length) == (0, MIB)


def test_no_description_is_left_open_and_no_thread_lives_on(remote: MemoryRemote, tmp_path: Path) -> None:
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    spec = build_of_one_file(
        key="none", source=RemoteName(b"/none/such"), size_bytes=5, folder=tmp_path / "l", name=b"x"
    )
    fetch(remote, Books([spec]))
    before, threads = handles(), threading.active_count()
    for number in range(3):
        fetch(remote, Books([replace(spec, folder=tmp_path / f"l{number}")]))
    assert handles() <= before
    wait_until(lambda: threading.active_count() <= threads, 3)
