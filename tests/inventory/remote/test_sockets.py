"""What one socket does for a connection: it wakes for whole packets, and loses nothing by that."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from inventory.remote.pool import HandshakeGate
from inventory.remote.sockets import PatientSocket, connect


@pytest.fixture
def ends() -> Iterator[tuple[PatientSocket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = connect("127.0.0.1", listener.getsockname()[1], time.monotonic() + 10, lambda made: None)
        far, _ = listener.accept()
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with near, far:
            yield near, far


def _in_pieces(far: socket.socket, count: int) -> threading.Thread:
    def send() -> None:
        for _ in range(count):
            far.sendall(b"x" * 100)
            time.sleep(0.01)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_a_whole_packet_wakes_once_however_many_pieces_it_comes_in(ends: tuple[PatientSocket, socket.socket]) -> None:
    near, far = ends
    near.wakes_for_whole = True
    thread = _in_pieces(far, 20)
    assert near.recv(2000) == b"x" * 2000
    thread.join()
    far.sendall(b"abc")
    assert near.recv(3) == b"abc"


def test_what_is_there_at_a_timeout_is_kept_and_at_the_end_it_is_given(
    ends: tuple[PatientSocket, socket.socket],
) -> None:
    near, far = ends
    near.wakes_for_whole = True
    near.settimeout(0.1)
    far.sendall(b"abc")
    with pytest.raises(TimeoutError):
        near.recv(5)
    far.sendall(b"de")
    assert near.recv(5) == b"abcde"
    far.sendall(b"f")
    far.close()
    assert near.recv(100) == b"f" and near.recv(100) == b""


def test_a_place_at_the_gate_is_given_back_once_however_early() -> None:
    gate = HandshakeGate(1)
    with gate.passing(time.monotonic() + 1, "wait") as leave:
        leave()
        leave()
        with gate.passing(time.monotonic() + 1, "wait"):
            pass
    with gate.passing(time.monotonic() + 1, "wait"):
        pass
