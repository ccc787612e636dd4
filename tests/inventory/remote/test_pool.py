"""Connections: who is let in, at what pace, what happens when they break, and that nothing of them is left."""

from __future__ import annotations

import base64
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inventory.remote.base import (
    ConnectionLost,
    DeadlinePassed,
    HostKeyChanged,
    HostKeyUnknown,
    HostUnreachable,
    LoginRefused,
    RemoteError,
    ShellStream,
)
from inventory.remote.hostkeys import PinnedKey
from inventory.remote.keys import KeySource
from inventory.remote.names import RemoteName
from inventory.remote.pool import Endpoint, HandshakeGate, SshRemote
from tests.sshd import Sshd, make_key

Reach = Callable[..., SshRemote]


@pytest.fixture
def reach() -> Iterator[Reach]:
    """Connect: `reach(server.endpoint(), **options)`. Closed afterwards."""
    remotes: list[SshRemote] = []

    def connect(endpoint: Endpoint, **options: float) -> SshRemote:
        settings = {"no_data_timeout_seconds": 20.0, "connect_timeout_seconds": 10.0} | options
        remotes.append(SshRemote(endpoint, **settings))  # type: ignore[arg-type]
        return remotes[-1]

    yield connect
    for remote in remotes:
        remote.close()


def both_ways(remote: SshRemote) -> list[RemoteError]:
    """The errors of a script and of a lane."""
    errors: list[RemoteError] = []
    for act in (lambda: remote.run(b":", step="try"), lambda: remote.open_shell(timeout_seconds=10)):
        with pytest.raises(RemoteError) as raised:
            act()
        errors.append(raised.value)
    return errors


class TestHostKeys:
    def test_an_unpinned_host_is_shown_its_fingerprint_and_nothing_is_sent(self, sshd: Sshd, reach: Reach) -> None:
        pinned = sshd.endpoint()
        for error in both_ways(reach(Endpoint(pinned.address, pinned.port, pinned.username, pinned.key, None))):
            assert isinstance(error, HostKeyUnknown)
            assert (error.key_type, error.fingerprint) == ("ssh-ed25519", sshd.pinned.fingerprint)
            assert sshd.pinned.fingerprint in str(error)
        assert pinned.username not in sshd.log_path.read_text()

    @pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
    def test_a_changed_key_stops_everything_and_both_fingerprints_are_told(
        self, sshd: Sshd, reach: Reach, kind: str
    ) -> None:
        remote = reach(sshd.endpoint())
        assert remote.check(b"echo in", step="try") == b"in\n"
        old = sshd.pinned.fingerprint
        sshd.change_host_key(kind)
        sshd.log_path.write_text("")
        sshd.restart()
        sshd._note_host_key()
        for error in both_ways(remote):
            assert isinstance(error, HostKeyChanged)
            assert (error.expected, error.found) == (old, sshd.pinned.fingerprint)
            assert old in str(error) and sshd.pinned.fingerprint in str(error)
        assert "Accepted" not in sshd.log_path.read_text()

    def test_the_pinned_type_is_asked_for_though_the_server_has_better_ones(
        self, make_sshd: Callable[..., Sshd], reach: Reach, tmp_path: Path
    ) -> None:
        better = make_key(tmp_path / "better")
        server = make_sshd(host_key_kind="ecdsa", config=[f"HostKey {better}"])
        assert server.pinned.key_type == "ecdsa-sha2-nistp256"
        assert reach(server.endpoint()).check(b"echo in", step="try") == b"in\n"


class TestSigningIn:
    def test_a_key_that_is_not_let_in_is_refused_by_name(self, sshd: Sshd, reach: Reach, tmp_path: Path) -> None:
        wrong = make_key(tmp_path / "wrong")
        for error in both_ways(reach(sshd.endpoint(key_path=wrong))):
            assert isinstance(error, LoginRefused)
            assert f"“{sshd.username}”" in str(error)
            assert "authorized_keys" in str(error)
        sshd.authorize(wrong)
        assert reach(sshd.endpoint(key_path=wrong)).check(b"echo in", step="try") == b"in\n"

    @pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
    def test_every_type_of_key_signs_in(self, sshd: Sshd, reach: Reach, tmp_path: Path, kind: str) -> None:
        key = make_key(tmp_path / kind, kind)
        sshd.authorize(key)
        assert reach(sshd.endpoint(key_path=key)).check(b"echo in", step="try") == b"in\n"

    def test_a_server_that_takes_no_keys_is_told_what_it_allows(
        self, make_sshd: Callable[..., Sshd], reach: Reach
    ) -> None:
        server = make_sshd(config=["PubkeyAuthentication no", "PasswordAuthentication yes"])
        error = both_ways(reach(server.endpoint()))[0]
        assert isinstance(error, LoginRefused)
        assert "it allows password, no public keys" in str(error)

    def test_a_second_proof_is_not_supported_and_said_so(self, make_sshd: Callable[..., Sshd], reach: Reach) -> None:
        server = make_sshd(config=["AuthenticationMethods publickey,password", "PasswordAuthentication yes"])
        error = both_ways(reach(server.endpoint()))[0]
        assert isinstance(error, LoginRefused)
        assert "second proof" in str(error)

    def test_an_unknown_user_is_refused(self, sshd: Sshd, reach: Reach) -> None:
        known = sshd.endpoint()
        remote = reach(Endpoint(known.address, known.port, "nobody-here", known.key, known.pinned))
        assert all(isinstance(error, LoginRefused) for error in both_ways(remote))


class TestReaching:
    def test_a_stopped_server_is_unreachable_and_works_again_when_it_is_back(self, sshd: Sshd, reach: Reach) -> None:
        remote = reach(sshd.endpoint())
        sshd.stop()
        assert all(isinstance(error, HostUnreachable) for error in both_ways(remote))
        sshd.start()
        assert remote.check(b"echo back", step="try") == b"back\n"

    def test_a_name_without_an_address_is_told(self, sshd: Sshd, reach: Reach) -> None:
        known = sshd.endpoint()
        remote = reach(Endpoint("no such host", 22, "user", known.key, known.pinned), connect_timeout_seconds=3.0)
        with pytest.raises(HostUnreachable, match=r"no address|not resolved"):
            remote.run(b":", step="try")

    def test_a_server_that_hangs_is_given_up_in_time_and_reached_when_it_goes_on(
        self, sshd: Sshd, reach: Reach
    ) -> None:
        remote = reach(sshd.endpoint(), connect_timeout_seconds=1.0)
        remote.run(b":", step="try")
        lane = remote.open_shell()
        assert sshd.stop_children()
        begun = time.monotonic()
        with pytest.raises(DeadlinePassed):
            remote.run(b"echo x", step="try", timeout_seconds=1)
        lane.send(b"echo x\n")
        with pytest.raises(DeadlinePassed):
            lane.receive(10, timeout_seconds=0.5)
        assert time.monotonic() - begun < 8
        sshd.continue_children()
        assert remote.check(b"echo on", step="try") == b"on\n"
        lane.close()

    def test_a_restart_between_two_scripts_goes_unnoticed(self, sshd: Sshd, reach: Reach) -> None:
        remote = reach(sshd.endpoint())
        for _ in range(3):
            assert remote.check(b"echo in", step="try") == b"in\n"
            sshd.restart()

    def test_a_connection_that_is_cut_in_a_script_a_stream_or_a_lane_is_lost(self, sshd: Sshd, reach: Reach) -> None:
        remote = reach(sshd.endpoint())
        cut = threading.Timer(0.4, sshd.kill_children)
        cut.start()
        with pytest.raises(ConnectionLost):
            remote.run(b"sleep 20", step="try")
        cut.join()

        stream = remote.stream(b"while :; do echo more; done", step="try")
        next(stream)
        sshd.kill_children()
        with pytest.raises(ConnectionLost):
            for _ in stream:
                pass

        lane = remote.open_shell()
        lane.send(b"echo a; sleep 20\n")
        assert lane.receive(10, timeout_seconds=10) == b"a\n"
        sshd.kill_children()
        with pytest.raises(ConnectionLost):
            lane.receive(10, timeout_seconds=10)
        lane.close()
        assert remote.check(b"echo again", step="try") == b"again\n"

    def test_a_write_that_is_cut_leaves_no_file(self, sshd: Sshd, reach: Reach, tmp_path: Path) -> None:
        remote = reach(sshd.endpoint())
        target = remote_path(tmp_path / "file")

        def pieces() -> Iterator[bytes]:
            yield b"x" * 2**18
            sshd.kill_children()
            for _ in range(200):
                yield b"y" * 2**16

        with pytest.raises(ConnectionLost):
            remote.write_file(target, pieces())
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".calculet", "file"))] == []


def remote_path(path: Path) -> RemoteName:
    return RemoteName(os.fsencode(path))


class TestPace:
    def test_lanes_open_at_the_pace_that_the_server_allows(self, make_sshd: Callable[..., Sshd], reach: Reach) -> None:
        server = make_sshd(config=["MaxStartups 4"])
        remote = reach(server.endpoint())
        with ThreadPoolExecutor(12) as pool:
            lanes: list[ShellStream] = list(pool.map(lambda _: remote.open_shell(timeout_seconds=40), range(12)))
        for lane in lanes:
            lane.send(b"echo here\n")
        assert [lane.receive(10, timeout_seconds=10) for lane in lanes] == [b"here\n"] * 12

    def test_a_gate_lets_a_few_through_at_a_time(self) -> None:
        gate = HandshakeGate(2)
        inside, most, lock = 0, 0, threading.Lock()

        def pass_through() -> None:
            nonlocal inside, most
            with gate.passing(time.monotonic() + 10, "waiting"):
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.02)
                with lock:
                    inside -= 1

        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(pass_through) for _ in range(8)]:
                done.result()
        assert most == 2

    def test_a_gate_that_stays_full_says_so_in_time(self) -> None:
        gate = HandshakeGate(1)
        with (
            gate.passing(time.monotonic() + 1, "first"),
            pytest.raises(DeadlinePassed, match="second"),
            gate.passing(time.monotonic() + 0.1, "second"),
        ):
            pass

    @pytest.mark.parametrize("sessions", [1, 2])
    def test_scripts_side_by_side_work_though_the_server_allows_few_sessions(
        self, make_sshd: Callable[..., Sshd], reach: Reach, sessions: int
    ) -> None:
        server = make_sshd(config=[f"MaxSessions {sessions}"])
        remote = reach(server.endpoint())
        begun = time.monotonic()
        with ThreadPoolExecutor(6) as pool:
            results = list(pool.map(lambda n: remote.check(b"sleep 1.5; echo %d" % n, step="try"), range(6)))
        assert results == [b"%d\n" % number for number in range(6)]
        assert time.monotonic() - begun < 9

    def test_a_long_stream_does_not_bar_other_scripts_where_one_session_is_allowed(
        self, make_sshd: Callable[..., Sshd], reach: Reach
    ) -> None:
        remote = reach(make_sshd(config=["MaxSessions 1"]).endpoint())
        stream = remote.stream(b"echo first; sleep 30", step="try")
        next(stream)
        for number in range(5):
            assert remote.check(b"echo %d" % number, step="try") == b"%d\n" % number
        stream.close()  # type: ignore[attr-defined]


def standing() -> tuple[int, int]:
    """Threads and open files of this process."""
    gc.collect()
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


class TestNothingIsLeft:
    def settled(self, before: tuple[int, int]) -> tuple[int, int]:
        deadline = time.monotonic() + 5
        while (now := standing()) != before and time.monotonic() < deadline:
            time.sleep(0.05)
        return now

    def test_closing_gives_back_every_thread_and_file(self, sshd: Sshd) -> None:
        SshRemote(sshd.endpoint()).close()
        before = standing()
        for _ in range(3):
            remote = SshRemote(sshd.endpoint(), connect_timeout_seconds=10)
            remote.run(b"echo x", step="try")
            lanes = [remote.open_shell() for _ in range(3)]
            stream = remote.stream(b"while :; do echo more; done", step="try")
            next(stream)
            lanes[0].close()
            remote.close()
            del stream
        assert self.settled(before) == before

    def test_failures_give_back_every_thread_and_file(self, sshd: Sshd, tmp_path: Path) -> None:
        wrong, other = make_key(tmp_path / "wrong"), make_key(tmp_path / "other")
        known = sshd.endpoint()
        kind, blob = Path(f"{other}.pub").read_text().split()[:2]
        pinned = PinnedKey(kind, base64.b64decode(blob))
        endpoints = [
            sshd.endpoint(key_path=wrong),
            sshd.endpoint(pinned=pinned),
            Endpoint(known.address, known.port, known.username, known.key, None),
            Endpoint(known.address, known.port, known.username, KeySource(tmp_path / "none"), known.pinned),
            Endpoint(known.address, 1, known.username, known.key, known.pinned),
        ]
        before = standing()
        for endpoint in endpoints * 2:
            both_ways(remote := SshRemote(endpoint, connect_timeout_seconds=10))
            assert self.settled(before) == before, "before close, too"
            remote.close()
        assert self.settled(before) == before

    def test_lost_connections_give_back_every_thread_and_file(self, sshd: Sshd) -> None:
        remote = SshRemote(sshd.endpoint(), connect_timeout_seconds=10)
        before = standing()
        for _ in range(3):
            lane = remote.open_shell()
            remote.run(b":", step="try")
            sshd.kill_children()
            with pytest.raises(ConnectionLost):
                lane.receive(10, timeout_seconds=10)
            lane.close()
        with pytest.raises(RemoteError):
            sshd.stop()
            remote.run(b":", step="try")
        assert self.settled(before) == before
        remote.close()

    def test_the_server_sees_the_end_of_every_connection(self, sshd: Sshd) -> None:
        remote = SshRemote(sshd.endpoint(), connect_timeout_seconds=10)
        remote.run(b":", step="try")
        remote.open_shell()
        assert len(sshd.children()) >= 2
        remote.close()
        deadline = time.monotonic() + 5
        while sshd.children() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sshd.children() == []
