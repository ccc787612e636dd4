"""Where an installation keeps its things: folders, the secret key file, the broker's socket. Plain Python."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from pathlib import Path

# A Unix socket's path ends at 107 bytes on Linux; a few are left for temporary names beside it.
SOCKET_PATH_LIMIT_BYTES = 100
SOCKET_NAME = "valkey.sock"


class InstallationError(Exception):
    """The installation's folders or files cannot be used; `str()` is the sentence to show."""


def folder_make(path: Path, *, mode: int = 0o700) -> Path:
    """Make a folder that only we may read, if it is not there. Raises InstallationError."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise InstallationError(
            f"The folder “{path}” cannot be made ({error.strerror}). Nothing was started. Give this account the right "
            "to write there, or set CALCULET_DATA_DIR to another folder."
        ) from error
    return path


def secret_key_read_or_make(path: Path) -> str:
    """Return the installation's secret key; at the first start make it, readable by its owner only.

    Raises InstallationError when it cannot be made or when others can read it.
    """
    if not path.exists():
        _write_new(path, secrets.token_urlsafe(50))
    try:
        mode = path.stat().st_mode
        key = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise InstallationError(
            f"The secret key file “{path}” cannot be read ({error.strerror}). Nothing was started. Give it back to the "
            "account that runs the product."
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InstallationError(
            f"The secret key file “{path}” can be read by other accounts. Nothing was started. Run: chmod 600 {path}"
        )
    if len(key) < 40:
        raise InstallationError(
            f"The secret key file “{path}” holds fewer than 40 characters. Nothing was started. Remove it to have a "
            "new one made; everybody then signs in again."
        )
    return key


def _write_new(path: Path, text: str) -> None:
    """Write a file whole or not at all, and never over another process's: several may start at the same moment."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        finally:
            draft.unlink()
    except OSError as error:
        raise InstallationError(
            f"The secret key file “{path}” cannot be written ({error.strerror}). Nothing was started. Give this "
            "account the right to write there, or set CALCULET_DATA_DIR to another folder."
        ) from error


def run_folder_choose(data_folder: Path) -> Path:
    """The folder for sockets and other things that end with the processes; short enough for a socket's path."""
    usual = data_folder / "run"
    if len(os.fsencode(usual / SOCKET_NAME)) <= SOCKET_PATH_LIMIT_BYTES:
        return usual
    name = hashlib.sha256(os.fsencode(data_folder)).hexdigest()[:12]
    return Path("/tmp") / f"calculet-{os.getuid()}-{name}"  # noqa: S108 (made 0700 and its owner is checked)


def run_folder_make(path: Path) -> Path:
    """Make the run-time folder, and refuse one that belongs to somebody else. Raises InstallationError."""
    folder_make(path)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise InstallationError(
            f"The run-time folder “{path}” belongs to another account. Nothing was started. Remove it, or set "
            "CALCULET_DATA_DIR to a folder with a shorter path."
        )
    path.chmod(0o700)
    return path
