"""What the rest of the product may ask of a remote host, and how a host may fail it.

`Remote` is the seam: `inventory.remote.pool` implements it over SSH, tests implement it in memory, and one
contract suite runs on both. Everything here is blocking, has a deadline, and may be used from one thread at a
time unless its docstring says otherwise.

The error tree (each is a sentence for the person who must act):

    RemoteError
    ├── TransientError          try again later; nothing is wrong with the request
    │   ├── HostUnreachable     no TCP connection or no SSH greeting
    │   ├── ConnectionRefused   the server answered but turned this connection away (MaxStartups …)
    │   ├── ConnectionLost      an established connection ended
    │   └── DeadlinePassed      no data within the stated time
    └── PermanentError          will fail again until a person changes something
        ├── HostKeyUnknown      nothing is pinned yet; carries the fingerprint found
        ├── HostKeyChanged      another key than the pinned one; carries both fingerprints
        ├── ProtocolMismatch    the server and we share no algorithm, or it speaks no SSH 2
        ├── LoginRefused        the server did not accept user and key
        ├── KeyUnusable         missing, not allow-listed, needs a passphrase, unknown format
        ├── PathMissing         the remote path is not there
        ├── PathRefused         it is there but may not be read or written, or is of the wrong kind
        ├── RemoteSpaceShort    not enough free space on the host
        ├── ToolMissing         the host lacks a program for this step
        ├── ShellUnusable       no POSIX shell answers between our markers
        ├── SftpUnusable        no SFTP server answers where one is needed
        └── CommandFailed       a step on the host ended with a bad exit status
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from inventory.remote.names import RemoteName

EntryKind = Literal["file", "folder", "link", "socket", "pipe", "device", "unreadable"]


class RemoteError(Exception):
    """Something asked of a host did not happen. `str()` is the sentence to show."""


class TransientError(RemoteError):
    """Trying again may succeed without anybody changing anything."""


class PermanentError(RemoteError):
    """Trying again is useless until somebody changes something."""


@dataclass(eq=False)
class HostUnreachable(TransientError):
    address: str
    port: int
    reason: str

    def __str__(self) -> str:
        return (
            f"The host {self.address} port {self.port} cannot be reached ({self.reason}). Nothing was changed. "
            "Check the address, the port and the VPN, then try again."
        )


@dataclass(eq=False)
class ConnectionRefused(TransientError):
    address: str
    port: int
    reason: str

    def __str__(self) -> str:
        return (
            f"The SSH server at {self.address} port {self.port} turned a connection away ({self.reason}); it limits "
            "how many may start or run at once (MaxStartups, MaxSessions, PerSourcePenalties). What was fetched is "
            "kept; it will be tried again more slowly."
        )


@dataclass(eq=False)
class ConnectionLost(TransientError):
    address: str
    port: int
    reason: str

    def __str__(self) -> str:
        return (
            f"The connection to {self.address} port {self.port} was lost ({self.reason}). What had arrived is kept; it "
            "goes on when the host answers again."
        )


@dataclass(eq=False)
class DeadlinePassed(TransientError):
    what: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.what}: no answer within {self.seconds:g} seconds. What had arrived is kept; try again."


@dataclass(eq=False)
class HostKeyUnknown(PermanentError):
    address: str
    port: int
    key_type: str
    fingerprint: str

    def __str__(self) -> str:
        return (
            f"No host key is pinned for {self.address} port {self.port}. It shows a {self.key_type} key "
            f"with fingerprint {self.fingerprint}. Compare it with the host's own "
            "(ssh-keygen -lf on the host), then pin it."
        )


@dataclass(eq=False)
class HostKeyChanged(PermanentError):
    address: str
    port: int
    expected: str
    found: str

    def __str__(self) -> str:
        return (
            f"The host key of {self.address} port {self.port} is not the pinned one: expected {self.expected}, found "
            f"{self.found}. Nothing was sent. If the host was reinstalled, pin the new key; otherwise somebody may "
            "stand in between."
        )


@dataclass(eq=False)
class ProtocolMismatch(PermanentError):
    address: str
    port: int
    reason: str

    def __str__(self) -> str:
        return (
            f"The server at {self.address} port {self.port} and this program cannot agree on how to speak "
            f"({self.reason}). Nothing was sent. Check that an SSH server answers there, and bring it up to date: it "
            "must offer SHA-2 signatures and current key exchanges."
        )


@dataclass(eq=False)
class LoginRefused(PermanentError):
    username: str
    address: str
    port: int
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.address} port {self.port} did not let “{self.username}” in with this key ({self.reason}). Add the "
            "public key to the host's authorized_keys, or choose another user or key."
        )


@dataclass(eq=False)
class KeyUnusable(PermanentError):
    key: str
    reason: str

    def __str__(self) -> str:
        return f"The key “{self.key}” cannot be used: {self.reason}"


@dataclass(eq=False)
class PathMissing(PermanentError):
    path: RemoteName

    def __str__(self) -> str:
        return f"“{self.path}” is not there on the host. Nothing was changed. Check the path, or scan again."


@dataclass(eq=False)
class PathRefused(PermanentError):
    path: RemoteName
    reason: str

    def __str__(self) -> str:
        return f"“{self.path}” on the host cannot be used: {self.reason}"


@dataclass(eq=False)
class RemoteSpaceShort(PermanentError):
    path: RemoteName
    needed_bytes: int
    free_bytes: int

    def __str__(self) -> str:
        return (
            f"“{self.path}” on the host has {self.free_bytes:,} bytes free, and {self.needed_bytes:,} are needed. "
            "Nothing was written. Free space there, split the pack, or fetch it as files."
        )


@dataclass(eq=False)
class ToolMissing(PermanentError):
    tool: str
    step: str

    def __str__(self) -> str:
        return (
            f"The host has no usable {self.tool}, which is needed to {self.step}. "
            "Install it there or choose another mode."
        )


@dataclass(eq=False)
class ShellUnusable(PermanentError):
    reason: str

    def __str__(self) -> str:
        return (
            f"The host gives no POSIX shell to work with ({self.reason}). "
            "The account needs /bin/sh without a forced command."
        )


@dataclass(eq=False)
class SftpUnusable(PermanentError):
    reason: str

    def __str__(self) -> str:
        return (
            f"The host's SFTP cannot be used ({self.reason}). Nothing was changed. Ask its administrator for "
            "“Subsystem sftp”, or for an account with /bin/sh."
        )


@dataclass(eq=False)
class CommandFailed(PermanentError):
    step: str
    status: int
    message: str = field(default="")

    def __str__(self) -> str:
        said = f": {self.message.strip()}" if self.message.strip() else ""
        return f"On the host, “{self.step}” ended with status {self.status}{said}"


@dataclass(frozen=True, slots=True)
class Completed:
    """What a framed script printed between our markers, and how it ended."""

    status: int
    output: bytes
    errors: bytes
    greeting_bytes: int = 0  # what the login shell printed before; dropped


@dataclass(frozen=True, slots=True)
class RemoteStat:
    """Identity and size of one remote path, the link itself when it is one. Times in nanoseconds since 1970."""

    kind: EntryKind
    size_bytes: int
    stored_bytes: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    device: int
    inode: int
    link_count: int


class ShellStream(Protocol):
    """One connection with one `/bin/sh -s` for its whole life: scripts go in, raw bytes come out.

    A lane owns one. `send` and `receive` are called from the lane's thread; `close` from any thread, and makes a
    blocked `receive` raise ConnectionLost.
    """

    def send(self, script: bytes) -> None:
        """Write script text to the shell's standard input. Raises ConnectionLost."""

    def receive(self, limit_bytes: int, *, timeout_seconds: float) -> bytes:
        """Return between 1 and `limit_bytes` bytes of the shell's standard output, as soon as there are any.

        What a login shell prints before ours runs is skipped. Raises DeadlinePassed when none came within the time,
        ConnectionLost when the connection ended, ShellUnusable when there is no shell or an endless greeting.
        """

    def close(self) -> None:
        """End the connection at once. Safe to call twice."""


class ByteStream(Protocol):
    """Bytes to a program on the host and back, on a connection of its own. For one thread; `close` from any."""

    def send(self, data: bytes, *, timeout_seconds: float) -> None:
        """Write all of it. Raises ConnectionLost, DeadlinePassed; SftpUnusable when nobody reads any more."""

    def receive(self, *, timeout_seconds: float) -> bytes:
        """The next bytes as soon as there are any; empty at the end. Raises ConnectionLost, DeadlinePassed,
        SftpUnusable when the server starts no such program."""

    def lost(self, reason: str) -> ConnectionLost:
        """The error to raise when the program ended before its time."""

    def close(self) -> None:
        """End the connection at once. Safe to call twice."""


class Remote(Protocol):
    """One host, reached. Implementations keep one command connection and redial it when it was lost."""

    def run(self, script: bytes, *, step: str, timeout_seconds: float = 60.0) -> Completed:
        """Run a POSIX shell script by `exec /bin/sh -s`, under LC_ALL=C, its children reading from /dev/null.

        Output is what came between two random markers, so that greetings never reach the caller. `step` names the
        act for error sentences. A bad exit status is returned, not raised (see `check`).
        Raises TransientError, ShellUnusable.
        """

    def check(self, script: bytes, *, step: str, timeout_seconds: float = 60.0) -> bytes:
        """Like `run`, but return the output alone and raise CommandFailed on a bad exit status."""

    def stream(self, script: bytes, *, step: str, timeout_seconds: float = 600.0) -> Iterator[bytes]:
        """Run a script and yield its output piece by piece in flat memory; `timeout_seconds` bounds each silence.

        Raises CommandFailed after the last piece when the exit status was bad.
        """

    def write_file(self, path: RemoteName, content: Iterable[bytes], *, mode: int = 0o600) -> int:
        """Write a new file in our staging folder (by way of a temporary name) and return its size in bytes."""

    def read_file(self, path: RemoteName, *, limit_bytes: int) -> bytes:
        """Return a small remote file whole. Raises PathMissing, PathRefused (larger than the limit)."""

    def stat(self, path: RemoteName) -> RemoteStat:
        """Identity of a path without following a link. Raises PathMissing."""

    def open_shell(self, *, window_bytes: int = 4 * 2**20, timeout_seconds: float = 60.0) -> ShellStream:
        """Open a connection of its own for a lane. Thread-safe. Paced by the pool for sshd's limits.

        Raises TransientError and the key and login errors.
        """

    def open_sftp(self, *, timeout_seconds: float = 60.0) -> ByteStream:
        """Start the host's SFTP server on a connection of its own; what it answers is read by `remote.sftp`.

        Raises TransientError and the key and login errors.
        """

    def close(self) -> None:
        """End the command connection and every lane. Safe to call twice and from any thread."""
