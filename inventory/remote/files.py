"""`Remote`'s scripts and files on top of shell sessions. SSH and tests differ only in where a session comes from.

Files go through the shell and not through SFTP: names are bytes there, and one way of reading errors serves all.
"""

from __future__ import annotations

import re
import secrets
import stat as stat_bits
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from inventory.remote.base import (
    ByteStream,
    CommandFailed,
    Completed,
    ConnectionLost,
    DeadlinePassed,
    EntryKind,
    PathMissing,
    PathRefused,
    RemoteSpaceShort,
    RemoteStat,
    ShellStream,
    ToolMissing,
)
from inventory.remote.names import RemoteName
from inventory.remote.shell import FramedCall, Session, quote, raise_bad_status, run_framed, stream_framed

# Fields for `parse_stat`, which BusyBox and GNU stat print alike (times in UTC).
STAT_FORMAT = b"%f %s %b %B %Y %Z %d %i %h|%y|%z"
_FRACTION = re.compile(rb"\.(\d{9})\b")
_FILE_SECONDS = 60.0
_MISSING, _WRONG_KIND, _UNREADABLE = 64, 65, 66
_KINDS: tuple[tuple[int, EntryKind], ...] = (
    (stat_bits.S_IFREG, "file"),
    (stat_bits.S_IFDIR, "folder"),
    (stat_bits.S_IFLNK, "link"),
    (stat_bits.S_IFSOCK, "socket"),
    (stat_bits.S_IFIFO, "pipe"),
    (stat_bits.S_IFBLK, "device"),
    (stat_bits.S_IFCHR, "device"),
)


class FramedRemote(ABC):
    """What a `Remote` does by framed scripts. `place` is address and port, for error sentences."""

    def __init__(self, place: tuple[str, int], *, silence_seconds: float) -> None:
        self.place = place
        self._silence_seconds = silence_seconds

    @abstractmethod
    def _open_session(self, timeout_seconds: float) -> Session:
        """Start `exec /bin/sh -s`. Raises the errors of connecting."""

    @abstractmethod
    def _distrust(self, session: Session) -> None:
        """What lies under this session went silent."""

    @abstractmethod
    def open_shell(self, *, window_bytes: int = 4 * 2**20, timeout_seconds: float = 60.0) -> ShellStream:
        """See `Remote.open_shell`."""

    @abstractmethod
    def open_sftp(self, *, timeout_seconds: float = 60.0) -> ByteStream:
        """See `Remote.open_sftp`."""

    @abstractmethod
    def close(self) -> None:
        """See `Remote.close`."""

    @contextmanager
    def _session(self, timeout_seconds: float) -> Iterator[Session]:
        session = self._open_session(timeout_seconds)
        try:
            yield session
        except DeadlinePassed:
            self._distrust(session)
            raise
        finally:
            session.close()

    # -- scripts ---------------------------------------------------------------------------------------------------

    def run(self, script: bytes, *, step: str, timeout_seconds: float = 60.0) -> Completed:
        """See `Remote.run`."""
        deadline = time.monotonic() + timeout_seconds
        with self._session(timeout_seconds) as session:
            return run_framed(
                session, script, step=step, timeout_seconds=timeout_seconds, deadline=deadline, at=self.place
            )

    def check(self, script: bytes, *, step: str, timeout_seconds: float = 60.0) -> bytes:
        """See `Remote.check`."""
        completed = self.run(script, step=step, timeout_seconds=timeout_seconds)
        raise_bad_status(completed, step)
        return completed.output

    def stream(self, script: bytes, *, step: str, timeout_seconds: float = 600.0) -> Iterator[bytes]:
        """See `Remote.stream`."""
        with self._session(timeout_seconds) as session:
            yield from stream_framed(session, script, step=step, timeout_seconds=timeout_seconds, at=self.place)

    # -- files -----------------------------------------------------------------------------------------------------

    def write_file(self, path: RemoteName, content: Iterable[bytes], *, mode: int = 0o600) -> int:
        """See `Remote.write_file`. The name appears only when the size that lies there is the size that was sent.

        Raises PathMissing, PathRefused, RemoteSpaceShort, TransientError.
        """
        folder = RemoteName(path.raw.rpartition(b"/")[0] or b"/")
        partial = folder.join(b".calculet-" + secrets.token_hex(8).encode() + b".partial")
        try:
            sent = self._upload(path, partial, content)
            self._settle(path, partial, sent, mode)
        except (PathMissing, PathRefused, RemoteSpaceShort, CommandFailed, ConnectionLost):
            self._remove_quietly(partial)
            raise
        return sent

    def _upload(self, path: RemoteName, partial: RemoteName, content: Iterable[bytes]) -> int:
        step = f"write {path}"
        sent = 0
        with self._session(_FILE_SECONDS) as session:
            call = FramedCall(session, step=step, address=self.place[0], port=self.place[1])
            script = b"umask 077\nexec cat >" + quote(partial.raw) + b"\n"
            call.begin(script, timeout_seconds=_FILE_SECONDS, reads_input=True)
            # Only from here on is it `cat` that reads, and not the shell that reads ahead.
            call.wait_started(timeout_seconds=_FILE_SECONDS)
            try:
                for piece in content:
                    session.send(piece, timeout_seconds=self._silence_seconds)
                    sent += len(piece)
                session.end_input()
            except TimeoutError as error:
                raise DeadlinePassed(f"Writing “{path}” on the host", self._silence_seconds) from error
            except BrokenPipeError:
                sent = -1  # `cat` ended before it had everything: its status and complaint say why
            for _ in call.pieces(silence_seconds=self._silence_seconds):
                continue
            completed = Completed(call.reader.status or 0, b"", call.reader.last_errors)
        if completed.status != 0:
            raise self._file_error(completed, path, step, max(sent, 1))
        if sent < 0:
            raise ConnectionLost(*self.place, f"while writing “{path}”")
        return sent

    def _settle(self, path: RemoteName, partial: RemoteName, sent: int, mode: int) -> None:
        step = f"finish writing {path}"
        here, there = quote(partial.raw), quote(path.raw)
        script = (
            b"size=$(wc -c <%b) || exit\n"
            b'[ "$((size))" -eq %d ] || { echo "$((size)) bytes lie there, %d were sent" >&2; exit 67; }\n'
            b"[ ! -d %b ] || { echo 'Is a directory' >&2; exit 68; }\n"
            b"chmod %o %b && mv -f -- %b %b\n" % (here, sent, sent, there, mode, here, here, there)
        )
        completed = self.run(script, step=step, timeout_seconds=_FILE_SECONDS)
        if completed.status != 0:
            raise self._file_error(completed, path, step, sent)

    def _remove_quietly(self, partial: RemoteName) -> None:
        """Take a half-written temporary file away; when even that fails, the first error is the one to hear."""
        try:
            self.run(b"rm -f -- " + quote(partial.raw), step="remove a half-written file", timeout_seconds=20.0)
        except (ConnectionLost, DeadlinePassed):
            return

    def read_file(self, path: RemoteName, *, limit_bytes: int) -> bytes:
        """See `Remote.read_file`."""
        step = f"read {path}"
        name = quote(path.raw)
        script = b"[ -e %b ] || { ls -d -- %b >/dev/null || exit; }\n[ -f %b ] || exit %d\nhead -c %d <%b\n" % (
            name,
            name,
            name,
            _WRONG_KIND,
            limit_bytes + 1,
            name,
        )
        completed = self.run(script, step=step, timeout_seconds=max(_FILE_SECONDS, limit_bytes / 2**16))
        if completed.status == _WRONG_KIND:
            raise PathRefused(path, "it is no regular file, so it was not read.")
        if completed.status != 0:
            raise self._file_error(completed, path, step, 0)
        if len(completed.output) > limit_bytes:
            raise PathRefused(path, f"it is larger than {limit_bytes:,} bytes, so it was not read whole.")
        return completed.output

    def stat(self, path: RemoteName) -> RemoteStat:
        """See `Remote.stat`. Raises PathMissing, PathRefused, ToolMissing."""
        step = f"look at {path}"
        script = b"TZ=UTC stat -c '" + STAT_FORMAT + b"' -- " + quote(path.raw) + b"\n"
        completed = self.run(script, step=step, timeout_seconds=_FILE_SECONDS)
        if completed.status == 127:
            raise ToolMissing("stat", "look at files")
        if completed.status != 0:
            raise self._file_error(completed, path, step, 0)
        return parse_stat(completed.output, step)

    def _file_error(self, completed: Completed, path: RemoteName, step: str, needed_bytes: int) -> Exception:
        """The error that a program's complaint means. Under LC_ALL=C these sentences are the same everywhere."""
        said = completed.errors
        # dash says “Directory nonexistent” and BusyBox “nonexistent directory” for a missing folder of a new file.
        if any(text in said for text in (b"No such file", b"Not a directory", b"onexistent")):
            return PathMissing(path)
        if b"ermission denied" in said:
            return PathRefused(path, "the account may not do that there (permission denied). Nothing was changed.")
        if b"Read-only file system" in said:
            return PathRefused(path, "its file system is read-only. Nothing was changed.")
        if b"Is a directory" in said:
            return PathRefused(path, "it is a folder. Nothing was changed.")
        if b"File name too long" in said:
            return PathRefused(path, "its name is too long for that file system. Nothing was changed.")
        if b"No space left" in said or b"quota exceeded" in said:
            return RemoteSpaceShort(path, needed_bytes, 0)
        return CommandFailed(step, completed.status, said[-2000:].decode("utf-8", "backslashreplace"))


def parse_stat(line: bytes, step: str) -> RemoteStat:
    """Read one line of `stat -c` in our format. Raises CommandFailed when it is something else."""
    try:
        numbers, changed, status_changed = line.rstrip(b"\n").split(b"|")
        mode, size, blocks, unit, mtime, ctime, device, inode, links = numbers.split()
        bits = int(mode, 16)
        return RemoteStat(
            kind=next((kind for kind_bits, kind in _KINDS if stat_bits.S_IFMT(bits) == kind_bits), "unreadable"),
            size_bytes=int(size),
            stored_bytes=int(blocks) * int(unit),
            mtime_ns=int(mtime) * 10**9 + _nanoseconds(changed),
            ctime_ns=int(ctime) * 10**9 + _nanoseconds(status_changed),
            mode=stat_bits.S_IMODE(bits),
            device=int(device),
            inode=int(inode),
            link_count=int(links),
        )
    except ValueError as error:
        raise CommandFailed(step, 0, f"stat printed {line[:200]!r}, which is not what was asked for") from error


def _nanoseconds(shown: bytes) -> int:
    """The fraction of a time as stat shows it; old BusyBox shows none."""
    match = _FRACTION.search(shown)
    return int(match.group(1)) if match else 0
