"""The private keys that we sign in with: one file under the key directory, or the person's agent.

Only what was configured is offered, so that a server that counts bad attempts is never given strangers' keys.
"""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH

from inventory.remote.base import KeyUnusable

AGENT_KEYS_AT_MOST = 6  # sshd's default MaxAuthTries
KEY_FILE_LIMIT_BYTES = 64 * 1024

_LOCKED = (
    "it is locked by a passphrase, and none can be asked for here. Load it into an agent (ssh-add) and choose the "
    "agent, or make a key without a passphrase for this host."
)
_OUTSIDE = "it lies outside the key directory {directory}. Put the key file into that directory and give its name."


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where the private key comes from: a file, or the agent at SSH_AUTH_SOCK when `agent` is true."""

    path: Path | None = None
    agent: bool = False

    def __post_init__(self) -> None:
        if (self.path is None) != self.agent:
            raise ValueError("A key source is either a key file or the agent.")

    @property
    def label(self) -> str:
        """The key's name for sentences."""
        return "agent" if self.path is None else str(self.path)


def allowed_key_path(directory: Path, name: str) -> Path:
    """The real path of the key file `name` in the key directory.

    Names are resolved first, links included, and what lies outside is refused. Raises KeyUnusable.
    """
    if not name.strip() or "\0" in name:
        raise KeyUnusable(name, "this is no file name. Give the name of a file in the key directory.")
    try:
        top = directory.resolve()
        found = (top / name).resolve()
    except (OSError, RuntimeError) as error:
        raise KeyUnusable(name, f"its path cannot be followed ({error}).") from error
    if found == top or not found.is_relative_to(top):
        raise KeyUnusable(name, _OUTSIDE.format(directory=directory))
    return found


@contextmanager
def usable_keys(source: KeySource, *, timeout_seconds: float) -> Iterator[Sequence[paramiko.PKey]]:
    """The keys to offer, in order; an agent stays connected while they are in use. Raises KeyUnusable."""
    if source.path is not None:
        yield [load_key_file(source.path)]
        return
    agent = _Agent(timeout_seconds)
    try:
        keys = agent.get_keys()[:AGENT_KEYS_AT_MOST]
        if not keys:
            raise KeyUnusable("agent", "the agent holds no key. Add one with ssh-add.")
        yield keys
    finally:
        agent.close()


def load_key_file(path: Path) -> paramiko.PKey:
    """Read an unlocked private key (Ed25519, ECDSA or RSA, in OpenSSH's or PEM format).

    Raises KeyUnusable: missing, unreadable, locked by a passphrase, or of a format that is not read.
    """
    text = _read(path)
    _refuse_known_formats(path, text)
    reasons = []
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            return kind.from_private_key(io.StringIO(text))
        except paramiko.PasswordRequiredException as error:
            raise KeyUnusable(str(path), _LOCKED) from error
        except (paramiko.SSHException, ValueError, IndexError, UnicodeError) as error:
            reasons.append(f"{kind.__name__}: {error}")
    raise KeyUnusable(
        str(path),
        "it is in a format or of a type that is not read here. Use a private key of type Ed25519, ECDSA or RSA in "
        "OpenSSH's format (ssh-keygen -t ed25519).",
    )


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(KEY_FILE_LIMIT_BYTES + 1)
    except FileNotFoundError as error:
        raise KeyUnusable(str(path), "there is no such file. Put it there, or choose another key.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise KeyUnusable(
            str(path), f"it cannot be read ({reason}). Let the user that runs this program read it."
        ) from error
    if len(content) > KEY_FILE_LIMIT_BYTES:
        raise KeyUnusable(str(path), "it is far too large for a key file. Choose the private key itself.")
    return content.decode("ascii", "replace")


def _refuse_known_formats(path: Path, text: str) -> None:
    start = text.lstrip("\ufeff \r\n\t")
    if start.startswith("PuTTY-User-Key-File"):
        raise KeyUnusable(
            str(path),
            "it is in PuTTY's format. Convert it with “puttygen KEY -O private-openssh -o NEWKEY” and use that file.",
        )
    if start.startswith(("ssh-", "ecdsa-sha2-", "sk-", "---- BEGIN SSH2 PUBLIC KEY")):
        raise KeyUnusable(str(path), "it is the public half. Choose the private key (the file without .pub).")
    if start.startswith("-----BEGIN ENCRYPTED PRIVATE KEY"):
        raise KeyUnusable(str(path), _LOCKED)
    if start.startswith("-----BEGIN PRIVATE KEY"):
        raise KeyUnusable(
            str(path),
            "it is in PKCS#8 format, which is not read here. Rewrite a copy in OpenSSH's format "
            "(ssh-keygen -p -N '' -f COPY).",
        )


class _Agent(AgentSSH):
    """The agent at SSH_AUTH_SOCK with a deadline on every answer (paramiko's own client waits without one)."""

    def __init__(self, timeout_seconds: float) -> None:
        super().__init__()
        address = os.environ.get("SSH_AUTH_SOCK", "")
        if not address:
            raise KeyUnusable("agent", "no agent is known to this program (SSH_AUTH_SOCK is not set). Start one.")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_seconds)
        try:
            connection.connect(address)
            self._connect(connection)  # type: ignore[attr-defined]
        except (OSError, paramiko.SSHException) as error:
            connection.close()
            raise KeyUnusable("agent", f"the agent at {address} does not answer ({error}). Start it again.") from error

    def close(self) -> None:
        """End the connection to the agent."""
        self._close()  # type: ignore[attr-defined]
