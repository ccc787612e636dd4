"""Entries into the order of their names, in flat memory: a private temporary database on disk does the sorting.

SQLite deletes such a database's file as it opens it, so nothing is left behind whatever ends the process.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from inventory.models import Entry
from inventory.remote.names import RemoteName
from inventory.scan import ScanEntry
from inventory.tree import Climb, Folder

_CACHE_KIB = 32 * 1024
_SIGN = 2**63
_BLOCK_BYTES = 4096
_STEPS = 100_000  # of SQLite's machine: some thousandths of a second
_BREATH_SECONDS = 1.0

_TABLE = """CREATE TABLE entry (
    key BLOB, kind TEXT, size INTEGER, stored INTEGER, mtime INTEGER, ctime INTEGER, mode INTEGER,
    device INTEGER, inode INTEGER, links INTEGER, target BLOB)"""
_FOLDERS = "CREATE TABLE folder (position INTEGER PRIMARY KEY, entries INTEGER, bytes INTEGER)"
_KEEP_FOLDERS = 1000
# As `values` gives them: what `_COLUMNS` says follows the first four, in its order.
ENTRY_FIELDS = (
    "position",
    "parent",
    "entries_below",
    "bytes_below",
    "name",
    "kind",
    "size_bytes",
    "stored_bytes",
    "mtime_ns",
    "ctime_ns",
    "mode",
    "device",
    "inode",
    "link_count",
    "link_target",
)
_COLUMNS = "key, kind, size, stored, mtime, ctime, mode, device, inode, links, target"


@dataclass(frozen=True, slots=True)
class Totals:
    """What a listing holds. A file with several names counts its stored bytes once, its own bytes with each name.

    `hard_linked` are names of files that have several (perhaps outside of the listing), `sparse` files for which at
    least a block less is stored than they are long.
    """

    files: int
    folders: int
    links: int
    others: int
    sockets: int
    pipes: int
    devices: int
    unreadable: int
    hard_linked: int
    sparse: int
    apparent_bytes: int
    stored_bytes: int


class EntrySorter:
    """Collects a listing's entries in any order and gives them back sorted. A context; for one thread.

    Sorting a million entries takes a while: `keep_alive` is called about once a second during long statements, and
    what it raises ends them.
    """

    def __init__(self, *, keep_alive: Callable[[], object] = bool) -> None:
        self._keep_alive, self._called = keep_alive, time.monotonic()
        self._failure: BaseException | None = None
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.set_progress_handler(self._breathe, _STEPS)
        for pragma in (f"cache_size=-{_CACHE_KIB}", "temp_store=FILE", "journal_mode=OFF", "synchronous=OFF"):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.execute(_TABLE)
        self._database.execute(_FOLDERS)

    def __enter__(self) -> EntrySorter:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, entries: Iterable[ScanEntry]) -> None:
        """Keep some entries."""
        with self._statement():
            self._database.execute("BEGIN")
            self._database.executemany(
                f"INSERT INTO entry ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608  (constant names)
                map(_row, entries),
            )
            self._database.execute("COMMIT")

    def empty(self) -> None:
        """Forget everything, for a listing that begins again."""
        self._database.execute("DELETE FROM entry")

    def settle(self) -> None:
        """Call after the last entry: where a name came again as unreadable, that one counts."""
        with self._statement():
            self._database.execute(
                "DELETE FROM entry WHERE kind <> 'unreadable' "
                "AND key IN (SELECT key FROM entry WHERE kind = 'unreadable')"
            )

    def totals(self) -> Totals:
        """Count and add up what was kept."""
        with self._statement():
            counts = dict(self._database.execute("SELECT kind, count(*) FROM entry GROUP BY kind").fetchall())
        apparent = self._one("SELECT sum(size) FROM entry WHERE kind = 'file'")
        once = self._one("SELECT sum(stored) FROM entry WHERE NOT (kind = 'file' AND links > 1)")
        shared = self._one(
            "SELECT sum(stored) FROM "
            "(SELECT DISTINCT device, inode, stored FROM entry WHERE kind = 'file' AND links > 1)"
        )
        linked = self._one("SELECT count(*) FROM entry WHERE kind = 'file' AND links > 1")
        sparse = self._one(f"SELECT count(*) FROM entry WHERE kind = 'file' AND stored + {_BLOCK_BYTES} <= size")  # noqa: S608
        return Totals(
            files=counts.get("file", 0),
            folders=counts.get("folder", 0),
            links=counts.get("link", 0),
            others=sum(counts.get(kind, 0) for kind in ("socket", "pipe", "device")),
            sockets=counts.get("socket", 0),
            pipes=counts.get("pipe", 0),
            devices=counts.get("device", 0),
            unreadable=counts.get("unreadable", 0),
            hard_linked=linked,
            sparse=sparse,
            apparent_bytes=apparent,
            stored_bytes=once + shared,
        )

    def rows(self, *, scan_id: int) -> Iterator[Entry]:
        """Unsaved rows in the order of their names, part by part, with positions from 0 and what lies below folders."""
        for values in self.values():
            fields: dict[str, Any] = dict(zip(ENTRY_FIELDS, values, strict=True))
            names = {name: RemoteName(fields.pop(name)) for name in ("name", "link_target")}
            yield Entry(scan_id=scan_id, **fields, **names)

    def values(self) -> Iterator[tuple[object, ...]]:
        """The same as plain values in the order of `ENTRY_FIELDS`, names as bytes: a million in seconds."""
        self._measure_folders()
        climb = Climb()
        with self._statement():
            folders = self._database.execute("SELECT position, entries, bytes FROM folder ORDER BY position")
            sorted_rows = self._database.execute(f"SELECT {_COLUMNS} FROM entry ORDER BY key")  # noqa: S608
            for position, (key, kind, *figures, target) in enumerate(sorted_rows):
                name = key.replace(b"\0", b"/")
                is_folder = kind == "folder"
                parent, _ended = climb.enter(position, name, 0, is_folder=is_folder)
                below = folders.fetchone()[1:] if is_folder else (0, 0)
                yield (position, parent, *below, name, kind, *figures, target)

    def _measure_folders(self) -> None:
        """Keep for each folder how many entries and bytes lie below it, by its position."""
        climb, kept = Climb(), []
        with self._statement():
            self._database.execute("DELETE FROM folder")
            walked = self._database.execute("SELECT key, kind, size FROM entry ORDER BY key")
            for position, (key, kind, size) in enumerate(walked):
                held = size if kind == "file" else 0
                name = key.replace(b"\0", b"/")
                kept += climb.enter(position, name, held, is_folder=kind == "folder")[1]
                if len(kept) >= _KEEP_FOLDERS:
                    self._keep_folders(kept)
                    kept = []
            self._keep_folders([*kept, *climb.leave()])

    def _keep_folders(self, ended: list[Folder]) -> None:
        rows = [(folder.position, folder.entries_below, folder.bytes_below) for folder in ended]
        self._database.executemany("INSERT INTO folder VALUES (?,?,?)", rows)

    def _one(self, query: str) -> int:
        with self._statement():
            return int(self._database.execute(query).fetchone()[0] or 0)

    def _breathe(self) -> int:
        """Called by SQLite every so many steps of a statement; anything but 0 ends it."""
        now = time.monotonic()
        if now - self._called < _BREATH_SECONDS:
            return 0
        self._called = now
        try:
            self._keep_alive()
        except BaseException as error:  # raised again by `_statement`: SQLite would swallow it
            self._failure = error
            return 1
        return 0

    @contextmanager
    def _statement(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            failure, self._failure = self._failure, None
            if failure is None:
                raise
            raise failure from error


def sort_key(name: bytes) -> bytes:
    """A key whose bytes sort as the name's parts do: a slash comes before every other byte, so a folder's content
    follows it directly ("a", "a/b", "a-b")."""
    return name.replace(b"/", b"\0")


def _row(entry: ScanEntry) -> tuple[object, ...]:
    return (
        sort_key(entry.name),
        entry.kind,
        entry.size_bytes,
        entry.stored_bytes,
        held_time(entry.mtime_ns),
        held_time(entry.ctime_ns),
        entry.mode,
        signed(entry.device),
        signed(entry.inode),
        entry.link_count,
        entry.link_target,
    )


def held_time(time_ns: int) -> int:
    """A time as the database keeps it: what lies beyond the year 2262 (or before 1677) is kept as its border."""
    return max(-_SIGN, min(time_ns, _SIGN - 1))


def signed(number: int) -> int:
    """A 64-bit number as the database keeps it."""
    return number if number < _SIGN else number - 2 * _SIGN
