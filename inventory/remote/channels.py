"""A shell's standard streams over one SSH channel: for framed scripts, and for lanes."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable

import paramiko

from inventory.remote.base import ConnectionLost, DeadlinePassed, ShellUnusable
from inventory.remote.connection import Connection
from inventory.remote.shell import COMMAND_LINE, GREETING_LIMIT_BYTES

READ_BYTES = 256 * 1024
_EXIT_STATUS_SECONDS = 5.0


def start_shell(channel: paramiko.Channel, connection: Connection) -> None:
    """Ask for `exec /bin/sh -s` and do not wait for the answer: a refusal closes the channel by itself.

    paramiko's own exec_command waits for the answer without a deadline, and costs a round trip.
    """
    message = paramiko.Message()
    message.add_byte(bytes([98]))  # SSH_MSG_CHANNEL_REQUEST
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(True)  # noqa: FBT003  (paramiko: answer wanted)
    message.add_string(COMMAND_LINE)
    try:
        connection.transport._send_user_message(message)  # type: ignore[attr-defined]
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise connection.lost() from error


class SshSession:
    """One framed script's streams. `on_close` tells the pool."""

    def __init__(self, connection: Connection, channel: paramiko.Channel, on_close: Callable[[], None]) -> None:
        self.connection, self._channel, self._on_close = connection, channel, on_close
        self._closed = False
        self._ready = threading.Event()
        # Either stream wakes the reader; see `receive` for why no piece is missed.
        channel.in_buffer.set_event(self._ready)
        channel.in_stderr_buffer.set_event(self._ready)
        start_shell(channel, connection)

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

    def __init__(self, connection: Connection, channel: paramiko.Channel, on_close: Callable[[], None]) -> None:
        self._connection, self._channel, self._on_close = connection, channel, on_close
        self._rest = b""

    def start(self, *, timeout_seconds: float) -> None:
        """Start the shell and skip what the login shell prints first. Raises ShellUnusable, DeadlinePassed."""
        marker = secrets.token_hex(16).encode()
        start_shell(self._channel, self._connection)
        self.send(
            b"LC_ALL=C; export LC_ALL; exec 2>/dev/null\n"
            b"printf '%s%s\\n' " + marker[:16] + b" " + marker[16:] + b"\n"
        )  # fmt: skip
        deadline = time.monotonic() + timeout_seconds
        seen, dropped = b"", 0
        while (at := seen.find(marker + b"\n")) < 0:
            dropped += max(0, len(seen) - len(marker))
            seen = seen[-len(marker) :]
            if dropped > GREETING_LIMIT_BYTES:
                raise ShellUnusable("the login shell prints without end before it runs our command")
            try:
                seen += self.receive(READ_BYTES, timeout_seconds=max(0.01, deadline - time.monotonic()))
            except ConnectionLost as error:
                if self._connection.is_alive:
                    raise ShellUnusable("the login shell ended before it ran /bin/sh") from error
                raise
        self._rest = seen[at + len(marker) + 1 :]

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
        """See `ShellStream.receive`."""
        if self._rest:
            data, self._rest = self._rest[:limit_bytes], self._rest[limit_bytes:]
            return data
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

    def close(self) -> None:
        """See `ShellStream.close`."""
        self._connection.end()
        self._on_close()
