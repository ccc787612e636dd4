"""Which paths of this machine may be used: those at or below the folders that a setting names. Plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path


class Obstacle(Enum):
    """Why a path may not be used."""

    NO_FOLDERS = auto()
    NOT_ABSOLUTE = auto()
    NOT_THERE = auto()
    OUTSIDE = auto()


@dataclass(eq=False)
class PathNotAllowed(Exception):
    """A path that may not be used. `why` is the system's word when it is not there."""

    path: Path
    obstacle: Obstacle
    why: str = ""


def path_allowed(path: Path, folders: Iterable[Path]) -> Path:
    """The real path, when it is there and lies at or below one of `folders`, links followed on both sides.

    Raises PathNotAllowed.
    """
    allowed = [folder.resolve() for folder in folders]
    if not allowed:
        raise PathNotAllowed(path, Obstacle.NO_FOLDERS)
    if not path.is_absolute():
        raise PathNotAllowed(path, Obstacle.NOT_ABSOLUTE)
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise PathNotAllowed(path, Obstacle.NOT_THERE, getattr(error, "strerror", None) or str(error)) from error
    if not any(real.is_relative_to(folder) for folder in allowed):
        raise PathNotAllowed(path, Obstacle.OUTSIDE)
    return real
