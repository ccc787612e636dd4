"""Secrets stand in files that only their owner may read; settings and rows name the file. Plain Python."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_MOST_BYTES = 65_536


class PrivateFileWrong(Exception):
    """A file with a secret cannot be used. `what` is what it is for, `reason` why not."""

    def __init__(self, path: Path, what: str, reason: str) -> None:
        super().__init__(path, what, reason)
        self.path, self.what, self.reason = path, what, reason

    def __str__(self) -> str:
        return f"The file “{self.path}” with {self.what} cannot be used: {self.reason}."


def private_bytes(path: Path, *, what: str) -> bytes:
    """The content of a file that only its owner may read. Raises PrivateFileWrong."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise PrivateFileWrong(path, what, f"it cannot be opened ({error.strerror})") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise PrivateFileWrong(path, what, "it is no plain file")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PrivateFileWrong(path, what, f"other accounts can read it; run: chmod 600 '{path}'")
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise PrivateFileWrong(path, what, f"it is larger than {_MOST_BYTES:,} bytes")
    return content


def private_lines(path: Path, *, what: str) -> list[str]:
    """The lines of such a file that say something, without blanks around them. Raises PrivateFileWrong."""
    try:
        text = private_bytes(path, what=what).decode("utf-8")
    except UnicodeDecodeError as error:
        raise PrivateFileWrong(path, what, "it is not UTF-8 text") from error
    return [line.strip() for line in text.splitlines() if line.strip()]
