"""One SSH connection from the first packet to the last, with a deadline on every wait and an end on every path."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from inventory.remote.ahead import AheadChannel, AheadTransport
from inventory.remote.base import (
    ConnectionLost,
    ConnectionRefused,
    DeadlinePassed,
    HostKeyChanged,
    HostKeyUnknown,
    HostUnreachable,
    LoginRefused,
    ProtocolMismatch,
    RemoteError,
)
from inventory.remote.hostkeys import KEY_TYPES, PinnedKey, signature_types
from inventory.remote.keys import KeySource, usable_keys
from inventory.remote.shell import COMMAND_LINE
from inventory.remote.sockets import PatientSocket, connect
from inventory.remote.wire import Wire, read_wire

# Cheapest first; whatever else both sides know follows, so that old servers are reached too.
_KEX_FIRST = ("curve25519-sha256@libssh.org", "ecdh-sha2-nistp256")
_CIPHERS_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")
_CLOSE_SECONDS = 2.0
_OTHER_PROTOCOLS = (b"HTTP/", b"<", b"\x15\x03", b"220 ", b"220-", b"+OK", b"* OK")  # web, TLS alert, mail, FTP
KEEPALIVE_SECONDS = 15

# Whatever goes wrong is raised as one of our errors; paramiko's own lines and tracebacks would only say it twice.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server to sign in to, the key to do it with, and the host key that it must show."""

    address: str
    port: int
    username: str
    key: KeySource
    pinned: PinnedKey | None = None


class Connection:
    """A signed-in connection. `end` may be called from any thread and at any time, also while it is being made."""

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self._socket: PatientSocket | None = None
        self._transport: AheadTransport | None = None
        self._lock = threading.Lock()
        self._ended = False
        self.sessions = 0  # given out; this and the next are kept by the pool under its own lock
        self.opened = 0  # of these, the ones that the server let in
        self.is_retired = False
        self.spoke_ahead = False  # it was told more than it had answered; for good once `was_answered`
        self.was_answered = False
        self.on_asked: Callable[[], None] = lambda: None  # told when the request to sign in has left
        self._first: tuple[AheadChannel, threading.Event] | None = None  # asked for while signing in

    @property
    def transport(self) -> AheadTransport:
        """The live transport. Raises ConnectionLost."""
        if self._transport is None or self._ended:
            raise self.lost("it was closed here")
        return self._transport

    @property
    def round_trip_seconds(self) -> float:
        """How long the answer to the first packet took; 0 before it came."""
        return self._socket.connect_seconds if self._socket is not None else 0.0

    def wire(self) -> Wire | None:
        """What this machine's kernel and the handshake know of the connection. Raises ConnectionLost."""
        if self._socket is None:
            return None
        return read_wire(self._socket, cipher=self.transport.remote_cipher)

    @property
    def is_alive(self) -> bool:
        return not self._ended and self._transport is not None and self._transport.is_active()

    def lost(self, reason: str = "") -> ConnectionLost:
        """The error to raise for this connection."""
        return ConnectionLost(self.address, self.port, reason or self._reason())

    def _reason(self) -> str:
        error = self._transport.get_exception() if self._transport is not None else None
        if self._ended:
            return "it was closed here"
        if error is None or isinstance(error, EOFError):
            return "the other side ended it"
        return str(error) or type(error).__name__

    # -- making it -------------------------------------------------------------------------------------------------

    def shake_hands(self, key_types: Sequence[str], *, deadline: float, stall_seconds: float) -> PinnedKey:
        """Connect and exchange keys; returns the host key shown. Nothing that names a person was sent by then.

        Raises HostUnreachable, ConnectionRefused, ProtocolMismatch.
        """
        connected = connect(self.address, self.port, deadline, self._adopt)
        connected.stall_seconds = stall_seconds
        transport = AheadTransport(connected, default_window_size=2 * 2**20)
        with self._lock:
            self._transport = transport
        options = transport.get_security_options()
        options.kex = _ordered(_KEX_FIRST, options.kex)
        options.ciphers = _ordered(_CIPHERS_FIRST, options.ciphers)
        options.key_types = signature_types(key_types)
        options.compression = ("none",)
        done = threading.Event()
        left = max(0.1, deadline - time.monotonic())
        transport.banner_timeout = transport.handshake_timeout = left
        transport.start_client(event=done)
        answered = done.wait(left)
        transport.packetizer.complete_handshake()  # ends paramiko's timer thread
        if not answered or not transport.is_active():
            raise self._handshake_error(transport.get_exception(), answered=answered)
        transport.set_keepalive(KEEPALIVE_SECONDS)
        connected.wakes_for_whole = True
        shown = transport.get_remote_server_key()
        return PinnedKey(shown.get_name(), shown.asbytes())

    def _adopt(self, connecting: PatientSocket) -> None:
        """From here on `end` reaches the socket."""
        with self._lock:
            if self._ended:
                connecting.close()
                raise self.lost("it was closed here")
            self._socket = connecting

    def _handshake_error(self, error: BaseException | None, *, answered: bool) -> RemoteError:
        cause = error.__context__ if type(error) is paramiko.SSHException else error
        if self._ended:
            return self.lost("it was closed here")
        if not answered or isinstance(cause, TimeoutError):
            return HostUnreachable(self.address, self.port, "it is connected, but no SSH server answers in time")
        if isinstance(error, IncompatiblePeer):
            return ProtocolMismatch(self.address, self.port, str(error))
        if cause is None or isinstance(cause, EOFError | OSError):
            if error is not None and cause is None:
                return ProtocolMismatch(self.address, self.port, str(error))
            said = self._socket.first_words if self._socket is not None else b""
            if said.startswith(_OTHER_PROTOCOLS):
                reason = "it speaks another protocol: perhaps a web or mail server listens on this port"
                return ProtocolMismatch(self.address, self.port, reason)
            # sshd says so in a line of its own: “Exceeded MaxStartups”, “Not allowed at this time”.
            line = said.partition(b"\n")[0].strip().decode("ascii", "replace")
            told = f", saying “{line}”" if line and line.isprintable() and not line.startswith("SSH-") else ""
            return ConnectionRefused(self.address, self.port, f"it ended the connection before the login{told}")
        return ProtocolMismatch(self.address, self.port, str(error) or type(error).__name__)

    def sign_in(self, endpoint: Endpoint, *, deadline: float, ahead_window_bytes: int | None = None) -> None:
        """Offer the configured key. With `ahead_window_bytes` a server that reads ahead is asked for its first session
        at once. Raises LoginRefused, KeyUnusable, ConnectionRefused, DeadlinePassed."""
        transport, begun = self.transport, time.monotonic()
        with usable_keys(endpoint.key, timeout_seconds=max(0.1, deadline - begun)) as keys:
            refusal = "the key was not accepted"
            for number, key in enumerate(keys):
                transport.auth_timeout = max(0.1, deadline - time.monotonic())
                try:
                    if not self._offer(endpoint.username, key, None if number else ahead_window_bytes):
                        return
                    refusal = "the key was accepted, but the server wants a second proof, which is not supported"
                except paramiko.BadAuthenticationType as error:
                    allowed = ", ".join(error.allowed_types) or "nothing"
                    raise self._refused(endpoint, f"it allows {allowed}, no public keys") from error
                except (paramiko.SSHException, EOFError, OSError) as error:
                    if transport.is_active() and time.monotonic() < deadline:
                        refusal = _auth_reason(error, refusal)
                        continue
                    if time.monotonic() >= deadline:
                        what = f"Signing in at {self.address} port {self.port}"
                        raise DeadlinePassed(what, round(deadline - begun, 1)) from error
                    if self._ended:
                        raise self.lost() from error
                    if number:
                        raise self._refused(endpoint, f"it ended the connection after {number + 1} keys") from error
                    raise ConnectionRefused(
                        self.address, self.port, "it ended the connection during the login"
                    ) from error
            raise self._refused(endpoint, refusal)

    def _offer(self, username: str, key: paramiko.PKey, ahead_window_bytes: int | None) -> list[str]:
        """Sign in with one key; returns what the server wants besides. Raises as paramiko's `auth_publickey` does."""
        transport = self.transport
        # Which signatures of an RSA key a server takes, it may say in a moment.
        if ahead_window_bytes is None or not transport.speaks_ahead or "rsa" in key.get_name():
            return list(transport.auth_publickey(username, key))
        self.spoke_ahead = True
        answer = transport.ask_to_sign_in(username, key)
        self._first = transport.ask_for_channel(ahead_window_bytes, assume=True)
        transport.ask_for_command(self._first[0], COMMAND_LINE)
        self.on_asked()
        try:
            return list(answer())
        except BaseException:
            self._first = None  # what was asked of somebody unknown is not answered
            raise

    def _refused(self, endpoint: Endpoint, reason: str) -> LoginRefused:
        return LoginRefused(endpoint.username, self.address, self.port, reason)

    # -- using it --------------------------------------------------------------------------------------------------

    def open_channel(self, *, window_bytes: int, timeout_seconds: float) -> AheadChannel:
        """Open a channel, or take the one asked for while signing in.

        Raises ConnectionLost, ConnectionRefused (MaxSessions), DeadlinePassed.
        """
        transport = self.transport
        try:
            first, self._first = self._first, None
            channel, answered = first or transport.ask_for_channel(window_bytes)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self.lost() from error
        is_answered = answered.wait(max(0.1, timeout_seconds))
        if not transport.is_active():
            raise self.lost()
        if not is_answered:
            raise DeadlinePassed(f"Opening a session at {self.address} port {self.port}", timeout_seconds)
        self.was_answered = True
        if transport.is_refused(channel):
            reason = "it opens no further session on this connection: MaxSessions"
            raise ConnectionRefused(self.address, self.port, reason)
        return channel

    def start_shell(self, channel: AheadChannel) -> None:
        """Ask for `exec /bin/sh -s` on it, unless that was done, and do not wait. Raises ConnectionLost."""
        try:
            self.transport.ask_for_command(channel, COMMAND_LINE)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self.lost() from error

    def start_subsystem(self, channel: AheadChannel, name: str) -> None:
        """Ask for a program by the server's name for it, and do not wait. Raises ConnectionLost."""
        try:
            self.transport.ask_for_subsystem(channel, name)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self.lost() from error

    # -- ending it -------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """End the connection: whoever waits on it wakes, its thread and its socket are gone on return."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            transport, connected = self._transport, self._socket
        if connected is not None:
            # The thread sees the end at once and cleans up by itself; closing under its feet would race for the number.
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        if transport is not None and transport.is_alive() and transport is not threading.current_thread():
            transport.join(_CLOSE_SECONDS)
        if transport is not None:
            transport.packetizer.complete_handshake()
            transport.close()
        if connected is not None:
            connected.close()


def dial(
    connection: Connection,
    endpoint: Endpoint,
    *,
    deadline: float,
    stall_seconds: float,
    ahead_window_bytes: int | None = None,
    before_sign_in: Callable[[], None] = lambda: None,
) -> None:
    """Shake hands, compare the host key, sign in. On any error the connection is ended.

    Raises HostKeyUnknown, HostKeyChanged before anything but the key exchange was sent, and the errors of the steps.
    """
    try:
        pinned = endpoint.pinned
        wanted = KEY_TYPES if pinned is None else (pinned.key_type,)
        try:
            shown = connection.shake_hands(wanted, deadline=deadline, stall_seconds=stall_seconds)
        except ProtocolMismatch:
            if pinned is None:
                raise
            # The server may have dropped the pinned type altogether: then say which key it shows instead.
            shown = fetch_host_key(endpoint.address, endpoint.port, max(0.1, deadline - time.monotonic()))
            if shown.key_type == pinned.key_type:
                raise
        if pinned is None:
            raise HostKeyUnknown(endpoint.address, endpoint.port, shown.key_type, shown.fingerprint)
        if shown != pinned:
            raise HostKeyChanged(endpoint.address, endpoint.port, pinned.fingerprint, shown.fingerprint)
        before_sign_in()
        connection.sign_in(endpoint, deadline=deadline, ahead_window_bytes=ahead_window_bytes)
    except BaseException:
        connection.end()
        raise


def fetch_host_key(address: str, port: int, timeout_seconds: float = 15.0) -> PinnedKey:
    """The host key that a server shows, without signing in. Raises HostUnreachable, ConnectionRefused, …"""
    connection = Connection(address, port)
    try:
        deadline = time.monotonic() + timeout_seconds
        return connection.shake_hands(KEY_TYPES, deadline=deadline, stall_seconds=timeout_seconds)
    finally:
        connection.end()


def _ordered(first: Sequence[str], known: Sequence[str]) -> list[str]:
    return [name for name in first if name in known] + [name for name in known if name not in first]


def _auth_reason(error: BaseException, refusal: str) -> str:
    """Why a server that stays connected did not take a key."""
    text = str(error).strip()
    return refusal if isinstance(error, paramiko.AuthenticationException) or not text else text
