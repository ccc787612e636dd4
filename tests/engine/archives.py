"""Archives for tests of opening and unpacking: made by tar itself, and made by hand where tar would refuse."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

import zstandard

from tests.parts import need
from transfers.engine.types import Member


def tar_of(*members: tuple[tarfile.TarInfo, bytes], kind: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar of exactly these headers and contents."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind, encoding="utf-8", errors="surrogateescape") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def entry(
    name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644
) -> tuple[tarfile.TarInfo, bytes]:
    """One member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.mtime = kind, link, mode, 1_700_000_000
    return info, content


def gnu_tar(folder: Path, *options: str, names: Iterable[str] = (".",)) -> bytes:
    """What GNU tar makes of a folder."""
    need("tar")
    done = subprocess.run(
        ["tar", "-c", "-f", "-", *options, "-C", str(folder), *names], capture_output=True, check=True
    )
    return done.stdout


def zstd(content: bytes, *, level: int = 3) -> bytes:
    """One zstd frame with a checksum."""
    return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(content)


def gzipped(content: bytes) -> bytes:
    """One gzip member."""
    return gzip.compress(content)


def file_member(name: bytes, content: bytes, mode: int = 0o644) -> Member:
    """A file as the list of a build names it."""
    return Member(name, "file", len(content), 0, mode, sha256=hashlib.sha256(content).digest())
