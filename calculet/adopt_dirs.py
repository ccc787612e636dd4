"""Which files of this machine may be taken over: those below the folders that a setting names, and no others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(eq=False)
class AdoptRefused(Exception):
    """A path that may not be read. `str()` is the sentence to show."""

    path: Path
    reason: str

    def __str__(self) -> str:
        raw = os.fsencode(self.path).decode("utf-8", "backslashreplace")
        shown = "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in raw)
        return f"“{shown}” cannot be taken over: {self.reason}. Nothing there was changed."


def adopt_path(path: Path, folders: Iterable[Path]) -> Path:
    """The real path, when it is there and lies below one of `folders`, links followed on both sides.

    Raises AdoptRefused.
    """
    allowed = [folder.resolve() for folder in folders]
    if not allowed:
        raise AdoptRefused(path, "no folder is named for this; an administrator sets CALCULET_ADOPT_DIRS")
    if not path.is_absolute():
        raise AdoptRefused(path, "it is not an absolute path")
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise AdoptRefused(path, getattr(error, "strerror", None) or "it is not there") from error
    if not any(real.is_relative_to(folder) for folder in allowed):
        raise AdoptRefused(path, "it does not lie below a folder that CALCULET_ADOPT_DIRS names")
    return real
