"""A shell's standard streams over one SSH channel: for framed scripts, and for lanes."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable

import paramiko

from inventory.remote.ahead import AheadChannel
from inventory.remote.base import ConnectionLost, DeadlinePassed, SftpUnusable, ShellUnusable
from inventory.remote.connection import Connection
from inventory.remote.shell import GREETING_LIMIT_BYTES
from inventory.remote.wire import Wire

READ_BYTES = 256 * 1024
_EXIT_STATUS_SECONDS = 5.0


class SshSession:
    """One framed script's streams. `on_close` tells the pool."""

    def __init__(self, connection: Connection, channel: AheadChannel, on_close: Callable[[], None]) -> None:
        self.connection, self._channel, self._on_close = connection, channel, on_close
        self._closed = False
        self._ready = threading.Event()
        # Either stream wakes the reader; see `receive` for why no piece is missed.
        channel.in_buffer.set_event(self._ready)
        channel.in_stderr_buffer.set_event(self._ready)
        connection.start_shell(channel)

    def send(self, data: bytes, *, timeout_seconds: float) -> None:
        """See `Session.send`."""
        view = memoryview(data)
        self._channel.settimeout(timeout_seconds)
        while view:
            try:
                sent = self._channel.send(view[: 2**18].tobytes())
            except TimeoutError:
                raise
            except (paramiko.SSHException, EOFError, OSError) as error:
                if not self.connection.is_alive:
                    raise self.connection.lost() from error
                raise BrokenPipeError from error
            if not self.connection.is_alive:
                raise self.connection.lost()
            if sent == 0:
                raise BrokenPipeError
            view = view[sent:]

    def end_input(self) -> None:
        """See `Session.end_input`."""
        try:
            self._channel.shutdown_write()
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self.connection.lost() from error

    def receive(self, *, timeout_seconds: float) -> tuple[bytes, bytes]:
        """See `Session.receive`.

        Reading a stream empty clears the shared event, perhaps one that the other stream has just set; so after every
        read both are looked at again before anybody waits.
        """
        deadline = time.monotonic() + timeout_seconds
        channel = self._channel
        while True:
            ended = channel.eof_received or channel.closed
            out = self._read(channel.recv) if channel.recv_ready() else b""
            errors = self._read(channel.recv_stderr) if channel.recv_stderr_ready() else b""
            if out or errors:
                return out, errors
            if ended:
                if not self.connection.is_alive:
                    raise self.connection.lost()
                if channel.is_request_refused:
                    raise ShellUnusable("its server runs no commands for this account")
                return b"", b""
            wait = deadline - time.monotonic()
            if wait <= 0:
                raise TimeoutError
            self._ready.wait(wait)

    def _read(self, read: Callable[[int], bytes]) -> bytes:
        self._channel.settimeout(0.0)
        try:
            return read(READ_BYTES)
        except TimeoutError:
            return b""
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self.connection.lost() from error

    def exit_status(self) -> int | None:
        """See `Session.exit_status`."""
        self._channel.status_event.wait(_EXIT_STATUS_SECONDS)
        status = self._channel.exit_status
        return status if status >= 0 else None

    def close(self) -> None:
        """See `Session.close`."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            self._channel.close()
        self._on_close()


class SshShellStream:
    """A lane's shell on a connection of its own; see `ShellStream`."""

    def __init__(self, connection: Connection, channel: AheadChannel, on_close: Callable[[], None]) -> None:
        self._connection, self._channel, self._on_close = connection, channel, on_close
        self._marker = secrets.token_hex(16).encode() + b"\n"
        self._is_greeting = True  # what the login shell prints of its own comes first
        self._greeting, self._greeting_bytes = b"", 0
        self._rest = b""

    def start(self) -> None:
        """Start the shell, and have it say when what it prints is ours. Waits for nothing. Raises ConnectionLost."""
        self._connection.start_shell(self._channel)
        self.send(
            b"LC_ALL=C; export LC_ALL; exec 2>/dev/null\n"
            b"printf '%s%s\\n' " + self._marker[:16] + b" " + self._marker[16:-1] + b"\n"
        )  # fmt: skip

    def send(self, script: bytes) -> None:
        """See `ShellStream.send`."""
        try:
            self._channel.settimeout(self._channel.gettimeout() or 60.0)
            self._channel.sendall(script)
        except TimeoutError as error:
            raise self._connection.lost("the host takes no commands") from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self._connection.lost() from error

    def receive(self, limit_bytes: int, *, timeout_seconds: float) -> bytes:
        """See `ShellStream.receive`. Raises ShellUnusable too, until the shell has spoken."""
        deadline = time.monotonic() + timeout_seconds
        if self._is_greeting:
            self._skip_greeting(deadline)
        if self._rest:
            data, self._rest = self._rest[:limit_bytes], self._rest[limit_bytes:]
            return data
        return self._receive(limit_bytes, max(0.01, deadline - time.monotonic()))

    def _skip_greeting(self, deadline: float) -> None:
        while (at := self._greeting.find(self._marker)) < 0:
            self._greeting = self._greeting[-len(self._marker) :]
            if self._greeting_bytes > GREETING_LIMIT_BYTES:
                raise ShellUnusable("the login shell prints without end before it runs our command")
            try:
                data = self._receive(READ_BYTES, max(0.01, deadline - time.monotonic()))
            except ConnectionLost as error:
                if self._connection.is_alive:
                    raise ShellUnusable("the login shell ended before it ran /bin/sh") from error
                raise
            self._greeting += data
            self._greeting_bytes += len(data)
        self._rest = self._greeting[at + len(self._marker) :]
        self._is_greeting, self._greeting = False, b""

    def _receive(self, limit_bytes: int, timeout_seconds: float) -> bytes:
        channel = self._channel
        try:
            while channel.recv_stderr_ready():
                # What the login shell complained about on its way shares the window, so it is taken and dropped.
                channel.recv_stderr(READ_BYTES)
            channel.settimeout(timeout_seconds)
            data = channel.recv(limit_bytes)
        except TimeoutError as error:
            what = f"The connection to {self._connection.address} port {self._connection.port}"
            raise DeadlinePassed(what, timeout_seconds) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self._connection.lost() from error
        if not data:
            raise self._connection.lost("the shell ended" if self._connection.is_alive else "")
        return data

    def wire(self) -> Wire | None:
        """What the kernel and the handshake here know of this lane's connection. Raises ConnectionLost."""
        return self._connection.wire()

    def close(self) -> None:
        """See `ShellStream.close`."""
        self._connection.end()
        self._on_close()


class SshByteStream:
    """The SFTP server's input and output on a connection of its own; see `ByteStream`."""

    def __init__(self, connection: Connection, channel: AheadChannel, on_close: Callable[[], None]) -> None:
        self._connection, self._channel, self._on_close = connection, channel, on_close
        connection.start_subsystem(channel, "sftp")

    def send(self, data: bytes, *, timeout_seconds: float) -> None:
        """See `ByteStream.send`."""
        self._channel.settimeout(timeout_seconds)
        try:
            self._channel.sendall(data)
        except TimeoutError as error:
            raise self._silent(timeout_seconds) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            if self._connection.is_alive:
                raise self._unusable() from error
            raise self._connection.lost() from error

    def receive(self, *, timeout_seconds: float) -> bytes:
        """See `ByteStream.receive`."""
        channel = self._channel
        try:
            while channel.recv_stderr_ready():
                # What start-up files complain about shares the window, so it is taken and dropped.
                channel.recv_stderr(READ_BYTES)
            channel.settimeout(timeout_seconds)
            data = channel.recv(READ_BYTES)
        except TimeoutError as error:
            raise self._silent(timeout_seconds) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self._connection.lost() from error
        if not data and not self._connection.is_alive:
            raise self._connection.lost()
        if not data and channel.is_request_refused:
            raise self._unusable()
        return data

    def lost(self, reason: str) -> ConnectionLost:
        """See `ByteStream.lost`."""
        return self._connection.lost(reason)

    def _unusable(self) -> SftpUnusable:
        if self._channel.is_request_refused:
            return SftpUnusable("its server offers none to this account")
        return SftpUnusable("it ended without a word")

    def _silent(self, timeout_seconds: float) -> DeadlinePassed:
        what = f"SFTP at {self._connection.address} port {self._connection.port}"
        return DeadlinePassed(what, timeout_seconds)

    def close(self) -> None:
        """See `ByteStream.close`."""
        self._connection.end()
        self._on_close()
