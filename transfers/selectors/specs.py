"""A build's row and its chunks in the engine's words: one place, so that link, verification and opening agree.

The key is part of a ledger file's identity: another key would make the engine refuse the ledger that lies there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import zstandard

from inventory.remote.names import RemoteName
from transfers.engine.geometry import build_of_files, build_of_one_file, build_of_parts
from transfers.engine.members import decode_members
from transfers.engine.types import BuildSpec, ChunkSpec, Member
from transfers.models import Build, EntryList, Mode

FILES_FOLDER = "files"


def build_folder(build: Build) -> Path:
    """The build's landing folder: LANDING/<host>/<pack>/<number>/."""
    below = build.folder or f"{build.pack.plan.host.name}/{build.pack.name}/{build.number}"
    return Path(build.landing.path) / below


def landed_path(build: Build) -> Path:
    """Where the build's content lies once it is verified: the archive, or the folder `files`."""
    return build_folder(build) / (build.archive_name if build.mode != Mode.FILES else FILES_FOLDER)


def build_key(build: Build) -> str:
    """The stable name of a build for ledger files and logs."""
    return f"build-{build.pk}"


def list_members(entry_list: EntryList) -> Iterator[Member]:
    """The members of a stored list. Raises ValueError when it is damaged."""
    return decode_members(zstandard.ZstdDecompressor().decompressobj().decompress(bytes(entry_list.content)))


def build_spec(build: Build, *, from_rows: bool = True) -> BuildSpec:
    """Everything the engine must know to fetch or read back a build.

    Chunks and digests come from the rows; while it is being packed there are none, and the cut is made afresh.
    """
    folder, key = build_folder(build), build_key(build)
    name = build.archive_name.encode("utf-8", "surrogateescape")
    if build.mode == Mode.FILES:
        files = (
            (RemoteName(b"/" + member.name), member.name, member.size_bytes)
            for member in list_members(build.member_list or build.entry_list)
            if member.kind == "file"
        )
        spec = build_of_files(key=key, files=files, folder=folder, chunk_bytes=build.chunk_bytes)
    elif build.mode == Mode.PARTS:
        parts = (
            (RemoteName(b"/" + member.name), member.size_bytes)
            for member in list_members(build.entry_list)
            if member.kind == "file"
        )
        spec = build_of_parts(key=key, parts=parts, folder=folder, name=name, chunk_bytes=build.chunk_bytes)
    else:
        spec = build_of_one_file(
            key=key,
            source=build.source_path,
            size_bytes=build.size_bytes or 0,
            folder=folder,
            name=name,
            chunk_bytes=build.chunk_bytes,
        )
    return replace(spec, chunks=_chunks(build)) if from_rows else spec


def _chunks(build: Build) -> tuple[ChunkSpec, ...]:
    rows = build.chunks.order_by("index").values_list("index", "offset", "length", "sha256")
    return tuple(
        ChunkSpec(index, offset, length, bytes(sha256) if sha256 else None) for index, offset, length, sha256 in rows
    )
