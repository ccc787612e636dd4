"""List everything below a folder of a host that gives no shell, over SFTP, in flat memory.

Many folders are read side by side, so that a long link is not waited for one question at a time; the requests under
way are bounded. SFTP version 3 tells neither device, inode, link count, stored bytes nor the time of the inode's last
change, and times in whole seconds: these stay 0 in the entries, and a scan says how it was made.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryFile

from inventory.remote.base import CommandFailed, PathMissing, PathRefused, Remote
from inventory.remote.names import RemoteName
from inventory.remote.sftp import (
    AT_END,
    NO_SUCH_FILE,
    OK,
    PERMISSION_DENIED,
    Answer,
    Attributes,
    Names,
    SftpClient,
    Status,
)
from inventory.scan import ScanEntry

FOLDERS_AT_ONCE = 32  # handles that the server keeps for us
REQUESTS_AT_ONCE = 128
READS_AHEAD = 4  # of one folder, where the server is known to answer them in order
_PATH_AT_MOST = 4095
_IN_ORDER = b"limits@openssh.com"  # announced by OpenSSH alone, which answers one request after another
FOLDERS_A_BLOCK = 10_000
_RECORD = struct.Struct(">IIQQ")  # length of the name, mode, time, size
_SECOND_NS = 10**9


@dataclass(slots=True)
class _Folder:
    """A folder while it is read."""

    name: bytes
    attributes: Attributes
    handle: bytes = b""
    reads: int = 0  # under way or wanted
    has_names: bool = False  # “.” counts: a folder that may not be entered shows not even that
    is_over: bool = False


class _FolderStack:
    """Folders that are still to be opened, the last ones first. Of very many the earlier ones lie on the disk."""

    def __init__(self) -> None:
        self._held: list[tuple[bytes, Attributes]] = []
        self._blocks: list[int] = []  # where in the file each begins
        self._file = TemporaryFile()  # noqa: SIM115  (closed by `close`)

    def __len__(self) -> int:
        return len(self._held) + len(self._blocks)

    def push(self, name: bytes, seen: Attributes) -> None:
        """Keep one."""
        self._held.append((name, seen))
        if len(self._held) >= 2 * FOLDERS_A_BLOCK:
            self._blocks.append(self._file.seek(0, 2))
            for early, told in self._held[:FOLDERS_A_BLOCK]:
                self._file.write(_record(early, told))
            del self._held[:FOLDERS_A_BLOCK]

    def pop(self) -> tuple[bytes, Attributes]:
        """The last one that was kept. Raises IndexError."""
        if not self._held and self._blocks:
            begin = self._blocks.pop()
            self._file.seek(begin)
            for _ in range(FOLDERS_A_BLOCK):
                length, mode, mtime, size = _RECORD.unpack(self._file.read(_RECORD.size))
                self._held.append((self._file.read(length), Attributes(size, mode, mtime)))
            self._file.truncate(begin)
        return self._held.pop()

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()


def _record(name: bytes, seen: Attributes) -> bytes:
    return _RECORD.pack(len(name), seen.mode or 0, seen.mtime_seconds or 0, seen.size_bytes or 0) + name


@dataclass(slots=True)
class _Found:
    """What is known of a walk so far: entries to give, and what to ask next."""

    ready: deque[ScanEntry] = field(default_factory=deque)
    links: deque[tuple[bytes, Attributes]] = field(default_factory=deque)  # to be followed by one step
    bare: deque[bytes] = field(default_factory=deque)  # names that came without their kind
    reads: deque[_Folder] = field(default_factory=deque)  # folders with more names, as far as is known
    folders: _FolderStack = field(default_factory=_FolderStack)  # to be opened


def scan_over_sftp(
    remote: Remote, root: RemoteName, *, leave_out: Sequence[RemoteName], timeout_seconds: float = 600.0
) -> Iterator[ScanEntry]:
    """Yield every entry of the tree at `root`, in no certain order; see `scan.scan_resource`, which promises the same.

    Raises PathMissing, PathRefused, SftpUnusable, TransientError; CommandFailed for an answer that means nothing.
    """
    if not root.is_canonical:
        raise PathRefused(root, "a resource's path is absolute, without “.”, “..”, “//” or a slash at its end.")
    with ExitStack() as stack:
        stream = remote.open_sftp(timeout_seconds=timeout_seconds)
        stack.callback(stream.close)
        client = SftpClient(stream, timeout_seconds=timeout_seconds)
        seen = _root(client, root)
        left_out = _left_out(client, root, leave_out)
        if seen.kind != "folder":
            yield _entry(b"", seen)
            return
        walk = _Walk(client, root, left_out)
        stack.callback(walk.close)
        yield from walk.entries(seen)


def _root(client: SftpClient, root: RemoteName) -> Attributes:
    seen = client.look(root.raw)
    if isinstance(seen, Status):
        if seen.code == NO_SUCH_FILE:
            raise PathMissing(root)
        if seen.code == PERMISSION_DENIED:
            raise PathRefused(root, "the account may not look at it (permission denied). Nothing was listed.")
        raise CommandFailed(f"look at {root}", seen.code, _text(seen.message))
    if seen.kind is None:
        raise CommandFailed(f"look at {root}", 0, "the server does not tell what kind of path it is")
    if seen.kind == "link":
        real = client.real_path(root.raw)
        where = f" to “{RemoteName(real)}”" if real else " that leads nowhere"
        raise PathRefused(root, f"it is a symbolic link{where}. Nothing was listed. Give the real path.")
    return seen


def _left_out(client: SftpClient, root: RemoteName, leave_out: Sequence[RemoteName]) -> frozenset[bytes]:
    """Relative names below the root that are not to be listed, by the given paths and by the real ones."""
    real_root = RemoteName(client.real_path(root.raw) or root.raw)
    found = set()
    for path in leave_out:
        real = RemoteName(client.real_path(path.raw) or path.raw)
        for top, folder in ((root, path), (real_root, real)):
            if top.is_below(folder):
                raise PathRefused(root, f"it lies in our own staging folder “{folder}”, which is never listed.")
            if folder.is_below(top):
                found.add(folder.raw[len(top.raw.rstrip(b"/")) + 1 :].rstrip(b"/"))
    return frozenset(found)


class _Walk:
    """One pass over a tree."""

    def __init__(self, client: SftpClient, root: RemoteName, left_out: frozenset[bytes]) -> None:
        self._client, self._root, self._left_out = client, root, left_out
        self._found = _Found()
        self._asked: dict[int, Callable[[Answer], None]] = {}
        self._open = 0
        self._ahead = READS_AHEAD if _IN_ORDER in client.extensions else 1

    def close(self) -> None:
        """Give back what lies on the disk."""
        self._found.folders.close()

    def entries(self, seen: Attributes) -> Iterator[ScanEntry]:
        """Everything from the root on."""
        self._found.folders.push(b"", seen)
        self._ask()
        while self._asked:
            number, answer = self._client.answer()
            act = self._asked.pop(number, None)
            if act is None:
                raise CommandFailed(f"list {self._root}", 0, "the server answered a question that was not asked")
            act(answer)
            self._ask()
            while self._found.ready:
                yield self._found.ready.popleft()

    def _ask(self) -> None:
        """Ask as much as may be under way: first what empties a queue, then what may fill one."""
        found = self._found
        while len(self._asked) < REQUESTS_AT_ONCE:
            if found.links:
                name, seen = found.links.popleft()
                number = self._client.ask_link(self._path(name))
                self._asked[number] = partial(self._note_link, name, seen)
            elif found.bare:
                name = found.bare.popleft()
                number = self._client.ask_look(self._path(name))
                self._asked[number] = partial(self._note_look, name)
            elif found.reads:
                self._read(found.reads.popleft())
            elif found.folders and self._open < FOLDERS_AT_ONCE:
                self._open_folder(*found.folders.pop())
            else:
                return

    def _path(self, name: bytes) -> bytes:
        return self._root.join(name).raw if name else self._root.raw

    # -- folders ---------------------------------------------------------------------------------------------------

    def _open_folder(self, name: bytes, seen: Attributes) -> None:
        path = self._path(name)
        if len(path) > _PATH_AT_MOST:
            self._bar(name, seen)
            return
        folder = _Folder(name, seen)
        self._open += 1
        self._asked[self._client.ask_open_folder(path)] = partial(self._note_open, folder)

    def _note_open(self, folder: _Folder, answer: Answer) -> None:
        if isinstance(answer, bytes):
            folder.handle = answer
            self._found.ready.append(_entry(folder.name, folder.attributes))
            folder.reads = 1
            self._found.reads.append(folder)
            return
        self._open -= 1
        code = answer.code if isinstance(answer, Status) else OK
        if not folder.name and code == NO_SUCH_FILE:
            raise PathMissing(self._root)
        if not folder.name:
            raise PathRefused(self._root, "the account may not list it (permission denied). Nothing was listed.")
        if code != NO_SUCH_FILE:  # what vanished in between is passed over
            self._bar(folder.name, folder.attributes)

    def _read(self, folder: _Folder) -> None:
        if folder.is_over:
            self._end_read(folder)
            return
        self._asked[self._client.ask_read_folder(folder.handle)] = partial(self._note_read, folder)

    def _note_read(self, folder: _Folder, answer: Answer) -> None:
        if isinstance(answer, tuple) and answer:
            folder.reads -= 1
            folder.has_names = True
            self._note_names(folder, answer)
            while not folder.is_over and folder.reads < self._ahead:
                folder.reads += 1
                self._found.reads.append(folder)
            return
        is_end = not isinstance(answer, Status) or answer.code == AT_END
        if not is_end and not folder.is_over:
            self._bar(folder.name, folder.attributes)
        was_over, folder.is_over = folder.is_over, True
        if is_end and not was_over and not folder.has_names:
            # A server passes over what it may not look at, so a folder that may be listed but not entered looks empty.
            number = self._client.ask_look(self._path(folder.name) + b"/.")
            self._asked[number] = partial(self._note_entered, folder)
        self._end_read(folder)

    def _end_read(self, folder: _Folder) -> None:
        """One read less; with the last one of a folder that is over its handle goes back."""
        folder.reads -= 1
        if not folder.reads:
            self._open -= 1
            self._asked[self._client.ask_close(folder.handle)] = lambda answer: None

    def _note_entered(self, folder: _Folder, answer: Answer) -> None:
        if isinstance(answer, Status) and answer.code == PERMISSION_DENIED:
            if not folder.name:
                raise PathRefused(self._root, "the account may not list it (permission denied). Nothing was listed.")
            self._bar(folder.name, folder.attributes)

    def _bar(self, name: bytes, seen: Attributes) -> None:
        """A folder that may not be listed. When it was given already, this one counts."""
        self._found.ready.append(
            ScanEntry(name, "unreadable", 0, 0, _time(seen), 0, (seen.mode or 0) & 0o7777, 0, 0, 0)
        )

    # -- names -----------------------------------------------------------------------------------------------------

    def _note_names(self, folder: _Folder, names: Names) -> None:
        for base, seen in names:
            if base in (b".", b".."):
                continue
            if not base or b"/" in base or b"\0" in base:
                raise CommandFailed(f"list {self._root}", 0, f"the server tells of a file called {base[:200]!r}")
            name = folder.name + b"/" + base if folder.name else base
            if name not in self._left_out:
                self._note(name, seen)

    def _note(self, name: bytes, seen: Attributes) -> None:
        if seen.kind == "folder":
            self._found.folders.push(name, seen)
        elif seen.kind == "link":
            self._found.links.append((name, seen))
        elif seen.kind is None:
            self._found.bare.append(name)
        else:
            self._found.ready.append(_entry(name, seen))

    def _note_look(self, name: bytes, answer: Answer) -> None:
        """A name that came without its kind."""
        if isinstance(answer, Attributes) and answer.kind is not None:
            self._note(name, answer)
        elif not isinstance(answer, Status) or answer.code != NO_SUCH_FILE:
            self._found.ready.append(ScanEntry(name, "unreadable", 0, 0, 0, 0, 0, 0, 0, 0))

    def _note_link(self, name: bytes, seen: Attributes, answer: Answer) -> None:
        if isinstance(answer, tuple) and answer:
            self._found.ready.append(_entry(name, seen, answer[0][0]))
        elif not isinstance(answer, Status) or answer.code != NO_SUCH_FILE:
            self._found.ready.append(ScanEntry(name, "unreadable", 0, 0, 0, 0, 0, 0, 0, 0))


def _entry(name: bytes, seen: Attributes, target: bytes = b"") -> ScanEntry:
    kind = seen.kind or "unreadable"
    return ScanEntry(name, kind, seen.size_bytes or 0, 0, _time(seen), 0, (seen.mode or 0) & 0o7777, 0, 0, 0, target)


def _time(seen: Attributes) -> int:
    return (seen.mtime_seconds or 0) * _SECOND_NS


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
