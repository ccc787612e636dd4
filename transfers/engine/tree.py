"""A local folder whose content is named by another machine: no name leaves it, no link is followed.

Names are root-relative bytes. They are walked part by part from the folder's own handle with `O_NOFOLLOW`, so that a
path may also be longer than the system takes in one call, and nothing that is swapped in between leads elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not make the opening wait
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeName(ValueError):
    """A name that names nothing below the folder."""


def safe_parts(name: bytes) -> list[bytes]:
    """The parts of a name below the folder; empty and `.` parts (so also a leading slash) are left out.

    Raises UnsafeName for `..`, NUL, and a name without any part.
    """
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if not parts:
        raise UnsafeName("it names nothing below the folder")
    if b".." in parts:
        raise UnsafeName("it leads out of the folder")
    if b"\0" in name:
        raise UnsafeName("it holds a NUL byte")
    return parts


class Tree:
    """An open folder. Use it as a context manager; from one thread."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError when the folder is not there or is a link."""
        self._top = os.open(folder, _FOLDER)
        self._parent: tuple[list[bytes], int] | None = None  # members come folder by folder: the last one stays open

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._let_go()
        os.close(self._top)

    def _let_go(self) -> None:
        if self._parent is not None:
            os.close(self._parent[1])
            self._parent = None

    def _above(self, parts: list[bytes], *, make: bool) -> int:
        """Handle of the folder that holds the last part; it stays open until another one is asked for."""
        folder = parts[:-1]
        if self._parent is not None and self._parent[0] == folder:
            return self._parent[1]
        at = os.dup(self._top)
        try:
            for part in folder:
                if make:
                    # A folder that is there is what is wanted; anything else fails in the next line.
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=at)
                below = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = below
        except BaseException:
            os.close(at)
            raise
        self._let_go()
        self._parent = (folder, at)
        return at

    def create(self, name: bytes) -> int:
        """Make a new file, and the folders above it; returns its handle. Raises UnsafeName, OSError."""
        parts = safe_parts(name)
        return os.open(parts[-1], _CREATE, 0o600, dir_fd=self._above(parts, make=True))

    def make_folder(self, name: bytes) -> None:
        """Make a folder, and those above it; one that is there already is fine. Raises UnsafeName, OSError."""
        parts = safe_parts(name)
        self._above([*parts, b"."], make=True)

    def make_link(self, name: bytes, target: bytes, mtime_ns: int) -> None:
        """Make a symbolic link with exactly this text; nothing is looked up by it. Raises UnsafeName, OSError."""
        parts = safe_parts(name)
        above = self._above(parts, make=True)
        os.symlink(target, parts[-1], dir_fd=above)
        os.utime(parts[-1], ns=(mtime_ns, mtime_ns), dir_fd=above, follow_symlinks=False)

    def hard_link(self, name: bytes, target: bytes) -> None:
        """Give a file of this tree a further name. Raises UnsafeName, OSError (the target is no regular file)."""
        source, parts = safe_parts(target), safe_parts(name)
        above = os.dup(self._above(source, make=False))
        try:
            if not stat.S_ISREG(os.stat(source[-1], dir_fd=above, follow_symlinks=False).st_mode):
                raise OSError(0, "the target is not a regular file")
            below = self._above(parts, make=True)
            os.link(source[-1], parts[-1], src_dir_fd=above, dst_dir_fd=below, follow_symlinks=False)
        finally:
            os.close(above)

    def remove(self, name: bytes) -> None:
        """Unlink a name that is no folder. Raises UnsafeName, OSError."""
        parts = safe_parts(name)
        os.unlink(parts[-1], dir_fd=self._above(parts, make=False))

    @contextmanager
    def reading(self, name: bytes) -> Iterator[int]:
        """An open handle of a file below the folder. Raises UnsafeName, OSError."""
        parts = safe_parts(name)
        file = os.open(parts[-1], _READ, dir_fd=self._above(parts, make=False))
        try:
            yield file
        finally:
            os.close(file)

    def finish_folder(self, name: bytes, mode: int, mtime_ns: int) -> None:
        """Set a folder's permissions and time, once nothing more is made in it. Raises UnsafeName, OSError."""
        self._let_go()
        parts = safe_parts(name)
        handle = os.open(parts[-1], _FOLDER, dir_fd=self._above(parts, make=False))
        try:
            os.utime(handle, ns=(mtime_ns, mtime_ns))
            os.fchmod(handle, mode)
        finally:
            os.close(handle)
        self._let_go()

    def walk_files(self) -> Iterator[bytes]:
        """Names of everything below that is not a folder, sorted within each folder, in flat memory."""
        waiting = [b""]
        while waiting:
            folder = waiting.pop()
            at = self._above([*(part for part in folder.split(b"/") if part), b"."], make=False)
            entries = sorted((os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in os.scandir(at))
            for name, is_folder in entries:
                path = folder + b"/" + name if folder else name
                if is_folder:
                    waiting.append(path)
                else:
                    yield path
