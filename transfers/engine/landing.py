"""Where a build lands: incoming data is written in place under a name of its own, and renamed only when verified.

    <name>.incoming   one file, preallocated to the build's size          (archive, existing, parts)
    files.incoming/   a folder with the files in it                        (files)

An existing final file is never opened, truncated or replaced. Names come from another machine: they are followed part
by part with `O_NOFOLLOW`, so that no name and no link leads out of the folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inventory.remote.names import escape
from transfers.engine.geometry import LEDGER_SUFFIX, LandingPiece, SegmentMap, final_name
from transfers.engine.types import MEBIBYTE, BuildSpec

OPEN_FILES_AT_MOST = 64
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def shown(path: Path) -> str:
    """A local path for sentences: one line of text, whatever bytes it holds."""
    return escape(os.fsencode(path))


class LandingError(Exception):
    """The landing cannot take the build. `str()` is the sentence to show."""


@dataclass(eq=False)
class LandingFull(LandingError):
    """Transient: goes on when there is room again."""

    folder: Path
    needed_bytes: int
    free_bytes: int

    def __str__(self) -> str:
        needed = f"{self.needed_bytes:,} more are" if self.needed_bytes else "more are"
        return (
            f"“{shown(self.folder)}” has {self.free_bytes:,} bytes free and {needed} needed. What had arrived is kept. "
            "Free space there; it then goes on where it was."
        )


@dataclass(eq=False)
class NameRefused(LandingError):
    """Permanent: a name that this disk cannot hold or that would lead out of the folder."""

    folder: Path
    name: bytes
    reason: str

    def __str__(self) -> str:
        whole = escape(self.name)
        short = whole if len(whole) <= 80 else f"{whole[:60]}… ({len(self.name)} bytes)"
        return f"The name “{short}” cannot be used in “{shown(self.folder)}”: {self.reason}. Nothing was fetched."


@dataclass(eq=False)
class LandingRefused(LandingError):
    """Permanent: the folder or file cannot be used."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"“{shown(self.path)}” cannot be used as a landing: {self.reason}. Nothing there was changed."


@dataclass(eq=False)
class TargetExists(LandingError):
    """Permanent: the final name is taken."""

    path: Path

    def __str__(self) -> str:
        return (
            f"“{shown(self.path)}” exists already and is never overwritten; it was left as it is. Move it away or "
            "choose another folder."
        )


def check_names(spec: BuildSpec) -> None:
    """Refuse, before anything is fetched, names that the disk cannot hold. Raises NameRefused."""
    longest = os.pathconf(_existing(spec.folder), "PC_NAME_MAX")
    own = final_name(spec)
    reserve = max(len(os.fsencode(spec.incoming_name)), len(own + LEDGER_SUFFIX))
    if reserve > longest:
        reason = f"this disk holds names of up to {longest} bytes, and {reserve} are needed while it arrives"
        raise NameRefused(spec.folder, own, reason)
    if spec.single_file:
        return
    for segment in spec.segments:
        parts = segment.landing_name.split(b"/")
        if any(part in (b"", b".", b"..") for part in parts) or b"\0" in segment.landing_name:
            raise NameRefused(spec.folder, segment.landing_name, "it does not name a file below the folder")
        if max(map(len, parts)) > longest:
            raise NameRefused(
                spec.folder, segment.landing_name, f"this disk holds names of up to {longest} bytes a part"
            )


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


class IncomingWriter:
    """The incoming data of one build. Thread-safe; offsets count within the build."""

    def __init__(self, spec: BuildSpec, *, preallocate: bool = True) -> None:
        """Open or make the incoming data.

        `had_data` tells whether there was some before. Raises LandingError.
        """
        self._spec = spec
        self._map = SegmentMap(spec.segments)
        self._lock = threading.Lock()
        self._files: OrderedDict[bytes, int] = OrderedDict()
        check_names(spec)
        self._folder = _folder_handle(spec.folder)
        self._top = -1
        try:
            if spec.single_file:
                self.had_data = self._open_single(preallocate=preallocate)
            else:
                self.had_data = self._open_folder()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise landing_error(error, spec.folder, spec.size_bytes) from error
            raise

    def _open_single(self, *, preallocate: bool) -> bool:
        spec = self._spec
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(spec.incoming_name, flags, 0o644, dir_fd=self._folder)
        self._files[b""] = file
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise LandingRefused(spec.folder / spec.incoming_name, "it is not a regular file")
        if found.st_size > spec.size_bytes:
            os.ftruncate(file, spec.size_bytes)
        if preallocate and spec.size_bytes:
            need_room(spec.folder, spec.size_bytes - found.st_blocks * 512)
            os.posix_fallocate(file, 0, spec.size_bytes)
        elif found.st_size < spec.size_bytes:
            os.ftruncate(file, spec.size_bytes)
        return found.st_size > 0

    def _open_folder(self) -> bool:
        spec = self._spec
        had_data = True
        try:
            os.mkdir(spec.incoming_name, 0o755, dir_fd=self._folder)
            had_data = False
        except FileExistsError:
            pass
        self._top = os.open(spec.incoming_name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._folder)
        if not had_data:
            need_room(spec.folder, spec.size_bytes)
        for segment in spec.segments:
            if not segment.length:
                self._handle(segment.landing_name)
        return had_data

    def _handle(self, name: bytes) -> int:
        """The open file of a landing name; call it with the lock held (files mode) or for the one file."""
        if self._spec.single_file:
            return self._files[b""]
        if name in self._files:
            self._files.move_to_end(name)
            return self._files[name]
        while len(self._files) >= OPEN_FILES_AT_MOST:
            os.close(self._files.popitem(last=False)[1])
        *folders, base = name.split(b"/")
        with _FolderWalk(self._top) as walk:
            for folder in folders:
                walk.into(folder)
            file = os.open(base, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=walk.at)
        self._files[name] = file
        return file

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at their place in the build. Raises LandingFull (transient), LandingRefused."""
        try:
            if self._spec.single_file:
                _write_all(self._files[b""], data, offset)
                return
            view = memoryview(data)
            with self._lock:
                for piece in self._map.landing_pieces(offset, len(data)):
                    start = piece.offset - offset
                    part = view[start : start + piece.length]
                    _write_all(self._handle(piece.landing_name), part, piece.landing_offset)
        except OSError as error:
            raise landing_error(error, self._spec.folder, len(data)) from error

    def copy_from(self, file: int, file_offset: int, offset: int, length: int) -> int:
        """Copy from an open file to a place in the build, sharing the blocks where the disk can; returns the bytes
        copied, fewer where the file ends. Raises LandingError."""
        copied = 0
        for piece in self._map.landing_pieces(offset, length):
            start = file_offset + piece.offset - offset
            count = self._copy_shared(file, start, piece)
            if count < piece.length:
                data = _read_all(file, start + count, piece.length - count)
                self.write(piece.offset + count, data)
                count += len(data)
            copied += count
        return copied

    def _copy_shared(self, file: int, start: int, piece: LandingPiece) -> int:
        """The bytes that the kernel copied by itself: all, or fewer where these two disks cannot do it."""
        done = 0
        with self._lock, contextlib.suppress(OSError):
            target = self._handle(piece.landing_name)
            while done < piece.length:
                at = piece.landing_offset + done
                count = os.copy_file_range(file, target, piece.length - done, start + done, at)
                if not count:
                    break
                done += count
        return done

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the build as they lie here; fewer when the landing file is shorter. Raises OSError."""
        if self._spec.single_file:
            return _read_all(self._files[b""], offset, length)
        parts: list[bytes] = []
        with self._lock:
            for piece in self._map.landing_pieces(offset, length):
                parts.append(_read_all(self._handle(piece.landing_name), piece.landing_offset, piece.length))
        return b"".join(parts)

    def stretches(self, offset: int, length: int, step: int = MEBIBYTE) -> Iterator[bytes]:
        """Read a stretch in pieces of at most `step` bytes; ends early where the landing is shorter."""
        end = offset + length
        while offset < end:
            data = self.read(offset, min(step, end - offset))
            if not data:
                return
            yield data
            offset += len(data)

    def may_hold_data(self, offset: int, length: int) -> bool:
        """False when the stretch is certainly a hole, as far as this disk tells. A hint that only saves reading."""
        if not self._spec.single_file:
            return True
        try:
            return os.lseek(self._files[b""], offset, os.SEEK_DATA) < offset + length
        except OSError as error:
            return error.errno != errno.ENXIO  # ENXIO: no data from here to the end

    def sync(self) -> None:
        """Flush what was written to the disk."""
        if self._spec.single_file:
            os.fdatasync(self._files[b""])
            return
        # Files that were closed to make room may still be dirty; only a sync of the file system reaches them all.
        os.sync()

    def close(self) -> None:
        """Close every file. Safe to call twice."""
        with self._lock:
            while self._files:
                os.close(self._files.popitem()[1])
            for handle in (self._top, self._folder):
                if handle >= 0:
                    os.close(handle)
            self._top = self._folder = -1


class _FolderWalk:
    """Goes down folder by folder without following a link, making what is missing."""

    def __init__(self, top: int) -> None:
        self.at = os.dup(top)

    def into(self, name: bytes) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=self.at)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.at)
        os.close(self.at)
        self.at = below

    def __enter__(self) -> _FolderWalk:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.at)


def need_room(folder: Path, needed_bytes: int) -> None:
    """Raises LandingFull when the disk of `folder` has less than `needed_bytes` free."""
    free = free_bytes(folder)
    if needed_bytes > free:
        raise LandingFull(folder, needed_bytes, free)


def free_bytes(folder: Path) -> int:
    """Bytes free to this user on the disk that holds the folder."""
    found = os.statvfs(_existing(folder))
    return found.f_bavail * found.f_frsize


def landing_error(error: OSError, folder: Path, needed_bytes: int) -> LandingError:
    """The sentence for an error of the landing's disk."""
    if error.errno in _NO_SPACE:
        return LandingFull(folder, needed_bytes, free_bytes(folder))
    if error.errno == errno.ENAMETOOLONG:
        return NameRefused(folder, os.fsencode(error.filename or b""), "it is too long for this disk")
    return LandingRefused(folder, (error.strerror or str(error)).lower())


def make_folder(folder: Path) -> None:
    """Make the build's folder where it is missing. Raises LandingError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise landing_error(error, folder, 0) from error


def _folder_handle(folder: Path) -> int:
    make_folder(folder)
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise landing_error(error, folder, 0) from error


def publish(spec: BuildSpec) -> Path:
    """Give the incoming data its final name, without ever replacing anything, and sync the folder.

    Call it after the data were synced, read back and found right. Raises TargetExists, LandingError.
    """
    target = spec.folder / os.fsdecode(final_name(spec))
    handle = _folder_handle(spec.folder)
    try:
        if spec.single_file:
            try:
                # A hard link fails when the name is taken, at any moment; a rename would replace it.
                os.link(spec.incoming_name, target.name, src_dir_fd=handle, dst_dir_fd=handle, follow_symlinks=False)
                os.unlink(spec.incoming_name, dir_fd=handle)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                    raise
                _rename_if_free(handle, spec.incoming_name, target)
        else:
            _rename_if_free(handle, spec.incoming_name, target)
        os.fsync(handle)
    except FileExistsError:
        raise TargetExists(target) from None
    except OSError as error:
        raise landing_error(error, spec.folder, 0) from error
    finally:
        os.close(handle)
    return target


def _rename_if_free(handle: int, name: str, target: Path) -> None:
    """For disks without hard links, and for folders. The link or build lock keeps our own processes apart."""
    if os.path.lexists(target):
        raise FileExistsError(target)
    os.rename(name, target.name, src_dir_fd=handle, dst_dir_fd=handle)


def _write_all(file: int, data: bytes | memoryview, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _read_all(file: int, offset: int, length: int) -> bytes:
    data = os.pread(file, length, offset)
    while len(data) < length and (more := os.pread(file, length - len(data), offset + len(data))):
        data += more
    return data
