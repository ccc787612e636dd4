"""Read a folder of this machine file by file, with digests: links are not followed, nothing is written.

Identity is looked at before and after a file is read; only where both are the same is the digest that of a file that
stood still.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_READ_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class LocalFile:
    """One regular file; times in nanoseconds. `name` is relative to the folder."""

    name: bytes
    size_bytes: int
    device: int
    inode: int
    mtime_ns: int
    ctime_ns: int


def walk(
    folder: Path, failed: Callable[[bytes], object], breath: Callable[[], object]
) -> Iterator[tuple[LocalFile, Callable[[], bytes | None]]]:
    """Every regular file below a folder, each with a function that reads it and returns its SHA-256.

    The function gives None when the file could not be read or changed meanwhile; call it before the next file is asked
    for. Names of what can't be looked at go to `failed`; `breath` is called while a large file is read, and what it
    raises ends the work. Raises OSError when the folder itself can't be opened.
    """
    top = os.fsencode(folder)

    def note(error: OSError) -> None:
        failed(os.fsencode(error.filename or b""))

    for path, folders, names, handle in os.fwalk(top, onerror=note, follow_symlinks=False):
        folders.sort()
        below = os.path.relpath(path, top)
        for name in sorted(names):
            try:
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            except OSError:
                failed(name)
                continue
            if not stat.S_ISREG(found.st_mode):
                continue
            full = name if below == b"." else below + b"/" + name
            yield _local(full, found), _reader(name, handle, found, breath)


def _local(name: bytes, found: os.stat_result) -> LocalFile:
    return LocalFile(name, found.st_size, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


def _reader(
    name: bytes, handle: int, before: os.stat_result, breath: Callable[[], object]
) -> Callable[[], bytes | None]:
    def read() -> bytes | None:
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
        except OSError:
            return None
        digest = hashlib.sha256()
        try:
            same = _local(name, before)
            if _local(name, os.fstat(file)) != same:
                return None
            while data := os.read(file, _READ_BYTES):
                digest.update(data)
                breath()
            return digest.digest() if _local(name, os.fstat(file)) == same else None
        except OSError:
            return None
        finally:
            os.close(file)

    return read
