"""TCP connections with a deadline on every step: resolving a name, connecting, writing to a stopped server."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from inventory.remote.base import HostUnreachable

_FIRST_WORDS_BYTES = 64
_WAKES_FOR_AT_MOST = 64 * 1024


class PatientSocket(socket.socket):
    """A socket whose writes fail when the other side takes nothing for a stated time, and that wakes for whole packets.

    paramiko repeats a write that timed out for ever, so a stopped server would hold its caller as long as it likes.
    And it asks for the rest of an SSH packet again and again: over a slow link each TCP segment would wake it.
    """

    stall_seconds = 60.0
    first_words = b""  # what the other side said first, for error sentences
    wakes_for_whole = False  # set once only whole packets are asked for
    connect_seconds = 0.0  # how long the answer to the first packet took
    _stalled_since: float | None = None
    _wakes_for = 1

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Like socket.recv, and with `wakes_for_whole` waits until `size` bytes are there; notes the first words.

        Fewer come when the connection ends, and a time-out takes nothing of what is there.
        """
        if self.wakes_for_whole and min(size, _WAKES_FOR_AT_MOST) != self._wakes_for:
            self._wakes_for = min(size, _WAKES_FOR_AT_MOST)
            self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._wakes_for)
        data = super().recv(size, flags)
        if len(self.first_words) < _FIRST_WORDS_BYTES:
            self.first_words += data[:_FIRST_WORDS_BYTES]
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        """Like socket.send. Raises ConnectionResetError after `stall_seconds` without progress."""
        try:
            sent = super().send(data, flags)
        except TimeoutError:
            now = time.monotonic()
            if self._stalled_since is None:
                self._stalled_since = now
            elif now - self._stalled_since > self.stall_seconds:
                raise ConnectionResetError(errno.ECONNRESET, "the other side takes no data") from None
            raise
        self._stalled_since = None
        return sent


def connect(address: str, port: int, deadline: float, adopt: Callable[[PatientSocket], None]) -> PatientSocket:
    """A TCP connection to the first of the host's addresses that answers. Raises HostUnreachable."""
    found = _resolve(address, port, deadline)
    reason = "it has no address"
    for number, (family, kind, protocol, target) in enumerate(found):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        connecting = PatientSocket(family, kind, protocol)
        try:
            connecting.settimeout(max(0.1, left / (len(found) - number)))
            adopt(connecting)
            begun = time.monotonic()
            connecting.connect(target)
            connecting.connect_seconds = time.monotonic() - begun
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return connecting
        except TimeoutError:
            reason = "no answer in time"
            connecting.close()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            connecting.close()
        except BaseException:
            connecting.close()
            raise
    raise HostUnreachable(address, port, reason)


_Found = tuple[int, int, int, Any]


def _resolve(address: str, port: int, deadline: float) -> list[_Found]:
    """Addresses of a name. The system's resolver knows no deadline, so it is asked in a thread of its own."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(address)
        return _look_up(address, port)
    answers: queue.SimpleQueue[list[_Found] | HostUnreachable] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_look_up(address, port))
        except HostUnreachable as error:
            answers.put(error)

    threading.Thread(target=ask, name="resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=max(0.1, deadline - time.monotonic()))
    except queue.Empty:
        raise HostUnreachable(address, port, "its name was not resolved in time") from None
    if isinstance(answer, HostUnreachable):
        raise answer
    return answer


def _look_up(address: str, port: int) -> list[_Found]:
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = f"its name has no address: {getattr(error, 'strerror', None) or error}"
        raise HostUnreachable(address, port, reason) from error
    return [(family, kind, protocol, target) for family, kind, protocol, _, target in found]
