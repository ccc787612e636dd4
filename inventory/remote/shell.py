"""Scripts to a POSIX shell and their output back, whatever the login shell prints around it.

The command line is always the constant `exec /bin/sh -s`. Each script goes in on standard input as one compound
command, so that the shell has read all of it before it runs any:

    LC_ALL=C; export LC_ALL
    { printf START; printf START >&2; ( SCRIPT ) </dev/null; printf "END:$?"; exit; }

START and END are random and are put together by the host from two halves, so a shell that echoes its input cannot
forge them. What came before START (greetings) or after END is dropped.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from typing import Protocol

from inventory.remote.base import (
    CommandFailed,
    Completed,
    ConnectionLost,
    DeadlinePassed,
    ShellUnusable,
)

COMMAND_LINE = "exec /bin/sh -s"
ERRORS_KEPT_BYTES = 64 * 1024
GREETING_LIMIT_BYTES = 1024 * 1024  # more than this before our marker is not a greeting
_STATUS = re.compile(rb":(\d{1,3});")


def quote(raw: bytes) -> bytes:
    """Make one word of a POSIX shell from any bytes but NUL. Raises ValueError for NUL."""
    if b"\0" in raw:
        raise ValueError("A word of a shell script cannot hold a NUL byte.")
    return b"'" + raw.replace(b"'", b"'\\''") + b"'"


class Session(Protocol):
    """One run of `exec /bin/sh -s`: standard input goes in, both outputs come back. For one thread."""

    def send(self, data: bytes, *, timeout_seconds: float) -> None:
        """Write to standard input. Raises ConnectionLost, DeadlinePassed; BrokenPipeError when the shell ended."""

    def end_input(self) -> None:
        """Close standard input."""

    def receive(self, *, timeout_seconds: float) -> tuple[bytes, bytes]:
        """Pieces of output and errors as soon as there are any; both empty at the end of both.

        Raises TimeoutError, ConnectionLost.
        """

    def exit_status(self) -> int | None:
        """After the end: how the shell ended, None when that did not become known."""

    def close(self) -> None:
        """Let go of it, whatever runs there. Safe to call twice."""


class Frame:
    """One script between two random markers."""

    def __init__(self) -> None:
        self.start, self.end = secrets.token_hex(16).encode(), secrets.token_hex(16).encode()

    def wrap(self, script: bytes, *, reads_input: bool) -> bytes:
        """The text to send. With `reads_input` the script's children read what follows on standard input."""
        source = b"" if reads_input else b" </dev/null"
        return b"".join(
            (
                b"LC_ALL=C; export LC_ALL\n{\n",
                b"printf '%s%s\\n' ", self.start[:16], b" ", self.start[16:], b" >&2\n",
                b"printf '%s%s\\n' ", self.start[:16], b" ", self.start[16:], b"\n(\n",
                script,
                b"\n)", source, b"\n",
                b"printf '%s%s:%d;\\n' ", self.end[:16], b" ", self.end[16:], b" $?\nexit 0\n}\n",
            )
        )  # fmt: skip


class FrameReader:
    """Takes a session's output apart: greeting, output, status. Keeps back only what might be a marker's beginning."""

    def __init__(self, frame: Frame) -> None:
        self._start, self._end = frame.start + b"\n", frame.end
        self.status: int | None = None
        self.started = False
        self.greeting_bytes = 0
        self._held = b""
        self._errors = b""
        self._errors_started = False

    def output(self, piece: bytes) -> bytes:
        """The script's own output within the next piece of standard output."""
        if self.status is not None:
            return b""
        data = self._held + piece
        if not self.started:
            at = data.find(self._start)
            if at < 0:
                self._held = data[-len(self._start) :]
                self.greeting_bytes += len(data) - len(self._held)
                return b""
            self.started = True
            self.greeting_bytes += at
            data = data[at + len(self._start) :]
        at = data.find(self._end)
        if at >= 0:
            match = _STATUS.match(data, at + len(self._end))
            if match is not None:
                self.status, self._held = int(match.group(1)), b""
                return data[:at]
            # The marker is whole, its status is still on the way.
            self._held = data[at:]
            return data[:at]
        kept = next((size for size in range(len(self._end) - 1, 0, -1) if data.endswith(self._end[:size])), 0)
        self._held = data[len(data) - kept :]
        return data[: len(data) - kept]

    def errors(self, piece: bytes) -> None:
        """Note a piece of standard error; only its last 64 KiB are kept."""
        self._errors += piece
        if not self._errors_started:
            at = self._errors.find(self._start)
            if at >= 0:
                self._errors_started = True
                self._errors = self._errors[at + len(self._start) :]
        if len(self._errors) > 2 * ERRORS_KEPT_BYTES:
            self._errors = self._errors[-ERRORS_KEPT_BYTES:]

    def rest(self) -> bytes:
        """Output held back when the end marker never came."""
        held, self._held = self._held, b""
        return held if self.started else b""

    @property
    def last_errors(self) -> bytes:
        """The last 64 KiB of standard error."""
        return self._errors[-ERRORS_KEPT_BYTES:] if self._errors_started else b""


class FramedCall:
    """One script on one session, read piece by piece. `what` and `place` are for error sentences."""

    def __init__(self, session: Session, *, step: str, address: str, port: int) -> None:
        self._session, self._step, self._address, self._port = session, step, address, port
        self._frame = Frame()
        self.reader = FrameReader(self._frame)

    def begin(self, script: bytes, *, timeout_seconds: float, reads_input: bool = False) -> None:
        """Send the script. Raises ConnectionLost, DeadlinePassed, ShellUnusable."""
        try:
            self._session.send(self._frame.wrap(script, reads_input=reads_input), timeout_seconds=timeout_seconds)
            if not reads_input:
                self._session.end_input()  # so that a shell which misses a closing quote ends instead of waiting
        except TimeoutError as error:
            raise DeadlinePassed(self._step, timeout_seconds) from error
        except BrokenPipeError:
            self._read_to_end(timeout_seconds)
            raise ShellUnusable("the shell ended before it read our script") from None

    def pieces(self, *, silence_seconds: float, deadline: float | None = None) -> Iterator[bytes]:
        """The script's output until its status is known, in pieces of any size.

        `silence_seconds` bounds each wait, `deadline` (monotonic) the whole. Raises DeadlinePassed, ConnectionLost,
        ShellUnusable.
        """
        while self.reader.status is None:
            wait = silence_seconds if deadline is None else min(silence_seconds, deadline - time.monotonic())
            try:
                if wait <= 0:
                    raise TimeoutError
                out, errors = self._session.receive(timeout_seconds=wait)
            except TimeoutError as error:
                raise DeadlinePassed(self._step, silence_seconds) from error
            if not out and not errors:
                yield from self._ended()
                return
            if errors:
                self.reader.errors(errors)
            if out:
                piece = self.reader.output(out)
                if self.reader.greeting_bytes > GREETING_LIMIT_BYTES:
                    raise ShellUnusable("the login shell prints without end before it runs our command")
                if piece:
                    yield piece
        self._drain_errors()

    def wait_started(self, *, timeout_seconds: float) -> None:
        """Read on until the script runs, so that what is sent from then on is read by its children alone."""
        deadline = time.monotonic() + timeout_seconds
        while not self.reader.started:
            try:
                wait = deadline - time.monotonic()
                if wait <= 0:
                    raise TimeoutError
                out, errors = self._session.receive(timeout_seconds=wait)
            except TimeoutError as error:
                raise DeadlinePassed(self._step, timeout_seconds) from error
            if not out and not errors:
                raise ShellUnusable("it ended before it ran our script")
            self.reader.errors(errors)
            self.reader.output(out)

    def _drain_errors(self) -> None:
        """Errors printed before the end marker may arrive a moment after it: read to the end, but do not insist."""
        give_up = time.monotonic() + 2.0
        try:
            while (wait := give_up - time.monotonic()) > 0:
                out, errors = self._session.receive(timeout_seconds=wait)
                if not out and not errors:
                    return
                self.reader.errors(errors)
        except (TimeoutError, ConnectionLost):
            return  # the status is known; a child that keeps the streams open changes nothing

    def _read_to_end(self, timeout_seconds: float) -> None:
        try:
            while any(self._session.receive(timeout_seconds=timeout_seconds)):
                continue
        except TimeoutError as error:
            raise DeadlinePassed(self._step, timeout_seconds) from error

    def _ended(self) -> Iterator[bytes]:
        """The session ended without our end marker."""
        status = self._session.exit_status()
        if status is None:
            raise ConnectionLost(self._address, self._port, f"during “{self._step}”")
        if not self.reader.started:
            raise ShellUnusable(f"the login shell ended with status {status} before it ran our script")
        if status == 0:
            raise ShellUnusable("it ended in the middle of our script without a word")
        if rest := self.reader.rest():
            yield rest
        self.reader.status = status


def run_framed(
    session: Session, script: bytes, *, step: str, timeout_seconds: float, deadline: float, at: tuple[str, int]
) -> Completed:
    """Run a script on a fresh session until the (monotonic) deadline, which `timeout_seconds` explains to people.

    Raises DeadlinePassed, ConnectionLost, ShellUnusable.
    """
    call = FramedCall(session, step=step, address=at[0], port=at[1])
    call.begin(script, timeout_seconds=timeout_seconds)
    output = b"".join(call.pieces(silence_seconds=timeout_seconds, deadline=deadline))
    return Completed(_status(call), output, call.reader.last_errors, call.reader.greeting_bytes)


def stream_framed(
    session: Session, script: bytes, *, step: str, timeout_seconds: float, at: tuple[str, int]
) -> Iterator[bytes]:
    """Like `run_framed`, piece by piece; `timeout_seconds` bounds each silence. Raises CommandFailed at the end."""
    call = FramedCall(session, step=step, address=at[0], port=at[1])
    call.begin(script, timeout_seconds=timeout_seconds)
    yield from call.pieces(silence_seconds=timeout_seconds)
    raise_bad_status(Completed(_status(call), b"", call.reader.last_errors), step)


def raise_bad_status(completed: Completed, step: str) -> None:
    """Raise CommandFailed when the script ended badly, with the end of what it complained about."""
    if completed.status != 0:
        message = completed.errors[-2000:].decode("utf-8", "backslashreplace")
        raise CommandFailed(step, completed.status, message)


def _status(call: FramedCall) -> int:
    status = call.reader.status
    if status is None:
        raise ShellUnusable("it ended without telling how")
    return status
