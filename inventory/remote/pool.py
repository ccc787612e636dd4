"""Connections to one host: one for commands, kept and redialled, and one for each lane, opened at sshd's pace."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial

from inventory.remote.base import (
    ByteStream,
    ConnectionLost,
    ConnectionRefused,
    DeadlinePassed,
    RemoteError,
    ShellStream,
)
from inventory.remote.channels import SshByteStream, SshSession, SshShellStream
from inventory.remote.connection import Connection, Endpoint, dial, fetch_host_key
from inventory.remote.files import FramedRemote
from inventory.remote.shell import Session

__all__ = ["Endpoint", "SshRemote", "fetch_host_key"]

HANDSHAKES_TOGETHER = 8  # below sshd's default MaxStartups 10:30:100, with room for people who sign in by hand
LONG_ROUND_TRIP_SECONDS = 0.1
DIALS_AT_MOST = 4
LANE_WINDOW_BYTES = 4 * 2**20
COMMAND_WINDOW_BYTES = 2 * 2**20
BEGUN_AT_MOST = HANDSHAKES_TOGETHER - 1  # before anybody was let in, who needs a place as well
SESSIONS_AT_MOST = 8  # on one connection; sshd's default MaxSessions is 10, fewer are learnt
_SESSION_TRIES = 7


class HandshakeGate:
    """Lets a few connections at a time through to a server that has not let them in yet; slows down when refused."""

    def __init__(self, together: int = HANDSHAKES_TOGETHER) -> None:
        self._free = threading.BoundedSemaphore(together)

    @contextmanager
    def passing(self, deadline: float, what: str) -> Iterator[Callable[[], None]]:
        """Hold one of the places; what is yielded gives it back early. Raises DeadlinePassed when none becomes free."""
        started = time.monotonic()
        if not self._free.acquire(timeout=max(0.0, deadline - started)):
            raise DeadlinePassed(what, time.monotonic() - started)
        places = [self._free]

        def leave() -> None:
            for place in places:
                place.release()
            places.clear()

        try:
            yield leave
        finally:
            leave()


_gates: dict[tuple[str, int], HandshakeGate] = {}
_gates_lock = threading.Lock()


def gate_of(address: str, port: int) -> HandshakeGate:
    """The gate of a server, the same for everybody in this process."""
    with _gates_lock:
        return _gates.setdefault((address, port), HandshakeGate())


def _close_late(begun: Future[ShellStream]) -> None:
    """A shell that nobody waits for any more."""
    if begun.exception() is None:
        begun.result().close()


class SshRemote(FramedRemote):
    """`Remote` over SSH. Every method may be called from any thread; scripts may run side by side."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        no_data_timeout_seconds: float = 600.0,
        connect_timeout_seconds: float = 30.0,
        dials_at_most: int = DIALS_AT_MOST,
    ) -> None:
        super().__init__((endpoint.address, endpoint.port), silence_seconds=no_data_timeout_seconds)
        self.endpoint = endpoint
        self._connect_seconds, self._dials_at_most = connect_timeout_seconds, dials_at_most
        self._lock = threading.Lock()
        self._dialling = threading.Lock()
        self._command: Connection | None = None
        self._all: set[Connection] = set()
        self._closed = False
        self._sessions_at_most = SESSIONS_AT_MOST
        self._begun: deque[Future[ShellStream]] = deque()
        self._let_in = threading.Event()  # somebody signed in, or nobody will any more
        self.on_let_in: Callable[[], None] = lambda: None  # told once, when the first connection was let in
        self.round_trip_seconds = 0.0  # as connecting showed it; 0 before that
        self._reads_ahead = True  # until the server shows otherwise

    def open_shell(self, *, window_bytes: int = LANE_WINDOW_BYTES, timeout_seconds: float = 60.0) -> ShellStream:
        """See `Remote.open_shell`."""
        deadline = time.monotonic() + timeout_seconds
        with self._lock:
            begun = self._begun.popleft() if self._begun else None
        if begun is not None:
            with suppress(TimeoutError, RemoteError):  # then it is dialled anew, which tells what is wrong
                return begun.result(timeout_seconds)
            begun.add_done_callback(_close_late)
        return self._open_shell(deadline, window_bytes)

    def begin_shells(self, count: int, *, window_bytes: int = LANE_WINDOW_BYTES, timeout_seconds: float = 60.0) -> int:
        """Connect for the next `count` shells, or fewer while the first connection signs in; returns how many.

        Until that one was let in they only exchange keys: a key that is not accepted is offered once.
        """
        deadline = time.monotonic() + timeout_seconds
        count = count if self._let_in.is_set() else min(count, BEGUN_AT_MOST)
        for _ in range(count):
            begun: Future[ShellStream] = Future()
            with self._lock:
                self._begun.append(begun)

            def open_one(begun: Future[ShellStream] = begun) -> None:
                try:
                    begun.set_result(self._open_shell(deadline, window_bytes, partial(self._wait_let_in, deadline)))
                except BaseException as error:  # handed to whoever asks for a shell
                    begun.set_exception(error)

            threading.Thread(target=open_one, name="begun-shell", daemon=True).start()
        return count

    def _wait_let_in(self, deadline: float) -> None:
        started = time.monotonic()
        if not self._let_in.wait(max(0.0, deadline - started)):
            raise DeadlinePassed(f"Waiting to sign in at {self.endpoint.address}", time.monotonic() - started)
        if self._closed:
            raise ConnectionLost(*self.place, "it was closed here")

    def _open_shell(
        self, deadline: float, window_bytes: int, before_sign_in: Callable[[], None] = lambda: None
    ) -> ShellStream:
        connection = self._dial(deadline, window_bytes, before_sign_in)
        try:
            left = max(0.1, deadline - time.monotonic())
            channel = connection.open_channel(window_bytes=window_bytes, timeout_seconds=left)
            stream = SshShellStream(connection, channel, partial(self._forget, connection))
            stream.start()
        except BaseException:
            connection.end()
            self._forget(connection)
            raise
        return stream

    def open_sftp(self, *, timeout_seconds: float = 60.0) -> ByteStream:
        """See `Remote.open_sftp`."""
        deadline = time.monotonic() + timeout_seconds
        connection = self._dial(deadline, None)
        try:
            left = max(0.1, deadline - time.monotonic())
            channel = connection.open_channel(window_bytes=COMMAND_WINDOW_BYTES, timeout_seconds=left)
            return SshByteStream(connection, channel, partial(self._forget, connection))
        except BaseException:
            connection.end()
            self._forget(connection)
            raise

    def close(self) -> None:
        """See `Remote.close`."""
        with self._lock:
            self._closed = True
            connections, self._command = list(self._all), None
        self._let_in.set()
        for connection in connections:
            connection.end()
            self._forget(connection)

    # -- connections -----------------------------------------------------------------------------------------------

    def _dial(
        self, deadline: float, window_bytes: int | None, before_sign_in: Callable[[], None] = lambda: None
    ) -> Connection:
        """A signed-in connection, perhaps with a shell asked for ahead (`window_bytes` None: without one).

        Tries again, later and later and not in step with others, when turned away.
        """
        address, port = self.endpoint.address, self.endpoint.port
        gate = gate_of(address, port)
        for attempt in range(self._dials_at_most):
            connection = Connection(address, port)
            self._register(connection)
            try:
                with gate.passing(deadline, f"Waiting to connect to {address} port {port}") as leave:
                    connection.on_asked = partial(self._leave_early, connection, leave)
                    dial(
                        connection,
                        self.endpoint,
                        deadline=deadline,
                        stall_seconds=self._silence_seconds,
                        ahead_window_bytes=window_bytes if self._reads_ahead else None,
                        before_sign_in=before_sign_in,
                    )
                self._note_let_in(connection.round_trip_seconds)
                return connection
            except ConnectionRefused:
                self._forget(connection)
                pause = (0.2 + secrets.randbelow(1000) / 1000) * 2**attempt
                if attempt + 1 >= self._dials_at_most or time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause)
            except BaseException:
                connection.end()
                self._forget(connection)
                raise
        raise ConnectionRefused(address, port, "no attempt was allowed")

    def _leave_early(self, connection: Connection, leave: Callable[[], None]) -> None:
        """The request to sign in is on its way: over a long link it is there long before the next one is counted."""
        if connection.round_trip_seconds >= LONG_ROUND_TRIP_SECONDS:
            leave()

    def _note_let_in(self, seconds: float) -> None:
        """Somebody signed in. Of the round trips the least counts: a lost packet makes others longer."""
        with self._lock:
            self.round_trip_seconds = min(seconds, self.round_trip_seconds or seconds)
            is_first = not self._let_in.is_set()
            self._let_in.set()
        if is_first and not self._closed:
            self.on_let_in()

    def _register(self, connection: Connection) -> None:
        with self._lock:
            if self._closed:
                raise ConnectionLost(*self.place, "it was closed here")
            self._all.add(connection)

    def _forget(self, connection: Connection) -> None:
        with self._lock:
            self._all.discard(connection)
            if self._command is connection:
                self._command = None
            if connection.spoke_ahead and not connection.was_answered and not self._closed:
                # It may be a server that does not read ahead though its name says so: from now on word by word.
                self._reads_ahead = False

    # -- the command connection ------------------------------------------------------------------------------------

    def _open_session(self, timeout_seconds: float) -> Session:
        deadline = time.monotonic() + timeout_seconds
        was_lost = False
        for attempt in range(_SESSION_TRIES):
            connection = self._take(min(deadline, time.monotonic() + self._connect_seconds))
            try:
                left = max(0.1, deadline - time.monotonic())
                channel = connection.open_channel(window_bytes=COMMAND_WINDOW_BYTES, timeout_seconds=left)
                with self._lock:
                    connection.opened += 1
                return SshSession(connection, channel, partial(self._end_session, connection))
            except ConnectionRefused:
                if self._is_full(connection):
                    continue  # from now on another connection is dialled
                # A session of ours has just ended, and the server's MaxSessions still counts it.
                pause = 0.05 * 2**attempt
                if attempt + 1 >= _SESSION_TRIES or time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause)
            except ConnectionLost:
                # A kept connection may have died unseen; nothing was run on it, so dial once more.
                self._retire(connection)
                self._give_back(connection)
                if was_lost or time.monotonic() >= deadline:
                    raise
                was_lost = True
            except BaseException:
                self._retire(connection)
                self._give_back(connection)
                raise
        raise ConnectionRefused(*self.place, "no session was allowed")

    def _is_full(self, connection: Connection) -> bool:
        """Give back a session that the server refused; learn how many it allows when others of ours are open."""
        self._give_back(connection)
        with self._lock:
            if connection.opened:
                self._sessions_at_most = min(self._sessions_at_most, connection.opened)
            return connection.opened > 0

    def _end_session(self, connection: Connection) -> None:
        with self._lock:
            connection.opened -= 1
        self._give_back(connection)

    def _take(self, deadline: float) -> Connection:
        """The command connection with one more session on it, dialled when there is none."""
        if not self._dialling.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise DeadlinePassed(f"Waiting for a connection to {self.endpoint.address}", self._connect_seconds)
        try:
            with self._lock:
                kept = self._command
                if kept is not None and self._has_room(kept):
                    kept.sessions += 1
                    return kept
            if kept is not None:
                self._retire(kept)
            dialled = self._dial(deadline, COMMAND_WINDOW_BYTES)
            with self._lock:
                dialled.sessions += 1
                self._command = dialled
            return dialled
        finally:
            self._dialling.release()

    def _has_room(self, kept: Connection) -> bool:
        return kept.is_alive and not kept.is_retired and kept.sessions < self._sessions_at_most

    def _retire(self, connection: Connection) -> None:
        """Open nothing more on this connection; it ends with its last session."""
        with self._lock:
            connection.is_retired = True
            if self._command is connection:
                self._command = None
            is_idle = connection.sessions == 0
        if is_idle:
            connection.end()
            self._forget(connection)

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            connection.sessions -= 1
            is_over = connection.is_retired and connection.sessions <= 0
        if is_over:
            connection.end()
            self._forget(connection)

    def _distrust(self, session: Session) -> None:
        """A script on the command connection went silent: the next one dials anew."""
        if isinstance(session, SshSession):
            self._retire(session.connection)
