"""Giving an unpacked tree the files whose content other packs carry (see `transfers.engine.satisfied`).

Content is found by its digest: whatever name it has in the build that lends it. Each file is read back and compared
with its digest afterwards, as every unpacked file is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transfers.engine.opens.base import WINDOW_CAP_BYTES
from transfers.engine.opens.opening import content_of
from transfers.engine.opens.tar import TarReader
from transfers.engine.satisfied import SAME_FILE, carrier_of
from transfers.engine.tree import Tree
from transfers.engine.types import Member
from transfers.engine.unpack_members import Filling


@dataclass(frozen=True, slots=True)
class Lender:
    """A landed build that holds content for others. `kind`: "archive", "files", or "whole" (the file itself).

    `names` gives the digest of each of its files, by the name that it has there; of "whole" there is one, whatever
    name it has.
    """

    source: Path
    kind: str
    names: Mapping[bytes, bytes]


@dataclass(frozen=True)
class Satisfied:
    """What a tree gets from elsewhere: its satisfied entries, the pack's own name, and who lends, in order."""

    members: Sequence[Member] = ()
    own_pack: str = ""
    lenders: Sequence[Lender] = ()


def fill_satisfied(filling: Filling, satisfied: Satisfied) -> None:
    """Make the satisfied files in a tree that holds the pack's own members already.

    What nobody lends is left for the check that follows to name. Raises ContentError, Stopped, OSError.
    """
    wanted: dict[bytes, list[Member]] = {}
    same: list[tuple[Member, bytes]] = []
    for member in satisfied.members:
        carrier = carrier_of(member)
        if carrier.pack == SAME_FILE:
            same.append((member, carrier.name))
        elif carrier.pack == satisfied.own_pack:
            filling.copy(member, carrier.name)
        elif member.sha256 is not None:
            wanted.setdefault(member.sha256, []).append(member)
    for lender in satisfied.lenders:
        names = {name: digest for name, digest in lender.names.items() if digest in wanted}
        if names:
            _READERS[lender.kind](filling, lender.source, names, wanted)
    for member, first in same:
        filling.link_hard(member, first)


def _from_archive(
    filling: Filling, source: Path, names: Mapping[bytes, bytes], wanted: dict[bytes, list[Member]]
) -> None:
    with content_of(source, window_limit_bytes=WINDOW_CAP_BYTES) as (_compression, stream):
        reader = TarReader(stream)
        for one in reader:
            filling.pause()
            if not wanted:
                return
            members = wanted.pop(names[one.name], None) if one.kind == "file" and one.name in names else None
            if members:
                filling.place(members, reader.pieces(), one.size_bytes)


def _from_files(
    filling: Filling, source: Path, names: Mapping[bytes, bytes], wanted: dict[bytes, list[Member]]
) -> None:
    with Tree(source) as landed:
        for name, digest in names.items():
            if members := wanted.pop(digest, None):
                with landed.reading(name) as file:
                    filling.place(members, filling.pieces_of(file), os.fstat(file).st_size)


def _from_whole(
    filling: Filling, source: Path, names: Mapping[bytes, bytes], wanted: dict[bytes, list[Member]]
) -> None:
    for digest in names.values():
        if members := wanted.pop(digest, None):
            file = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                filling.place(members, filling.pieces_of(file), os.fstat(file).st_size)
            finally:
                os.close(file)


_READERS = {"archive": _from_archive, "files": _from_files, "whole": _from_whole}


def expected_of(members: Iterable[Member]) -> dict[bytes, bytes]:
    """The digests of files by name, for the check of what was written."""
    return {one.name: one.sha256 for one in members if one.kind == "file" and one.sha256 is not None}
