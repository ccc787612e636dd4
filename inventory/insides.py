"""Reads of what lies inside archives: which of a scan's entries were looked into, and the files found there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db.models import Q

from inventory.browsing import entry_find
from inventory.models import Entry, InsideArchive, InsidePart, InsidePiece, InsideRun, Resource, Scan
from inventory.overlap.archives import is_archive_name
from inventory.overlap.hostlook import Wanted
from inventory.overlap.inside import LAYOUT, Record
from inventory.overlap.spool import unpacked
from inventory.selectors import UNDER_WAY

ARCHIVES_AT_MOST = 5000  # of one resource
_AGAIN = ("no-zstd", "layers-closed")  # what the host may have by now
_IDENTITY = ("device", "inode", "size_bytes", "mtime_ns", "ctime_ns")


@dataclass(frozen=True, slots=True)
class Archive:
    """An entry of a scan that is an archive; `found` is what is known of its inside.

    A layout's entry is its index, that of a set of parts its first part.
    """

    entry: Entry
    name: bytes  # of the file, or of the layout's folder; relative to the scan's root
    is_layout: bool = False
    found: InsideArchive | None = None
    parts: tuple[bytes, ...] = ()  # names of the files that are the archive only when they are joined

    @property
    def is_whole(self) -> bool:
        """True when every file inside is known, so that they can stand for the archive."""
        return self.found is not None and bool(self.found.kind) and not self.found.fault


def archives_of(scan: Scan) -> list[Archive]:
    """A scan's archives, by their names, in order; files below an OCI layout belong to it.

    A set of parts is among them once it was looked into at home: where it lies nobody can tell that it is one.
    """
    rows = list(_candidates(scan))
    layouts = _layouts(scan, rows)
    files = [row for row in rows if not any(_is_below(row.name.raw, folder) for folder in layouts)]
    archives = [Archive(row, row.name.raw) for row in files if _is_archive(scan, row)]
    archives += [Archive(row, folder, is_layout=True) for folder, row in layouts.items()]
    archives.sort(key=lambda one: one.entry.position)
    return [*_with_found(scan, archives[:ARCHIVES_AT_MOST]), *_joined(scan)]


def _joined(scan: Scan) -> Iterator[Archive]:
    """Sets of parts that were looked into as a whole, and of which every part is still the file that it was."""
    root = scan.root.raw.rstrip(b"/") + b"/"
    for found in InsideArchive.objects.filter(host=scan.host_id, parts__isnull=False).distinct():
        parts = list(found.parts.all())
        if not all(part.name.is_below(scan.root) for part in parts):
            continue
        entries = [entry_find(scan, part.name.raw.removeprefix(root)) for part in parts]
        if all(row is not None and _identity(row) == _identity(part) for row, part in zip(entries, parts, strict=True)):
            rows = [row for row in entries if row is not None]
            yield Archive(rows[0], rows[0].name.raw, found=found, parts=tuple(row.name.raw for row in rows))


def _candidates(scan: Scan) -> Iterator[Entry]:
    """Files whose name may be an archive's or marks a layout, in one pass; of a single file, that file."""
    rows = scan.entries.filter(kind=Entry.Kind.FILE).order_by("position")
    if scan.folders:
        words = (b".tar", b".TAR", b".Tar", b".tgz", b".TGZ", b".tzst", LAYOUT)
        marks = Q(name__holds=words[0])
        for word in words[1:]:
            marks |= Q(name__holds=word)
        rows = rows.filter(marks)
    for row in rows.iterator(chunk_size=2000):
        if not scan.folders or row.name.base == LAYOUT or is_archive_name(row.name.base):
            yield row


def _is_archive(scan: Scan, row: Entry) -> bool:
    if scan.folders:
        return is_archive_name(row.name.base)
    return scan.resource.kind in ("archive", "image") or is_archive_name(scan.root.base)


def _layouts(scan: Scan, rows: list[Entry]) -> dict[bytes, Entry]:
    """Folders with an `oci-layout` and an `index.json`, with the entry of the latter."""
    found: dict[bytes, Entry] = {}
    for mark in rows:
        if mark.name.base != LAYOUT:
            continue
        folder = mark.name.raw.rpartition(b"/")[0]
        beside = scan.entries.filter(parent=mark.parent, kind=Entry.Kind.FILE, name__holds=b"index.json")
        index = next((row for row in beside if row.name.base == b"index.json"), None)
        if index is not None and not any(_is_below(folder, other) for other in found):
            found[folder] = index
    return found


def _is_below(name: bytes, folder: bytes) -> bool:
    return not folder or name.startswith(folder + b"/")


def _with_found(scan: Scan, archives: list[Archive]) -> list[Archive]:
    """Known by identity on the host; a file also by its digest, wherever the same bytes were looked into."""
    known = {_identity(row): row for row in InsideArchive.objects.filter(host=scan.host_id)}
    digests = [bytes(one.entry.sha256) for one in archives if one.entry.sha256 is not None and not one.is_layout]
    same = {}
    for begin in range(0, len(digests), 500):
        for row in InsideArchive.objects.filter(sha256__in=digests[begin : begin + 500]).exclude(kind=""):
            same[bytes(row.sha256 or b"")] = row
    found = []
    for one in archives:
        inside = known.get(_identity(one.entry)) if one.entry.inode else None
        if inside is None and one.entry.sha256 is not None and not one.is_layout:
            inside = same.get(bytes(one.entry.sha256))
        found.append(replace(one, found=inside))
    return found


def _identity(row: Entry | InsideArchive | InsidePart) -> tuple[int, ...]:
    return tuple(getattr(row, name) for name in _IDENTITY)


def inside_files(archive: InsideArchive) -> Iterator[Record]:
    """The files that an archive stands for, in flat memory."""
    for key in archive.pieces.order_by("position").values_list("pk", flat=True):
        yield from unpacked(bytes(InsidePiece.objects.values_list("content", flat=True).get(pk=key)))


def wanted_of(scan: Scan, archives: list[Archive]) -> list[Wanted]:
    """What has to be looked into on the host: archives of which nothing is known, or which it could not open then."""
    base = scan.root.base if not scan.folders else b""
    return [
        Wanted(one.name or (b"." if one.is_layout else base), one.entry.size_bytes, one.is_layout)
        for one in archives
        if one.found is None or one.found.fault in _AGAIN
    ]


@dataclass(frozen=True, slots=True)
class InsidesShown:
    """The archives of a resource that were looked into, and the look that was asked for last."""

    archives: list[InsideArchive]
    run: InsideRun | None

    @property
    def is_under_way(self) -> bool:
        return self.run is not None and self.run.state in UNDER_WAY


def insides_shown(resource: Resource) -> InsidesShown:
    """What is known of the archives at or below a resource's path, largest content first, each path as it is now."""
    run = resource.inside_runs.order_by("-requested_at", "-pk").first()
    if not resource.path.raw:
        return InsidesShown([], run)
    rows = InsideArchive.objects.filter(host=resource.host_id).order_by("looked_at")
    newest = {row.name.raw: row for row in rows if row.name == resource.path or row.name.is_below(resource.path)}
    return InsidesShown(sorted(newest.values(), key=lambda row: (-row.content_bytes, row.name.raw)), run)
