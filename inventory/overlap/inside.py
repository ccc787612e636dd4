"""Look inside tar archives, compressed ones, container images and OCI layouts, reading once and writing nothing.

This module is also sent as text to hosts (see `inside_host`), so it needs nothing but the standard library of Python
3.6 and imports nothing of ours. What it finds is a stream of records (see `encode`): each member with its digest, parts
(the layers of an image) with their members, small descriptions that are JSON, and an end that says if all was read.

Nothing that a member's name says is ever opened: archives are read as streams. Limits bound what a hostile one can
cost: content bytes, members, the length of its headers, the window of its compression, one level of parts.
"""

import gzip
import hashlib
import os
import re
import stat
import sys
import tarfile
import zlib

if sys.version_info >= (3, 8):  # names for readers of types; a host's Python may be older
    from collections.abc import Callable, Iterator
    from typing import NamedTuple, Protocol
else:
    from typing import Callable, Iterator, NamedTuple

    Protocol = object

MEMBERS_AT_MOST = 1_000_000  # of one archive
BYTES_AT_MOST = 2**40  # of content, of one archive
FINDINGS_BYTES_AT_MOST = 2**29  # of what is written about one archive
BYTES_WITHOUT_RATIO = 2**30
RATIO_AT_MOST = 200  # content to file, beyond the first GiB
JSON_BYTES_AT_MOST = 4 * 2**20
HEADER_BYTES_AT_MOST = 8 * 2**20  # everything that describes one member
WINDOW_BYTES_AT_MOST = 2**27
PIECE_BYTES = 2**18
LAYOUT = b"oci-layout"

_PART = re.compile(rb"(.*/)?layer\.tar|blobs/sha256/[0-9a-f]{64}|[0-9a-f]{64}\.tar(\.gz|\.zst)?|[0-9a-f]{64}")
_JSON = re.compile(rb"manifest\.json|index\.json|oci-layout")
_KINDS = ((tarfile.TarInfo.isdir, "d"), (tarfile.TarInfo.issym, "l"), (tarfile.TarInfo.islnk, "h"))


class Record(NamedTuple):
    """One finding.

    f file, d folder, l link, h hard link, o other member
    p what follows is in this part (no name: in the archive itself)
    j a description; its content is the target
    x the part is not whole; name says why
    e the end; name says why not all was read (empty when all was), size and sha256 are those of the archive file,
      target is its identity
    """

    kind: str
    name: bytes
    size_bytes: int = 0
    sha256: str = ""
    target: bytes = b""


class Stop(Exception):
    """Why a look ends early, in one word."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, count: int) -> bytes:
        """Some bytes, at most so many; none at the end."""


def encode(record: Record) -> bytes:
    """A record as bytes: a line of figures with the lengths of what follows it, so that names may hold anything."""
    words = (record.kind, record.size_bytes, record.sha256 or "-", len(record.name), len(record.target))
    return "{} {} {} {} {}\n".format(*words).encode() + record.name + record.target


class _Budget:
    """What may still be read of one archive."""

    def __init__(self, file_bytes: int) -> None:
        self.left = self.expanded = min(BYTES_AT_MOST, BYTES_WITHOUT_RATIO + RATIO_AT_MOST * file_bytes)
        self.members = MEMBERS_AT_MOST
        self.findings = FINDINGS_BYTES_AT_MOST

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Stop("too-large")

    def expand(self, count: int) -> None:
        """Count content, with the holes of sparse members, which cost nothing to write."""
        self.expanded -= count
        if self.expanded < 0:
            raise Stop("too-large")

    def member(self, *texts: bytes) -> None:
        self.members -= 1
        self.findings -= 256 + sum(len(text) for text in texts)
        if self.members < 0 or self.findings < 0:
            raise Stop("too-many")


class _Hashed:
    """Counts and hashes what is read; the beginning can be looked at before."""

    def __init__(self, stream: Readable, budget: "_Budget | None" = None) -> None:
        self._stream, self._ahead, self._budget = stream, b"", budget
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def _more(self, count: int) -> bytes:
        data = self._stream.read(count)
        if self._budget is not None:
            self._budget.expand(len(data))
        self._hash.update(data)
        self.size_bytes += len(data)
        return data

    def peek(self, count: int) -> bytes:
        """The next bytes, which `read` will give again."""
        while len(self._ahead) < count:
            data = self._more(count - len(self._ahead))
            if not data:
                break
            self._ahead += data
        return self._ahead[:count]

    def read(self, count: int = PIECE_BYTES) -> bytes:
        if self._ahead:
            count = len(self._ahead) if count < 0 else count
            data, self._ahead = self._ahead[:count], self._ahead[count:]
            return data
        return self._more(PIECE_BYTES if count < 0 else count)

    def digest(self) -> str:
        """SHA-256 of the whole, after reading what is left."""
        self._ahead = b""
        while self._more(PIECE_BYTES):
            pass
        return self._hash.hexdigest()


class _Forward:
    """What tarfile reads from: forward only, never less than was asked for, and headers of a bounded length."""

    def __init__(self, stream: Readable, budget: _Budget) -> None:
        self._stream, self._budget = stream, budget
        self._at = 0
        self._header_left = None  # type: int | None
        self.last_block = b""
        self.has_ended = False

    def in_header(self) -> None:
        """From here on a member's description is read."""
        self._header_left = HEADER_BYTES_AT_MOST

    def in_content(self) -> None:
        """From here on a member's content is read."""
        self._header_left = None

    def tell(self) -> int:
        return self._at

    def seek(self, to: int, _whence: int = 0) -> int:
        if to < self._at:
            raise Stop("damaged")
        while self._at < to:
            if not self._take(min(PIECE_BYTES, to - self._at)):
                raise Stop("cut-off")
        return self._at

    def read(self, count: int = -1) -> bytes:
        if count < 0 or count > HEADER_BYTES_AT_MOST:
            raise Stop("damaged")
        if self._header_left is not None:
            self._header_left -= count
            if self._header_left < 0:
                raise Stop("damaged")
        pieces = []
        left = count
        while left:
            data = self._take(left)
            if not data:
                break
            pieces.append(data)
            left -= len(data)
        if 0 < left < count:
            raise Stop("cut-off")
        found = b"".join(pieces)
        if count == tarfile.BLOCKSIZE:
            self.last_block = found
        return found

    def _take(self, count: int) -> bytes:
        data = self._stream.read(count)
        self.has_ended = not data
        self._at += len(data)
        self._budget.take(len(data))
        return data


def look(stream: Readable, unpack_zstd: "Callable[[Readable], Readable]", budget: _Budget) -> "Iterator[Record]":
    """The members of one archive, its parts' members before the part itself. Raises Stop."""
    hashed = stream if isinstance(stream, _Hashed) else _Hashed(stream)
    stream = _expanded(hashed, unpack_zstd)
    try:
        for member, content in _members(stream, budget):
            yield from _found(member, content, unpack_zstd, budget)
    finally:
        _end(stream)


def _end(stream: Readable) -> None:
    """Close what has to be closed; what was read of it is counted by then."""
    close = getattr(stream, "close", None)
    if close is not None:
        close()


def _expanded(hashed: _Hashed, unpack_zstd: "Callable[[Readable], Readable]") -> Readable:
    """The tar stream in it. Raises Stop when it is none."""
    head = hashed.peek(512)
    if head[:2] == b"\x1f\x8b":
        return _Unzipped(hashed)
    if head[:4] == b"\x28\xb5\x2f\xfd" or (head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50):
        return unpack_zstd(hashed)
    if head[257:262] == b"ustar" or (len(head) == 512 and not any(head)):
        return hashed
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")  # a tar of before 1988 has no mark but its checksum
    except tarfile.TarError:
        raise Stop("no-archive") from None
    return hashed


class _Unzipped:
    """Every member of a gzip file, one after another."""

    def __init__(self, stream: Readable) -> None:
        self._file = gzip.GzipFile(mode="rb", fileobj=stream)  # type: ignore[call-overload]

    def read(self, count: int) -> bytes:
        try:
            return bytes(self._file.read(count))
        except EOFError:
            raise Stop("cut-off") from None
        except (OSError, zlib.error):
            raise Stop("damaged") from None


class _Member(NamedTuple):
    kind: str
    name: bytes
    target: bytes = b""


def _members(stream: Readable, budget: _Budget) -> "Iterator[tuple[_Member, Readable | None]]":
    """Members of a tar stream in order, files with their content; it must have been read before the next is asked."""
    forward = _Forward(stream, budget)
    forward.in_header()
    try:
        # Names are bytes: what is no UTF-8 comes back as it was.
        archive = tarfile.open(  # type: ignore[call-overload]  # noqa: SIM115 -- it owns nothing to close
            fileobj=forward,
            mode="r:",
            encoding="utf-8",
            errors="surrogateescape",
        )
        while True:
            info = archive.next()
            if info is None:
                break
            del archive.members[:]  # it keeps every one otherwise
            kind = next((word for test, word in _KINDS if test(info)), "f" if info.isreg() else "o")
            member = _Member(kind, _raw(info.name), _raw(info.linkname) if kind in "lh" else b"")
            budget.member(member.name, member.target)
            forward.in_content()
            content = archive.extractfile(info) if kind == "f" else None
            yield member, content
            forward.in_header()
    except (tarfile.TarError, ValueError, OverflowError, IndexError, KeyError):
        raise Stop("cut-off" if forward.has_ended else "damaged") from None
    if any(forward.last_block) or len(forward.last_block) < tarfile.BLOCKSIZE:
        # It ends without its end mark, or with something that is no header.
        raise Stop("cut-off" if forward.has_ended else "damaged")


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _found(
    member: _Member, content: "Readable | None", unpack_zstd: "Callable[[Readable], Readable]", budget: _Budget
) -> "Iterator[Record]":
    """A member's record; for one that is a layer, those of its members before."""
    if content is None:
        yield Record(member.kind, member.name, 0, "", member.target)
        return
    hashed = _Hashed(content, budget)
    name = member.name[2:] if member.name.startswith(b"./") else member.name
    if _JSON.fullmatch(name) or (_PART.fullmatch(name) and hashed.peek(1) == b"{"):
        text = hashed.peek(JSON_BYTES_AT_MOST + 1)
        if len(text) <= JSON_BYTES_AT_MOST:
            budget.member(text)
            yield Record("j", name, len(text), "", text)
    elif _PART.fullmatch(name):
        yield from _part(name, hashed, unpack_zstd, budget)
    digest = hashed.digest()
    yield Record("f", member.name, hashed.size_bytes, digest)


def _part(
    name: bytes, hashed: _Hashed, unpack_zstd: "Callable[[Readable], Readable]", budget: _Budget
) -> "Iterator[Record]":
    """What is in a layer; one that is damaged is told, and the archive goes on."""
    yield Record("p", name)
    stream = hashed  # type: Readable
    try:
        stream = _expanded(hashed, unpack_zstd)
        for member, content in _members(stream, budget):
            if content is None:
                yield Record(member.kind, member.name, 0, "", member.target)
            else:
                inner = _Hashed(content, budget)
                digest = inner.digest()
                yield Record("f", member.name, inner.size_bytes, digest)
    except Stop as stop:
        if stop.word in ("too-large", "too-many"):
            raise
        yield Record("x", stop.word.encode())
    finally:
        _end(stream)
    yield Record("p", b"")


def look_file(path: bytes, unpack_zstd: "Callable[[Readable], Readable]") -> "Iterator[Record]":
    """Look inside a file, or a folder that is an OCI layout; the last record is the end, whatever happened."""
    try:
        folder = stat.S_ISDIR(os.lstat(path).st_mode)
        if folder:
            yield from _look_layout(path, unpack_zstd)
            return
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield Record("e", b"unreadable")
        return
    with os.fdopen(handle, "rb", buffering=0) as file:
        before = os.fstat(handle)
        word, size, digest = "", 0, ""
        if not stat.S_ISREG(before.st_mode):
            yield Record("e", b"unreadable")
            return
        hashed = _Hashed(file)
        try:
            yield from look(hashed, unpack_zstd, _Budget(before.st_size))
        except Stop as stop:
            word = stop.word
        except OSError:
            word = "unreadable"
        if word != "unreadable":
            digest, size = hashed.digest(), hashed.size_bytes
        identity = _identity(before)
        if identity != _identity(os.fstat(handle)):
            word = "changed"
        yield Record("e", word.encode(), size, digest, identity)


def _look_layout(path: bytes, unpack_zstd: "Callable[[Readable], Readable]") -> "Iterator[Record]":
    """A folder that is an OCI layout, as if it were an archive; its identity is that of its index."""
    word, identity = "", b""
    try:
        identity = _identity(os.stat(os.path.join(path, b"index.json")))
        blobs = os.path.join(b"blobs", b"sha256")
        names = [LAYOUT, b"index.json"]
        names += [os.path.join(blobs, one) for one in sorted(os.listdir(os.path.join(path, blobs)))]
        whole = sum(os.lstat(os.path.join(path, one)).st_size for one in names)
        budget = _Budget(whole)
        for name in names:
            handle = os.open(os.path.join(path, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb", buffering=0) as file:
                if stat.S_ISREG(os.fstat(handle).st_mode):
                    budget.member()
                    yield from _found(_Member("f", name), file, unpack_zstd, budget)
    except Stop as stop:
        word = stop.word
    except OSError:
        word = "unreadable"
    yield Record("e", word.encode(), 0, "", identity)


def _identity(found: os.stat_result) -> bytes:
    numbers = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return b" ".join(b"%d" % number for number in numbers)
