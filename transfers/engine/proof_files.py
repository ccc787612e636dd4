"""The checksum files that stand beside a landed build, each written whole or not at all.

    SHA256SUMS       `sha256sum -c SHA256SUMS` passes in the build's folder: the one file, or each file below `files/`
    chunks.sha256    one line a chunk: SHA-256, two spaces, `chunk-000001 OFFSET LENGTH` (bytes within the build)
    members.sha256   one line a file in the pack, names root-relative, with coreutils' escapes
    satisfied.tsv    one line a file of its tree that other builds hold: SHA-256, name, build, name there (escaped)

A chunk's line can be checked by hand for a build of one file, here with chunk 3 of 64 MiB:

    dd if=NAME bs=1M iflag=skip_bytes,count_bytes skip=OFFSET count=LENGTH status=none | sha256sum
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from inventory.remote.names import escape
from transfers.engine.members import checksum_line

SUMS, CHUNKS, MEMBERS, SATISFIED = "SHA256SUMS", "chunks.sha256", "members.sha256", "satisfied.tsv"


def chunk_lines(chunks: Iterable[tuple[int, int, int, bytes]]) -> Iterator[bytes]:
    """Lines of chunks.sha256 for (index from 0, offset, length, digest). Chunk numbers begin with 1, as on pages."""
    for index, offset, length, sha256 in chunks:
        yield checksum_line(sha256, b"chunk-%06d %d %d" % (index + 1, offset, length))


def digest_lines(digests: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Lines of a checksum file for (name, digest)."""
    for name, sha256 in digests:
        yield checksum_line(sha256, name)


def satisfied_lines(entries: Iterable[tuple[bytes, bytes, str, bytes]]) -> Iterator[bytes]:
    """Lines of satisfied.tsv for (digest, name, build, name there)."""
    for sha256, name, build, name_there in entries:
        yield f"{sha256.hex()}\t{escape(name)}\t{build}\t{escape(name_there)}\n".encode()


def write_whole(path: Path, content: Iterable[bytes], *, mode: int = 0o644) -> None:
    """Write a file under a temporary name, sync it, give it its name and sync the folder. Raises OSError."""
    temporary = path.with_name(f".{path.name}.writing")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(file, "wb") as out:
        for piece in content:
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    temporary.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the folder's names durable. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
