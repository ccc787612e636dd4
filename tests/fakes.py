"""A `Remote` without a network: the same scripts, run by this machine's /bin/sh, and failing when a test says so."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from inventory.remote.base import ByteStream, ConnectionLost, DeadlinePassed, RemoteError, SftpUnusable, ShellUnusable
from inventory.remote.files import FramedRemote
from inventory.remote.names import RemoteName
from inventory.remote.shell import Session

_PLACE = ("memory", 22)


@dataclass
class FaultScript:
    """What goes wrong, and when. Calls count from 1: each framed script is one (a written file takes two or three)."""

    at_call: dict[int, RemoteError] = field(default_factory=dict)
    lane_after_bytes: list[tuple[int, RemoteError]] = field(default_factory=list)  # taken by lanes as they open
    lane_refusals: list[RemoteError] = field(default_factory=list)  # raised by `open_shell`, one each time

    def fail_call(self, number: int, error: RemoteError) -> None:
        """The `number`-th framed script raises instead of running."""
        self.at_call[number] = error

    def fail_lane(self, after_bytes: int, error: RemoteError) -> None:
        """The next lane that opens raises once it has brought that many bytes."""
        self.lane_after_bytes.append((after_bytes, error))

    def refuse_lane(self, error: RemoteError) -> None:
        """The next `open_shell` raises."""
        self.lane_refusals.append(error)


class MemoryRemote(FramedRemote):
    """See the module's docstring. Paths are this machine's paths; `home` and `path` become HOME and PATH there."""

    def __init__(self, home: Path, *, path: str | None = None, shell: str = "/bin/sh") -> None:
        super().__init__(_PLACE, silence_seconds=60.0)
        self.faults = FaultScript()
        self.calls = 0
        self.lanes_opened = 0
        self._shell = shell
        self._environment = {"PATH": path or os.environ.get("PATH", os.defpath), "HOME": str(home)}
        self._open: set[_Process] = set()
        self._lock = threading.Lock()
        self._closed = False

    def _open_session(self, timeout_seconds: float) -> Session:
        with self._lock:
            self.calls += 1
            error = self.faults.at_call.pop(self.calls, None)
        if error is not None:
            raise error
        return _PipeSession(self._start())

    def _distrust(self, session: Session) -> None:
        session.close()

    def open_shell(self, *, window_bytes: int = 4 * 2**20, timeout_seconds: float = 60.0) -> _PipeStream:
        """See `Remote.open_shell`."""
        with self._lock:
            refusal = self.faults.lane_refusals.pop(0) if self.faults.lane_refusals else None
            fault = self.faults.lane_after_bytes.pop(0) if not refusal and self.faults.lane_after_bytes else None
        if refusal is not None:
            raise refusal
        stream = _PipeStream(self._start(), fault)
        try:
            stream.send(b"LC_ALL=C; export LC_ALL; exec 2>/dev/null\n")
        except ConnectionLost:
            stream.close()
            raise
        self.lanes_opened += 1
        return stream

    def open_sftp(self, *, timeout_seconds: float = 60.0) -> ByteStream:
        """See `Remote.open_sftp`; a real sshd is cheap enough to try that on."""
        raise SftpUnusable("a host in memory has none")

    def cut_lanes(self) -> None:
        """End every connection, as a link that is cut."""
        with self._lock:
            running = list(self._open)
        for process in running:
            process.kill()

    def close(self) -> None:
        """See `Remote.close`."""
        with self._lock:
            self._closed = True
            running = list(self._open)
        self.cut_lanes()
        for process in running:  # whoever opened it may be gone by now
            process.reap()

    def _start(self) -> _Process:
        with self._lock:
            if self._closed:
                raise ConnectionLost(*_PLACE, "it was closed here")
            self._open = {process for process in self._open if process.is_running}
            process = _Process(self._shell, self._environment)
            self._open.add(process)
            return process


class _Process:
    """A shell with its process group. `kill` from any thread; `reap` from the one that reads."""

    def __init__(self, shell: str, environment: dict[str, str]) -> None:
        command = [*shell.split(), "-s"]
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        assert self._popen.stdin is not None and self._popen.stdout is not None and self._popen.stderr is not None
        self.input, self.output, self.errors = self._popen.stdin, self._popen.stdout, self._popen.stderr
        self.was_killed = False
        self._reading = threading.Lock()
        self._open = {self.output.fileno(), self.errors.fileno()}

    @property
    def is_running(self) -> bool:
        return self._popen.returncode is None

    def kill(self) -> None:
        """End the whole group at once. What the shell detached by setsid lives on, as over SSH."""
        if self._popen.returncode is not None:
            return
        self.was_killed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Close the pipes and return the exit status; kills what still runs."""
        with self._reading:
            if self._popen.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._popen.wait(0 if self._open else 5)
                if self._popen.returncode is None:
                    self.kill()
            for stream in (self.input, self.output, self.errors):
                with contextlib.suppress(OSError):
                    stream.close()
            return self._popen.wait(10)

    def write(self, data: bytes) -> None:
        """Raises BrokenPipeError."""
        if self.input.closed:
            raise BrokenPipeError
        self.input.write(data)
        self.input.flush()

    def read(self, limit_bytes: int, timeout_seconds: float) -> tuple[bytes, bytes]:
        """Pieces of both streams; both empty at their end. Raises TimeoutError."""
        pieces = {self.output: b"", self.errors: b""}
        deadline = time.monotonic() + timeout_seconds
        with self._reading:
            while not any(pieces.values()):
                if self.output.closed:
                    return b"", b""
                waiting = [stream for stream in pieces if stream.fileno() in self._open]
                if not waiting:
                    break
                ready = select.select(waiting, [], [], max(0.0, deadline - time.monotonic()))[0]
                if not ready:
                    raise TimeoutError
                for stream in ready:
                    pieces[stream] = os.read(stream.fileno(), limit_bytes)
                    if not pieces[stream]:
                        self._open.discard(stream.fileno())
        return pieces[self.output], pieces[self.errors]


class _PipeSession:
    """See `Session`."""

    def __init__(self, process: _Process) -> None:
        self._process = process
        self._status: int | None = None

    def send(self, data: bytes, *, timeout_seconds: float) -> None:
        self._process.write(data)

    def end_input(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.input.close()

    def receive(self, *, timeout_seconds: float) -> tuple[bytes, bytes]:
        pieces = self._process.read(2**18, timeout_seconds)
        if not any(pieces) and self._process.was_killed:
            raise ConnectionLost(*_PLACE, "the other side ended it")
        return pieces

    def exit_status(self) -> int | None:
        self.close()
        return self._status

    def close(self) -> None:
        if self._status is None:
            self._status = self._process.reap()


class _PipeStream:
    """See `ShellStream`."""

    def __init__(self, process: _Process, fault: tuple[int, RemoteError] | None) -> None:
        self._process = process
        self._left: int | None = fault[0] if fault else None
        self._error = fault[1] if fault else None

    def send(self, script: bytes) -> None:
        try:
            self._process.write(script)
        except (BrokenPipeError, ValueError) as error:
            raise ConnectionLost(*_PLACE, "the other side ended it") from error

    def receive(self, limit_bytes: int, *, timeout_seconds: float) -> bytes:
        if self._left is not None:
            limit_bytes = min(limit_bytes, self._left)
        if self._left == 0 and self._error is not None:
            self.close()
            raise self._error
        try:
            piece = self._receive_output(limit_bytes, timeout_seconds)
        except TimeoutError as error:
            raise DeadlinePassed("The connection to memory port 22", timeout_seconds) from error
        if self._left is not None:
            self._left -= len(piece)
        return piece

    def _receive_output(self, limit_bytes: int, timeout_seconds: float) -> bytes:
        deadline = time.monotonic() + timeout_seconds
        while True:
            piece, errors = self._process.read(limit_bytes, max(0.0, deadline - time.monotonic()))
            if piece:
                return piece
            if not errors:
                raise ConnectionLost(*_PLACE, "the other side ended it")

    def close(self) -> None:
        self._process.kill()
        self._process.reap()


class _SftpStream:
    """OpenSSH's own SFTP server behind a pipe; see `ByteStream`."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def send(self, data: bytes, *, timeout_seconds: float) -> None:
        self._input.write(data)
        self._input.flush()

    def receive(self, *, timeout_seconds: float) -> bytes:
        return os.read(self._output.fileno(), 65536)

    def lost(self, reason: str) -> ConnectionLost:
        return ConnectionLost(*_PLACE, reason)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class SftpOnlyRemote(MemoryRemote):
    """A host that gives SFTP and no shell; `account` is the number of another account that it signs in as."""

    def __init__(self, home: Path, *, account: int | None = None) -> None:
        super().__init__(home)
        other = ["setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups"] if account else []
        self._command = [*other, "/usr/lib/openssh/sftp-server"]

    def _open_session(self, timeout_seconds: float) -> Session:
        raise ShellUnusable("it has none")

    def open_sftp(self, *, timeout_seconds: float = 60.0) -> ByteStream:
        """See `Remote.open_sftp`."""
        return _SftpStream(self._command)


def remote_name(path: Path, *parts: bytes) -> RemoteName:
    """A local path as a remote name, with further parts as bytes."""
    return RemoteName(os.fsencode(path)).join(*parts) if parts else RemoteName(os.fsencode(path))


def drain(pieces: Iterator[bytes]) -> bytes:
    """All of a stream."""
    return b"".join(pieces)
