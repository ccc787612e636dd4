"""What is said before the server has answered: how many round trips that leaves, and servers that cannot have it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inventory.remote import ahead
from inventory.remote.base import LoginRefused, ShellStream
from inventory.remote.pool import BEGUN_AT_MOST, SshRemote
from tests.relay import SlowWire, slow_wire
from tests.sshd import Sshd, make_key

ROUND_TRIP_SECONDS = 0.3


@pytest.fixture
def wire(sshd: Sshd) -> Iterator[SlowWire]:
    with slow_wire(sshd.port, ROUND_TRIP_SECONDS / 2) as laid:
        yield laid


def _remote(sshd: Sshd, port: int, key_path: Path | None = None) -> SshRemote:
    endpoint = sshd.endpoint(key_path=key_path) if key_path else sshd.endpoint()
    return SshRemote(dataclasses.replace(endpoint, port=port), no_data_timeout_seconds=20.0)


def _round_trips(act: Callable[[], object]) -> float:
    begun = time.monotonic()
    act()
    return (time.monotonic() - begun) / ROUND_TRIP_SECONDS


def _echo(shell: ShellStream, word: bytes) -> bytes:
    shell.send(b"echo " + word + b"\n")
    return shell.receive(100, timeout_seconds=20)


def test_a_first_answer_takes_four_round_trips_besides_connecting(sshd: Sshd, wire: SlowWire) -> None:
    """Names and key lists; keys; signing in with channel and shell; the words and their answer. It was eight."""
    remote = _remote(sshd, wire.port)
    try:
        assert _round_trips(lambda: _echo(remote.open_shell(), b"in")) < 5.5
        assert _round_trips(lambda: remote.check(b"echo in", step="try")) < 5.5
        assert _round_trips(lambda: remote.check(b"echo in", step="try")) < 3.5  # its channel, then the script
    finally:
        remote.close()


def test_shells_begun_early_are_ready_when_the_first_answer_is(sshd: Sshd, wire: SlowWire) -> None:
    remote = _remote(sshd, wire.port)
    try:
        remote.begin_shells(3)
        remote.check(b"echo in", step="try")
        assert _round_trips(lambda: [remote.open_shell() for _ in range(3)]) < 1.5
        assert wire.connections == 4
        shells = [remote.open_shell() for _ in range(1)]
        assert _echo(shells[0], b"later") == b"later\n" and wire.connections == 5
    finally:
        remote.close()


def test_more_shells_begin_when_the_first_connection_is_let_in(sshd: Sshd, wire: SlowWire) -> None:
    remote = _remote(sshd, wire.port)
    told: list[int] = []
    remote.on_let_in = lambda: told.append(remote.begin_shells(3))
    try:
        assert remote.begin_shells(100) == BEGUN_AT_MOST
        remote.check(b"echo in", step="try")
        for _ in range(BEGUN_AT_MOST + 3):
            assert _echo(remote.open_shell(), b"lane") == b"lane\n"
        assert told == [3] and wire.connections == 1 + BEGUN_AT_MOST + 3
    finally:
        remote.close()


def test_a_key_that_is_not_accepted_is_offered_once(sshd: Sshd, tmp_path: Path) -> None:
    remote = _remote(sshd, sshd.port, make_key(tmp_path / "wrong"))
    remote.begin_shells(4)
    with pytest.raises(LoginRefused):
        remote.run(b":", step="try")
    remote.close()
    time.sleep(0.3)
    assert sshd.log_path.read_text().count("Failed publickey") == 1


def test_a_server_of_another_make_is_spoken_to_word_by_word(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead.AheadTransport, "speaks_ahead", property(lambda transport: False))
    remote = _remote(sshd, sshd.port)
    try:
        remote.begin_shells(1)
        assert remote.check(b"echo in", step="try") == b"in\n"
        assert _echo(remote.open_shell(), b"lane") == b"lane\n"
    finally:
        remote.close()


def test_a_server_that_numbers_channels_in_another_way_is_dialled_again_word_by_word(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_FIRST_NUMBER", 7)
    remote = _remote(sshd, sshd.port)
    try:
        assert remote.check(b"echo in", step="try") == b"in\n"
        assert _echo(remote.open_shell(), b"lane") == b"lane\n"
    finally:
        remote.close()


def test_more_than_the_credit_waits_for_the_server(sshd: Sshd) -> None:
    remote = _remote(sshd, sshd.port)
    try:
        shell = remote.open_shell()
        shell.send(b": " + b"x" * (8 * ahead.CREDIT_BYTES) + b"\n" + b": y\n" * (60 * ahead.CREDIT_BYTES // 4))
        assert _echo(shell, b"all") == b"all\n"
    finally:
        remote.close()
