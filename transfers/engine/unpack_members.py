"""Putting the members of a pack into an open folder, whatever an archive that may be hostile says."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from inventory.remote.names import escape
from transfers.engine.opens.base import READ_BYTES, Watch
from transfers.engine.opens.plain import ExactStream
from transfers.engine.opens.tar import TarMember, TarReader
from transfers.engine.tree import Tree, UnsafeName, safe_parts
from transfers.engine.types import Member
from transfers.engine.verify import Stopped

NAMED_AT_MOST = 1000  # of each kind of remark; what is beyond is counted
_SPECIAL_BITS = 0o7000
# What a name or its neighbours can do to one member; anything else is the disk's trouble and ends the act.
_OF_THE_NAME = {
    errno.EEXIST: "another member takes its place",
    errno.ENOTDIR: "another member takes its place",
    errno.EISDIR: "another member takes its place",
    errno.ELOOP: "another member takes its place",
    errno.ENAMETOOLONG: "its name or its link's text is too long for this disk",
    errno.EMLINK: "the file has as many names as this disk allows",
}


@dataclass(frozen=True, slots=True)
class Remark:
    """A member that was not made exactly as the pack says.

    `what` is one of "left out", "bits dropped", "leads outside", "placed below", "replaced".
    """

    name: bytes
    what: str
    detail: str


@dataclass
class Filling:
    """A folder while it is filled. `files` and the others are keyed by the name as it stands in the folder."""

    tree: Tree
    watch: Watch
    members: int = 0
    bytes_written: int = 0
    files: dict[bytes, bytes] = field(default_factory=dict)  # → the member's own name
    folders: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # → permissions, time
    links: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)  # → text, time
    left_out: set[bytes] = field(default_factory=set)
    remarks: list[Remark] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def from_tar(self, reader: TarReader) -> None:
        """Make every member of an archive. Raises ContentError, Stopped, OSError."""
        for member in reader:
            self._begin(member.name)
            with _Named(self, member.name):
                self._tar_member(reader, member)

    def from_list(self, members: Iterable[Member], landed: Tree) -> None:
        """Make every member of a list, files as copies of those that landed. Raises Stopped, OSError."""
        for member in members:
            self._begin(member.name)
            with _Named(self, member.name):
                name = _normal(member.name)
                if member.kind == "folder":
                    self._folder(name, member.mode, member.mtime_ns)
                elif member.kind == "link":
                    self.links[name] = (member.link_target, member.mtime_ns)
                else:
                    with landed.reading(member.name) as file:
                        size = os.fstat(file).st_size
                        self._write(member.name, _pieces_of(file), size, member.mode, member.mtime_ns)

    def from_stream(self, name: bytes, stream: ExactStream, mode: int, mtime_ns: int) -> None:
        """Make one file of a whole stream. Raises ContentError, Stopped, OSError."""
        self._begin(name)
        self._write(name, _pieces_of_stream(stream), None, mode, mtime_ns)

    def place(self, members: Sequence[Member], pieces: Iterable[tuple[int, bytes]], size_bytes: int) -> None:
        """Make files of one content, brought as (offset, bytes), with holes between. Raises Stopped, OSError."""
        first, *others = members
        self._place(first, pieces, size_bytes)
        for member in others:
            self.copy(member, _normal(first.name))

    def copy(self, member: Member, name: bytes) -> None:
        """Make a file with the content of one that is in the folder already. Raises Stopped, OSError."""
        if name in self.files:
            with self.tree.reading(name) as file:
                self._place(member, _pieces_of(file), os.fstat(file).st_size)

    def _place(self, member: Member, pieces: Iterable[tuple[int, bytes]], size_bytes: int) -> None:
        self._begin(member.name)
        with _Named(self, member.name):
            self._give_way(_normal(member.name))
            self._write(member.name, pieces, size_bytes, member.mode, member.mtime_ns)

    def link_hard(self, member: Member, name: bytes) -> None:
        """Give a file of the folder a further name. Raises Stopped, OSError."""
        if name in self.files:
            self._begin(member.name)
            with _Named(self, member.name):
                self._give_way(_normal(member.name))
                self.tree.hard_link(member.name, name)
                self.files[_normal(member.name)] = member.name

    def pause(self) -> None:
        """Between members of a long read. Raises Stopped."""
        if self.watch.stop():
            raise Stopped
        self.watch.progress(self.bytes_written)

    @staticmethod
    def pieces_of(file: int) -> Iterator[tuple[int, bytes]]:
        """An open file as (offset, bytes)."""
        return _pieces_of(file)

    def make_links(self) -> None:
        """Make the symbolic links, last of all, so that nothing was ever written through one. Raises OSError."""
        for name, (target, mtime_ns) in self.links.items():
            if not target:
                self.remark(name, "left out", "the link has no text")
                continue
            with _Named(self, name):
                self.tree.make_link(name, target, mtime_ns)
                if leads_outside(name, target):
                    self.remark(name, "leads outside", f"the link leads to “{escape(target)}”; it was made as it is")

    def finish_folders(self) -> None:
        """Set permissions and times of folders, the deepest first. Raises OSError."""
        for name, (mode, mtime_ns) in sorted(self.folders.items(), reverse=True):
            self.tree.finish_folder(name, mode, mtime_ns)

    def remark(self, name: bytes, what: str, detail: str) -> None:
        """Note what was made otherwise; of each kind the first thousand by name, the rest by count."""
        if what == "left out":
            self.left_out.add(name)
        self.counts[what] = self.counts.get(what, 0) + 1
        if self.counts[what] <= NAMED_AT_MOST:
            self.remarks.append(Remark(name, what, detail))

    def _begin(self, name: bytes) -> None:
        self.pause()
        self.members += 1
        if name.startswith(b"/"):
            self.remark(name, "placed below", "its name begins with a slash, which was dropped")

    def _tar_member(self, reader: TarReader, member: TarMember) -> None:
        if member.kind == "folder" and not [part for part in member.name.split(b"/") if part not in (b"", b".")]:
            return  # “./”: the folder itself
        name = _normal(member.name)
        if member.kind == "file":
            self._give_way(name)
            self._write(member.name, reader.pieces(), member.size_bytes, member.mode, member.mtime_ns)
        elif member.kind == "folder":
            self._folder(name, member.mode, member.mtime_ns)
        elif member.kind == "link":
            self._give_way(name)
            self.links[name] = (member.link_target, member.mtime_ns)
        elif member.kind == "hard link":
            self._hard_link(name, member)
        else:
            self.remark(member.name, "left out", f"it is a {member.kind}; only files, folders and links are made here")

    def _give_way(self, name: bytes) -> None:
        """Let the last of several members of one name win, as tar does."""
        was_there = self.links.pop(name, None) is not None
        if name in self.files:
            self.tree.remove(name)
            del self.files[name]
            was_there = True
        if was_there:
            self.remark(name, "replaced", "the archive holds it more than once; the last one counts")

    def _folder(self, name: bytes, mode: int, mtime_ns: int) -> None:
        self.tree.make_folder(name)
        self.folders[name] = (self._plain_mode(name, mode), mtime_ns)

    def _hard_link(self, name: bytes, member: TarMember) -> None:
        target = _normal(member.link_target)
        if target == name:
            return
        if target in self.links:
            self._give_way(name)
            self.links[name] = self.links[target]
        elif target in self.files:
            self._give_way(name)
            self.tree.hard_link(name, target)
            self.files[name] = member.name
        else:
            reason = f"it is a hard link to “{escape(member.link_target)}”, which is no file of this folder"
            self.remark(member.name, "left out", reason)

    def _plain_mode(self, name: bytes, mode: int) -> int:
        if mode & _SPECIAL_BITS:
            self.remark(name, "bits dropped", f"permissions {mode & 0o7777:04o} became {mode & 0o777:04o}")
        return mode & 0o777

    def _write(
        self, name: bytes, pieces: Iterable[tuple[int, bytes]], size_bytes: int | None, mode: int, mtime_ns: int
    ) -> None:
        """Write a new file. `pieces` are (offset, bytes), with holes between; the size, if given, may end in a hole."""
        file = self.tree.create(name)
        try:
            for at, data in pieces:
                _write_all(file, data, at)
                self.bytes_written += len(data)
                self.watch.progress(self.bytes_written)
                if self.watch.stop():
                    raise Stopped
            if size_bytes is not None:
                os.ftruncate(file, size_bytes)
            os.fchmod(file, self._plain_mode(name, mode))
            os.utime(file, ns=(mtime_ns, mtime_ns))
        finally:
            os.close(file)
        self.files[_normal(name)] = name


class _Named:
    """Turns what one member's name cannot do into a remark; the rest of the pack goes on."""

    def __init__(self, filling: Filling, name: bytes) -> None:
        self._filling, self._name = filling, name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> bool:
        if isinstance(error, UnsafeName):
            self._filling.remark(self._name, "left out", str(error))
            return True
        if isinstance(error, OSError) and error.errno in _OF_THE_NAME:
            self._filling.remark(self._name, "left out", _OF_THE_NAME[error.errno])
            return True
        return False


def leads_outside(name: bytes, target: bytes) -> bool:
    """True when a link's text, taken from its place in the folder, leads out of it (other links not followed)."""
    if target.startswith(b"/"):
        return True
    depth = len(safe_parts(name)) - 1
    for part in target.split(b"/"):
        if part == b"..":
            depth -= 1
            if depth < 0:
                return True
        elif part not in (b"", b"."):
            depth += 1
    return False


def _normal(name: bytes) -> bytes:
    return b"/".join(safe_parts(name))


def _write_all(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _pieces_of(file: int) -> Iterator[tuple[int, bytes]]:
    at = 0
    while data := os.pread(file, READ_BYTES, at):
        yield at, data
        at += len(data)


def _pieces_of_stream(stream: ExactStream) -> Iterator[tuple[int, bytes]]:
    start = stream.offset
    while data := stream.read(READ_BYTES):
        yield stream.offset - start - len(data), data
