"""How much of one set of files lies in another: by digest (sure); by name and size where a digest is missing (maybe).

All files of all sets pass by once, in any order; a private temporary database on disk brings equal ones together, so
that memory stays flat and time grows with the number of files, not with the number of pairs. Empty files count nowhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby

_PIECE_FILES = 5000
_CACHE_KIB = 32 * 1024


@dataclass(frozen=True, slots=True)
class OneFile:
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
    database = sqlite3.connect("", isolation_level=None)
    try:
        for pragma in (f"cache_size=-{_CACHE_KIB}", "temp_store=FILE", "journal_mode=OFF", "synchronous=OFF"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("CREATE TABLE sure (key BLOB, part INTEGER, size INTEGER, inode TEXT)")
        database.execute("CREATE TABLE maybe (key BLOB, part INTEGER, size INTEGER, has_digest INTEGER)")
        for part, files in sets:
            _collect(database, found, part, files, keep_alive)
        _sure(database, found, keep_alive)
        if any(sums.digested_files < sums.files for sums in found.sums.values()):
            _maybe(database, found, keep_alive)  # where every file has a digest, nothing is doubtful
    finally:
        database.close()
    return found


def _collect(
    database: sqlite3.Connection,
    found: Overlaps,
    part: int,
    files: Iterable[OneFile],
    keep_alive: Callable[[], object],
) -> None:
    sums = found.sums.setdefault(part, SetSums())
    sure: list[tuple[object, ...]] = []
    maybe: list[tuple[object, ...]] = []

    def flush() -> None:
        keep_alive()
        database.execute("BEGIN")
        database.executemany("INSERT INTO sure VALUES (?,?,?,?)", sure)
        database.executemany("INSERT INTO maybe VALUES (?,?,?,?)", maybe)
        database.execute("COMMIT")
        sure.clear()
        maybe.clear()

    for one in files:
        if not one.size_bytes:
            continue
        sums.files += 1
        sums.size_bytes += one.size_bytes
        if one.sha256 is not None:
            sums.digested_files += 1
            sums.digested_bytes += one.size_bytes
            inode = None if one.inode is None else f"{one.inode[0]}:{one.inode[1]}"
            sure.append((one.sha256, part, one.size_bytes, inode))
        key = blake2b(b"%d/%b" % (one.size_bytes, one.base), digest_size=12).digest()
        maybe.append((key, part, one.size_bytes, one.sha256 is not None))
        if len(maybe) >= _PIECE_FILES:
            flush()
    flush()


def _sure(database: sqlite3.Connection, found: Overlaps, keep_alive: Callable[[], object]) -> None:
    """Files with one digest: shared by every two sets that have it; within a set, all but one inode could go."""
    rows = database.execute(
        "SELECT key, part, count(*), max(size), count(DISTINCT coalesce(inode, rowid)) FROM sure "
        "GROUP BY key, part ORDER BY key"
    )
    for group in _groups(rows, keep_alive):
        for part, count, size, copies in group:
            if copies > 1:
                within = found.pair(part, part)
                within.files += copies - 1
                within.size_bytes += (copies - 1) * size
            for other, *_rest in group:
                if other != part:
                    shared = found.pair(part, other)
                    shared.files += count
                    shared.size_bytes += count * size


def _maybe(database: sqlite3.Connection, found: Overlaps, keep_alive: Callable[[], object]) -> None:
    """Files of one name and size, as far as one side has no digest that could tell."""
    rows = database.execute(
        "SELECT key, part, count(*), max(size), sum(has_digest) FROM maybe GROUP BY key, part ORDER BY key"
    )
    for group in _groups(rows, keep_alive):
        for part, count, size, digested in group:
            for other, _count, _size, others_digested in group:
                if other == part:
                    continue
                doubtful = count if others_digested < _count else count - digested
                if doubtful:
                    shared = found.pair(part, other)
                    shared.maybe_files += doubtful
                    shared.maybe_bytes += doubtful * size


def _groups(
    rows: Iterable[tuple[bytes, int, int, int, int]], keep_alive: Callable[[], object]
) -> Iterator[list[tuple[int, int, int, int]]]:
    """What several sets, or one several times, have of a key."""
    for number, (_key, members) in enumerate(groupby(rows, key=lambda row: row[0])):
        if number % _PIECE_FILES == 0:
            keep_alive()
        yield [(part, count, size, more) for _k, part, count, size, more in members]
