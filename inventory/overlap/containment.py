"""How much of one set of files lies in another: by digest (sure); by name and size where a digest is missing (maybe).

All files of all sets pass by once, in any order; buckets on disk bring equal ones together, so that memory stays flat
and time grows with the number of files, not with the number of pairs. Empty files count nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from inventory.overlap.buckets import Buckets

_PIECE_FILES = 5000
_SURE = Struct("<32siQqq")  # digest, set, size, device, inode (-1 and a number of its own: not known)
_MAYBE = Struct("<qQi?")  # hash of the base name, size, set, has a digest


class OneFile(NamedTuple):
    """A file of a set. `base` is the last part of its name; `inode` tells names of one file apart from copies."""

    base: bytes
    size_bytes: int
    sha256: bytes | None
    inode: tuple[int, int] | None = None


@dataclass(slots=True)
class Shared:
    """What of a set lies in another as well: files and bytes. Within one set: what could go, one copy kept of each."""

    files: int = 0
    size_bytes: int = 0
    maybe_files: int = 0
    maybe_bytes: int = 0


@dataclass(slots=True)
class SetSums:
    """A set as a whole."""

    files: int = 0
    size_bytes: int = 0
    digested_files: int = 0
    digested_bytes: int = 0


@dataclass(slots=True)
class Overlaps:
    """Sums of each set, and for each ordered pair (set, other set) what the first shares with the second."""

    sums: dict[int, SetSums] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Shared] = field(default_factory=dict)

    def pair(self, one: int, other: int) -> Shared:
        """What `one` shares with `other`."""
        return self.pairs.setdefault((one, other), Shared())


def measure(sets: Iterable[tuple[int, Iterable[OneFile]]], *, keep_alive: Callable[[], object] = bool) -> Overlaps:
    """Compare every set with every other and with itself. `keep_alive` is called every so many files; what it raises
    ends the work."""
    found = Overlaps()
    with Buckets() as sure, Buckets() as maybe:
        for part, files in sets:
            _collect(found, part, files, sure, maybe, keep_alive)
        for content in sure.each():
            keep_alive()
            _sure(content, found)
        if any(sums.digested_files < sums.files for sums in found.sums.values()):
            for content in maybe.each():  # where every file has a digest, nothing is doubtful
                keep_alive()
                _maybe(content, found)
    return found


def _collect(
    found: Overlaps,
    part: int,
    files: Iterable[OneFile],
    sure: Buckets,
    maybe: Buckets,
    keep_alive: Callable[[], object],
) -> None:
    sums = found.sums.setdefault(part, SetSums())
    number = sums.files
    for base, size, sha256, inode in files:
        if not size:
            continue
        number += 1
        if number % _PIECE_FILES == 0:
            keep_alive()
        sums.size_bytes += size
        if sha256 is not None:
            sums.digested_files += 1
            sums.digested_bytes += size
            device, node = (-1, number) if inode is None else inode
            sure.add(sha256[0], _SURE.pack(sha256, part, size, device, node))
        named = hash(base)  # keyed by a secret of this process, so names cannot be made to meet
        maybe.add((named ^ size) & 255, _MAYBE.pack(named, size, part, sha256 is not None))
    sums.files = number


def _sure(content: bytes, found: Overlaps) -> None:
    """Files with one digest: shared by every two sets that have it; within a set, all but one inode could go."""
    first: dict[bytes, tuple[bytes, int, int, int, int]] = {}
    groups: dict[bytes, list[tuple[bytes, int, int, int, int]]] = {}
    for record in _SURE.iter_unpack(content):
        former = first.setdefault(record[0], record)
        if former is not record:
            groups.setdefault(record[0], [former]).append(record)
    for group in groups.values():
        parts: dict[int, list[tuple[int, int]]] = {}
        for _digest, part, _size, device, node in group:
            parts.setdefault(part, []).append((device, node))
        size = group[0][2]
        for part, nodes in parts.items():
            copies = len(nodes) if len(nodes) == 1 else len(set(nodes))
            if copies > 1:
                within = found.pair(part, part)
                within.files += copies - 1
                within.size_bytes += (copies - 1) * size
            for other in parts:
                if other != part:
                    shared = found.pair(part, other)
                    shared.files += len(nodes)
                    shared.size_bytes += len(nodes) * size


def _maybe(content: bytes, found: Overlaps) -> None:
    """Files of one name and size, as far as one side has no digest that could tell."""
    groups: dict[tuple[int, int], dict[int, list[int]]] = {}
    for named, size, part, has_digest in _MAYBE.iter_unpack(content):
        counts = groups.setdefault((named, size), {}).setdefault(part, [0, 0])
        counts[has_digest] += 1
    for (_named, size), parts in groups.items():
        if len(parts) == 1:
            continue
        for part, (bare, digested) in parts.items():
            for other, (others_bare, _others_digested) in parts.items():
                doubtful = bare + digested if others_bare else bare
                if other != part and doubtful:
                    shared = found.pair(part, other)
                    shared.maybe_files += doubtful
                    shared.maybe_bytes += doubtful * size
