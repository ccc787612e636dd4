"""Opening a build: reading it to the end, and accounting for every member.

One archive or image: `open_file`; a set of files as they are: `open_files`. Nothing is extracted here.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from transfers.engine.opens.base import (
    READ_BYTES,
    WINDOW_CAP_BYTES,
    WINDOW_LIMIT_BYTES,
    ByteStream,
    FoundMember,
    Opened,
    Watch,
)
from transfers.engine.opens.compare import compare_members
from transfers.engine.opens.compressed import CompressedStream, compression_of
from transfers.engine.opens.plain import ExactStream, PlainStream
from transfers.engine.opens.tar import TarMember, TarReader
from transfers.engine.opens.tar_headers import LOOK_BYTES, looks_like_tar
from transfers.engine.opens.zstd import ZstdStream, is_zstd
from transfers.engine.tree import Tree
from transfers.engine.types import CheckLevel, Finding, Member, Outcome
from transfers.engine.verify import Stopped

_ZEROS = bytes(READ_BYTES)


@contextmanager
def content_of(path: Path, *, window_limit_bytes: int = WINDOW_LIMIT_BYTES) -> Iterator[tuple[str, ExactStream]]:
    """The compression of a file ("zstd", "gzip", … or empty) and its content, uncompressed."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        beginning = os.pread(file, 16, 0)
        stream: ByteStream
        if is_zstd(beginning):
            compression, stream = "zstd", ZstdStream(file, window_limit_bytes=min(window_limit_bytes, WINDOW_CAP_BYTES))
        elif (name := compression_of(beginning)) is not None:
            compression, stream = name, CompressedStream(file, name)
        else:
            compression, stream = "", PlainStream(file)
        yield compression, ExactStream(stream)
    finally:
        os.close(file)


def holds_tar(stream: ExactStream) -> bool:
    """True when the content begins like a tar."""
    return looks_like_tar(stream.peek(LOOK_BYTES))


def open_file(
    path: Path,
    expected: Sequence[Member] | None,
    *,
    accepted: Collection[bytes] = frozenset(),
    window_limit_bytes: int = WINDOW_LIMIT_BYTES,
    watch: Watch | None = None,
) -> Opened:
    """Read one landed file to its proper end.

    `expected`: the members with their digests at the source; None where there are none (*existing*, *parts*), and then
    the members' digests are taken here. Raises ContentError, Stopped, OSError.
    """
    watch = watch or Watch()
    with content_of(path, window_limit_bytes=window_limit_bytes) as (compression, stream):
        if expected is None and not holds_tar(stream):
            return _other_content(path, compression, stream, watch)
        reader = TarReader(stream)
        members = tuple(_read_members(reader, watch))
        content = f"{compression} tar".strip()
        notes = tuple(reader.notes)
        read_bytes = reader.offset
    if expected is None:
        return Opened(content, members, 0, (_recorded(members, read_bytes),), read_bytes, notes)
    matched, findings = compare_members(expected, members, accepted=accepted)
    return Opened(content, members, matched, tuple(findings), read_bytes, notes)


def _recorded(members: Sequence[FoundMember], read_bytes: int) -> Finding:
    files = sum(1 for member in members if member.sha256 is not None)
    message = (
        f"The archive was read to its proper end: {len(members):,} members. The source gave no digests of members; "
        f"those of {files:,} files were taken here."
    )
    return Finding(CheckLevel.MEMBER, b"", 0, read_bytes, None, None, Outcome.RECORDED, 0.0, message)


def _read_members(reader: TarReader, watch: Watch) -> Iterator[FoundMember]:
    """Every member with its digest; a hard link carries the digest of what it shares."""
    files: dict[bytes, FoundMember] = {}
    for member in reader:
        if watch.stop():
            raise Stopped
        watch.progress(reader.offset)
        found = _found(member, _digest(reader, member, watch) if member.kind == "file" else None)
        if member.kind == "hard link":
            found = _hard_link(member, files.get(member.link_target))
        if found.sha256 is not None:
            files[found.name] = found
        yield found


def _found(member: TarMember, sha256: bytes | None) -> FoundMember:
    return FoundMember(
        name=member.name,
        kind=member.kind,
        size_bytes=member.size_bytes,
        stored_bytes=member.stored_bytes,
        mtime_ns=member.mtime_ns,
        mode=member.mode,
        offset=member.offset,
        link_target=member.link_target if member.kind == "link" else b"",
        sha256=sha256,
    )


def _hard_link(member: TarMember, target: FoundMember | None) -> FoundMember:
    """A hard link is a file that shares its content with an earlier one; without that one it is only a name."""
    return FoundMember(
        name=member.name,
        kind="file" if target is not None else "hard link to nothing that came before",
        size_bytes=target.size_bytes if target is not None else 0,
        stored_bytes=0,
        mtime_ns=member.mtime_ns,
        mode=member.mode,
        offset=member.offset,
        hard_link_to=member.link_target,
        sha256=target.sha256 if target is not None else None,
    )


def _digest(reader: TarReader, member: TarMember, watch: Watch) -> bytes:
    """SHA-256 of the expanded content: the holes of a sparse member count as zeros."""
    digest = hashlib.sha256()
    at = 0
    for start, data in reader.pieces():
        _zeros(digest.update, start - at, watch)
        digest.update(data)
        at = start + len(data)
        watch.progress(reader.offset)
        if watch.stop():
            raise Stopped
    _zeros(digest.update, member.size_bytes - at, watch)
    return digest.digest()


def _zeros(update: Callable[[bytes], None], count: int, watch: Watch) -> None:
    while count > 0:
        if watch.stop():
            raise Stopped
        step = min(count, READ_BYTES)
        update(_ZEROS[:step] if step < READ_BYTES else _ZEROS)
        count -= step


def _other_content(path: Path, compression: str, stream: ExactStream, watch: Watch) -> Opened:
    """A compressed stream that holds no tar, or bytes of an unknown kind: read to the end, recorded as one member."""
    digest = hashlib.sha256()
    while data := stream.read(READ_BYTES):
        digest.update(data)
        watch.progress(stream.offset)
        if watch.stop():
            raise Stopped
    name = single_name(path, compression)
    about = path.stat()
    member = FoundMember(
        name=name,
        kind="file",
        size_bytes=stream.offset,
        stored_bytes=about.st_size,
        mtime_ns=about.st_mtime_ns,
        mode=about.st_mode & 0o7777,
        offset=0,
        sha256=digest.digest(),
    )
    if compression:
        content, how = f"{compression} stream", f"The {compression} data were read to their end"
    else:
        content, how = "unknown content", "The content is of no kind that can be looked into; it was read to its end"
    message = f"{how}: {stream.offset:,} bytes, taken as one file."
    finding = Finding(CheckLevel.CONTENT, name, 0, stream.offset, None, member.sha256, Outcome.RECORDED, 0.0, message)
    return Opened(content, (member,), 0, (finding,), stream.offset, stream.notes())


def single_name(path: Path, compression: str) -> bytes:
    """The name of content that holds no tar: the landed file's, without the suffix that its compression gave it."""
    return os.fsencode(path.stem if compression and path.suffix else path.name)


def open_files(
    folder: Path, expected: Iterable[Member], *, accepted: Collection[bytes] = frozenset(), watch: Watch | None = None
) -> Opened:
    """Read every landed file of a *files* build and compare it with the list.

    Folders and links of the list are not fetched in this mode: the unpack act makes them. Raises Stopped, OSError.
    """
    watch = watch or Watch()
    found: list[FoundMember] = []
    read_bytes = 0
    listed = [member for member in expected if member.kind == "file"]
    modes = {member.name: member.mode for member in listed}
    with Tree(folder) as tree:
        for name in tree.walk_files():
            digest = hashlib.sha256()
            with tree.reading(name) as file:
                about = os.fstat(file)
                while stat.S_ISREG(about.st_mode) and (data := os.read(file, READ_BYTES)):
                    digest.update(data)
                    read_bytes += len(data)
                    watch.progress(read_bytes)
                    if watch.stop():
                        raise Stopped
            size = about.st_size
            mode = modes.get(name, 0)  # the landing keeps content only; permissions come from the list
            found.append(FoundMember(name, "file", size, size, about.st_mtime_ns, mode, 0, sha256=digest.digest()))
    matched, findings = compare_members(listed, found, accepted=accepted)
    return Opened("files", tuple(found), matched, tuple(findings), read_bytes)
