"""SFTP version 3 as far as listing needs it, with names as bytes and no more requests under way than asked for.

Packets are LENGTH(4) TYPE(1) NUMBER(4) BODY; strings are LENGTH(4) BYTES. paramiko's own client makes text of names
and raises where they are no UTF-8, so packets are read here; only the bytes come from it.
"""

from __future__ import annotations

import stat as stat_bits
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from inventory.remote.base import ByteStream, CommandFailed, EntryKind, SftpUnusable

VERSION = 3
OK, AT_END, NO_SUCH_FILE, PERMISSION_DENIED = 0, 1, 2, 3  # of STATUS
_INIT, _VERSION, _CLOSE, _LSTAT, _OPENDIR, _READDIR, _REALPATH, _READLINK = 1, 2, 4, 7, 11, 12, 16, 19
_STATUS, _HANDLE, _NAME, _ATTRS, _EXTENDED, _EXTENDED_REPLY = 101, 102, 104, 105, 200, 201
_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES, _HAS_MORE = 1, 2, 4, 8, 0x80000000
_PACKET_AT_MOST = 2**20  # OpenSSH's are 256 KiB at most
_WORDS_KEPT = 200
KINDS: dict[int, EntryKind] = {
    stat_bits.S_IFREG: "file",
    stat_bits.S_IFDIR: "folder",
    stat_bits.S_IFLNK: "link",
    stat_bits.S_IFSOCK: "socket",
    stat_bits.S_IFIFO: "pipe",
    stat_bits.S_IFBLK: "device",
    stat_bits.S_IFCHR: "device",
}


@dataclass(frozen=True, slots=True)
class Attributes:
    """What this version tells of a path: size in bytes, time of change in whole seconds since 1970. None: not told."""

    size_bytes: int | None
    mode: int | None
    mtime_seconds: int | None

    @property
    def kind(self) -> EntryKind | None:
        """None where the mode is not told, or holds no kind."""
        return None if self.mode is None else KINDS.get(stat_bits.S_IFMT(self.mode))


@dataclass(frozen=True, slots=True)
class Status:
    """A request's end without content: OK, AT_END, NO_SUCH_FILE, PERMISSION_DENIED or another number."""

    code: int
    message: bytes


Names = tuple[tuple[bytes, Attributes], ...]
Answer = Status | Names | Attributes | bytes  # bytes: a handle, or an extension's answer


class SftpClient:
    """One conversation. Requests may be many; answers come in the server's order. For one thread."""

    def __init__(self, stream: ByteStream, *, timeout_seconds: float) -> None:
        """Begin it; `timeout_seconds` bounds each silence.

        Raises SftpUnusable (also for a login that prints text), ConnectionLost, DeadlinePassed.
        """
        self._stream, self._timeout_seconds = stream, timeout_seconds
        self._held = bytearray()
        self._number = 0
        self.extensions: dict[bytes, bytes] = {}
        stream.send(struct.pack(">IBI", 5, _INIT, VERSION), timeout_seconds=timeout_seconds)
        kind, body = self._packet(is_first=True)
        if kind != _VERSION or len(body) < 4:
            raise SftpUnusable("its server does not begin with a version")
        reader = _Fields(body[4:])
        while reader.is_more:
            name = reader.string()
            self.extensions[name] = reader.string()

    def close(self) -> None:
        """End the conversation and its connection."""
        self._stream.close()

    # -- asking ----------------------------------------------------------------------------------------------------

    def ask_open_folder(self, path: bytes) -> int:
        """Ask for a handle of a folder; returns the request's number, as the others do."""
        return self._ask(_OPENDIR, _string(path))

    def ask_read_folder(self, handle: bytes) -> int:
        """Ask for some more names of a folder."""
        return self._ask(_READDIR, _string(handle))

    def ask_close(self, handle: bytes) -> int:
        """Give a handle back."""
        return self._ask(_CLOSE, _string(handle))

    def ask_look(self, path: bytes) -> int:
        """Ask for a path's attributes; a link is not followed."""
        return self._ask(_LSTAT, _string(path))

    def ask_link(self, path: bytes) -> int:
        """Ask where a link leads."""
        return self._ask(_READLINK, _string(path))

    def _ask(self, kind: int, body: bytes) -> int:
        self._number = (self._number + 1) % 2**32
        packet = struct.pack(">IBI", len(body) + 5, kind, self._number) + body
        self._stream.send(packet, timeout_seconds=self._timeout_seconds)
        return self._number

    # -- one question, one answer; only while no other is under way ------------------------------------------------

    def look(self, path: bytes) -> Attributes | Status:
        """A path's attributes, of the link itself when it is one. Raises TransientError, SftpUnusable."""
        found = self._answer_to(self.ask_look(path))
        return found if isinstance(found, Attributes | Status) else Status(4, b"an answer of another kind")

    def real_path(self, path: bytes) -> bytes | None:
        """The path with its links followed; None where the server does not say."""
        found = self._answer_to(self._ask(_REALPATH, _string(path)))
        return found[0][0] if isinstance(found, tuple) and found else None

    def free_bytes(self, path: bytes) -> int | None:
        """What an account may still write on a path's file system; None where the server does not say."""
        if b"statvfs@openssh.com" not in self.extensions:
            return None
        found = self._answer_to(self._ask(_EXTENDED, _string(b"statvfs@openssh.com") + _string(path)))
        if not isinstance(found, bytes) or len(found) < 88:
            return None
        _block, fragment, _blocks, _free, available = struct.unpack(">5Q", found[:40])
        return int(fragment * available)

    def _answer_to(self, number: int) -> Answer:
        found, answer = self.answer()
        if found != number:
            raise CommandFailed("speak SFTP", 0, "the server answered a question that was not asked")
        return answer

    # -- answers ---------------------------------------------------------------------------------------------------

    def answer(self) -> tuple[int, Answer]:
        """The next answer with its request's number. Raises ConnectionLost, DeadlinePassed, SftpUnusable,
        CommandFailed for what is no answer."""
        kind, body = self._packet()
        fields = _Fields(body)
        number = fields.number()
        if kind == _STATUS:
            code = fields.number()
            return number, Status(code, fields.string() if fields.is_more else b"")
        if kind == _HANDLE:
            return number, fields.string()
        if kind == _NAME:
            return number, tuple(_names(fields))
        if kind == _ATTRS:
            return number, fields.attributes()
        if kind == _EXTENDED_REPLY:
            return number, bytes(fields.rest())
        raise CommandFailed("speak SFTP", 0, f"the server sent a packet of the unknown kind {kind}")

    def _packet(self, *, is_first: bool = False) -> tuple[int, memoryview]:
        head = self._take(5, is_first=is_first)
        length, kind = struct.unpack(">IB", head)
        if not 1 <= length <= _PACKET_AT_MOST:
            raise _no_packet(bytes(head) + bytes(self._held), is_first=is_first)
        return kind, memoryview(self._take(length - 1, is_first=is_first))

    def _take(self, count: int, *, is_first: bool) -> bytes:
        while len(self._held) < count:
            data = self._stream.receive(timeout_seconds=self._timeout_seconds)
            if not data and is_first:
                raise _no_packet(bytes(self._held), is_first=True)
            if not data:
                raise self._stream.lost("the SFTP server ended before it had answered")
            self._held += data
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken


def _no_packet(found: bytes, *, is_first: bool) -> SftpUnusable:
    """Text where a packet should begin: four letters read as a length are a thousand million and more."""
    words = found[:_WORDS_KEPT].decode("utf-8", "backslashreplace").strip()
    if is_first and found:
        return SftpUnusable(
            f"the account's shell prints text for logins without a terminal, and SFTP cannot begin: “{words}”. Have "
            "its start-up files print for terminals only"
        )
    return SftpUnusable("its server ended at once" if is_first else f"its server sent “{words}”, which is no packet")


class _Fields:
    """A packet's fields, one after another. Raises CommandFailed when it ends too early."""

    def __init__(self, body: memoryview) -> None:
        self._body, self._at = body, 0

    @property
    def is_more(self) -> bool:
        return self._at < len(self._body)

    def rest(self) -> memoryview:
        return self._body[self._at :]

    def number(self) -> int:
        return int.from_bytes(self._piece(4), "big")

    def long(self) -> int:
        return int.from_bytes(self._piece(8), "big")

    def string(self) -> bytes:
        return bytes(self._piece(self.number()))

    def _piece(self, count: int) -> memoryview:
        piece = self._body[self._at : self._at + count]
        if len(piece) != count:
            raise CommandFailed("speak SFTP", 0, "an answer of the server is cut off")
        self._at += count
        return piece

    def attributes(self) -> Attributes:
        flags = self.number()
        size = self.long() if flags & _HAS_SIZE else None
        if flags & _HAS_OWNER:
            self._piece(8)
        mode = self.number() if flags & _HAS_MODE else None
        _atime, mtime = (self.number(), self.number()) if flags & _HAS_TIMES else (None, None)
        for _ in range(self.number() if flags & _HAS_MORE else 0):
            self.string()
            self.string()
        return Attributes(size, mode, mtime)


def _names(fields: _Fields) -> Iterator[tuple[bytes, Attributes]]:
    for _ in range(fields.number()):
        name = fields.string()
        fields.string()  # a line for people, of no fixed form
        yield name, fields.attributes()


def _string(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw
