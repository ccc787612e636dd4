"""A link and the hosts it meets: servers with tight limits, ones that re-key, hang, die, talk, or can do little."""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko.packet
import pytest

from inventory.remote.pool import SshRemote
from tests.engine.books import MIB, Books, RunningLink, fetch, noise, one_file, wait_until
from tests.fakes import MemoryRemote
from tests.live.fetching import slow_dd
from tests.parts import find
from tests.sshd import Sshd
from transfers.engine.source import prelude
from transfers.engine.types import BuildSpec

MakeSshd = Callable[..., Sshd]


@pytest.fixture
def reach() -> Iterator[Callable[[Sshd], SshRemote]]:
    """A remote on a server, closed afterwards."""
    remotes: list[SshRemote] = []

    def make(server: Sshd) -> SshRemote:
        remotes.append(SshRemote(server.endpoint(), no_data_timeout_seconds=30, connect_timeout_seconds=10))
        return remotes[-1]

    yield make
    for remote in remotes:
        remote.close()


Reach = Callable[[Sshd], SshRemote]


def _landed(spec: BuildSpec) -> bytes:
    return (spec.folder / spec.incoming_name).read_bytes()


def _handles() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


# -- limits of the server ------------------------------------------------------------------------------------------


def test_a_server_that_turns_away_every_other_connection_serves_all_lanes_in_the_end(
    make_sshd: MakeSshd, reach: Reach, tmp_path: Path
) -> None:
    server = make_sshd(config=["MaxStartups 3:50:5"], path=slow_dd(tmp_path / "slow", 64))
    content = noise(16 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    before = _handles()
    books, remote = Books([spec], lanes=12), reach(server)
    with RunningLink(remote, books) as link:

        def working() -> int:
            lanes = books.samples[-1][1].lanes if books.samples else ()
            return sum(lane.state == "working" for lane in lanes)

        wait_until(lambda: working() == 12, 15, what="twelve lanes")
        summary = link.finish()
    remote.close()
    assert summary.received and _landed(spec) == content and not books.problems
    wait_until(lambda: _handles() <= before, 5, what="every description given back")


def test_one_session_a_connection_is_enough_for_many_lanes(make_sshd: MakeSshd, reach: Reach, tmp_path: Path) -> None:
    content = noise(9 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    summary = fetch(reach(make_sshd(config=["MaxSessions 1"])), Books([spec], lanes=6))
    assert summary.received and _landed(spec) == content
    assert summary.lanes == 6 and summary.reconnects == 0 and summary.refusals == 0


# -- new keys in mid-transfer --------------------------------------------------------------------------------------


def test_a_server_that_renews_its_keys_every_mebibyte_costs_nothing(
    make_sshd: MakeSshd, reach: Reach, tmp_path: Path
) -> None:
    server = make_sshd(config=["RekeyLimit 1M", "LogLevel DEBUG1"])
    content = noise(24 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    summary = fetch(reach(server), Books([spec], lanes=2))
    assert summary.received and _landed(spec) == content
    assert summary.reconnects == 0 and summary.new_bytes == len(content)
    assert len(re.findall(r"rekey|set_newkeys", server.log_path.read_text())) > 20  # it did renew them


def test_our_own_side_renews_its_keys_without_losing_a_byte(
    sshd: Sshd, reach: Reach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paramiko.packet.Packetizer, "REKEY_BYTES", 2 * MIB)  # 512 MiB otherwise
    content = noise(24 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    summary = fetch(reach(sshd), Books([spec], lanes=2))
    assert summary.received and _landed(spec) == content and summary.reconnects == 0


# -- servers that die and hang -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1])
def test_connections_killed_and_stopped_at_random_cost_little_and_end_in_the_right_bytes(
    make_sshd: MakeSshd, reach: Reach, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    server = make_sshd(path=slow_dd(tmp_path / "slow", 64))
    content = noise(14 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    books, stopped, hits = Books([spec], lanes=6), [], 0
    with RunningLink(reach(server), books) as link:
        wait_until(lambda: link.here() > MIB, what="a MiB")
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            time.sleep(chance.uniform(0.1, 0.5))
            victim = chance.choice(server.children() or [0])
            if victim:
                hits += 1
                number = chance.choice((signal.SIGKILL, signal.SIGSTOP))
                stopped += [victim] if number is signal.SIGSTOP else []
                _signal(victim, number)
        summary = link.finish()
    for victim in stopped:
        _signal(victim, signal.SIGCONT)
    assert hits >= 4
    assert summary.received and _landed(spec) == content and summary.new_bytes == len(content)
    assert summary.refetched_bytes <= hits * 512 * 1024 + MIB  # a lane's windows, and doubled ends


def _signal(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


def test_a_host_that_stands_still_is_told_in_bounded_time_and_asked_for_little_meanwhile(tmp_path: Path) -> None:
    shell = _program(tmp_path / "deaf", f"exec cat >>{tmp_path}/asked")
    (tmp_path / "home").mkdir()
    remote = MemoryRemote(tmp_path / "home", shell=str(shell))
    books = Books([one_file(tmp_path / "landing", tmp_path / "source", noise(16 * MIB))], lanes=4)
    with RunningLink(remote, books):
        time.sleep(1.5)
        assert threading.active_count() < 20
    remote.close()
    asked = re.findall(rb"^r \S+ \d+ (\d+)$", (tmp_path / "asked").read_bytes(), flags=re.MULTILINE)
    assert asked and sum(map(int, asked)) <= 4 * 3 * 256 * 1024  # not the whole file up front


def test_a_server_that_answers_only_the_first_requests_is_passed_by_with_new_connections(tmp_path: Path) -> None:
    # After the prelude and a few requests nothing is answered any more, and nothing is closed.
    lines = prelude(b"n" * 32).count(b"\n") + 4
    first = f'n=0; while [ $n -lt {lines} ] && IFS= read -r line; do printf "%s\\n" "$line"; n=$((n + 1)); done'
    shell = _program(tmp_path / "forgetful", f"{{ {first}; }} | /bin/sh -s\nexec cat >/dev/null")
    (tmp_path / "home").mkdir()
    remote = MemoryRemote(tmp_path / "home", shell=str(shell))
    content = noise(3 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    summary = fetch(remote, Books([spec], lanes=8))
    remote.close()
    assert summary.received and _landed(spec) == content and summary.reconnects > 0


# -- hosts that talk, and hosts that can do little -----------------------------------------------------------------


@pytest.mark.parametrize(
    "start_up",
    [
        "echo 'Welcome'; echo 'ERROR: quota exceeded' >&2\n",
        "head -c 400000 /dev/zero | tr '\\0' 'x'\n",
        f"{find('head')} -c 10485760 /dev/zero | tr '\\0' '\\n' >&2\n",
    ],
    ids=["a greeting", "a long greeting", "ten MiB of errors"],
)
def test_a_banner_and_a_login_shell_that_talks_change_nothing(
    make_sshd: MakeSshd, reach: Reach, tmp_path: Path, start_up: str
) -> None:
    banner = tmp_path / "banner"
    banner.write_text("ERROR: authorised use only\nPermission denied\n" * 50)
    server = make_sshd(config=[f"Banner {banner}"])
    server.talk_at_login(start_up)
    content = noise(5 * MIB + 3)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    summary = fetch(reach(server), Books([spec], lanes=3))
    assert summary.received and _landed(spec) == content and summary.reconnects == 0


def test_a_host_whose_dd_cannot_count_bytes_serves(make_sshd: MakeSshd, reach: Reach, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    dd = find("dd")
    _program(
        folder / "dd",
        f'for word; do case $word in iflag=*) echo "unknown operand $word" >&2; exit 1;; esac; done\nexec {dd} "$@"',
    )
    content = noise(5 * MIB + 12_345)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content, chunk_bytes=MIB + 1000)  # nothing is aligned
    summary = fetch(reach(make_sshd(path=f"{folder}:/usr/bin:/bin")), Books([spec], lanes=3))
    assert summary.received and _landed(spec) == content


def _program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
