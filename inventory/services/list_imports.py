"""Lists that people had: read, shown before anything is made, then kept as a listing of a resource.

What a list says is *declared*: it never counts as a scan of ours, and its digests are not ones that we took.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import zstandard
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit.services import record
from calculet.lifecycle import Actor, advance
from calculet.people.roles import Act, require
from inventory.drift import Drift, DriftSums, Seen, compare, order_key
from inventory.manifests.formats import detect, read_list
from inventory.manifests.lists import FileList, ListedEntry, ListError, ListProblem
from inventory.models import Entry, Host, ImportedList, ListState, Resource, ResourceKind, Scan, ScanState, SizeBasis
from inventory.remote.names import RemoteName
from inventory.saying import said_here
from inventory.selectors import entries_seen, latest_scan
from inventory.services.errors import ValueWrong
from inventory.services.resources import name_of, resource_add
from inventory.tree import Climb, Folder

LARGEST_FILE_BYTES = 64 * 2**20
MOST_ENTRIES = 200_000
SHOWN_ENTRIES = 20
SHOWN_DRIFTS = 20
_STORE_ENTRIES = 2000


@dataclass(slots=True)
class ListPreview:
    """What importing a list would make. `sums` compares it with the latest scan; None when there is none."""

    entries: tuple[ListedEntry, ...]
    notes: tuple[str, ...]
    is_new: bool  # the resource would be made
    root: RemoteName
    files: int = 0
    folders: int = 0
    others: int = 0
    total_bytes: int = 0
    without_size: int = 0
    digests: dict[str, int] = field(default_factory=dict)
    scan: Scan | None = None
    sums: DriftSums | None = None
    drifts: list[Drift] = field(default_factory=list)

    @property
    def shown(self) -> tuple[ListedEntry, ...]:
        return self.entries[:SHOWN_ENTRIES]


def list_preview(
    *,
    host: Host,
    resource_name: str,
    content: bytes,
    file_name: str,
    actor: Actor,
    root: RemoteName | str = "",
    format_name: str = "",
) -> ImportedList:
    """Read a list for a resource that is there or would be made, and keep it to be looked at; nothing else is made.

    `root` is what absolute names lie below; empty means the resource's path. Raises NotAllowed, ValueWrong, ListError.
    """
    require(actor.user, Act.RESOURCE_EDIT)
    if len(content) > LARGEST_FILE_BYTES:
        raise ValueWrong("file", _("The list is larger than 64 MiB. Nothing was kept. Split it, or scan the resource."))
    name = resource_name.strip()
    if not name or len(name) > 120 or not name.isprintable():
        raise ValueWrong("resource_name", _("A resource needs a name of up to 120 characters on one line."))
    top = name_of(root)
    if top.raw and not top.is_canonical:
        sentence = _("“%(path)s” is no plain absolute path. Nothing was kept. Begin with “/”.") % {"path": top}
        raise ValueWrong("root", sentence)
    chosen = format_name or detect(content, file_name)
    resource = Resource.objects.filter(host=host, name=name).first()
    if not top.raw and resource is not None:
        top = resource.path
    _below_root(read_list(content, format_name=chosen), top)
    with transaction.atomic():
        row = ImportedList.objects.create(
            host=host,
            resource_name=name,
            resource=resource,
            root=top,
            format_name=chosen,
            file_name=file_name[-255:],
            content=zstandard.ZstdCompressor(level=3).compress(content),
            digest=hashlib.sha256(content).hexdigest(),
            created_by=actor.user,
        )
        detail = {"file": row.file_name, "digest": row.digest, "format": chosen, "resource": name}
        record(act="list.previewed", actor=actor, subject=row, host=host, detail=detail)
    return row


def preview_of(row: ImportedList) -> ListPreview:
    """What importing would make, read from the kept bytes. Raises ListError."""
    found = _read(row)
    scan = latest_scan(row.resource) if row.resource is not None else None
    notes = tuple(said_here(note) for note in found.notes)
    preview = ListPreview(found.entries, notes, row.resource is None, row.root, scan=scan)
    for entry in found.entries:
        preview.files += entry.kind == "file"
        preview.folders += entry.kind == "folder"
        preview.others += entry.kind not in ("file", "folder")
        preview.total_bytes += entry.size_bytes or 0 if entry.kind == "file" else 0
        preview.without_size += entry.kind == "file" and entry.size_bytes is None
        for algorithm, _value in entry.digests:
            preview.digests[algorithm] = preview.digests.get(algorithm, 0) + 1
    if scan is not None:
        preview.sums = DriftSums()
        listed = (_seen(entry) for entry in sorted(found.entries, key=lambda entry: order_key(entry.name)))
        only_files = (seen for seen in entries_seen(scan) if seen.kind not in ("folder", "unreadable"))
        without_folders = (seen for seen in listed if seen.kind != "folder")
        for drift in compare(without_folders, only_files, preview.sums):
            if len(preview.drifts) < SHOWN_DRIFTS:
                preview.drifts.append(drift)
    return preview


def list_import(*, imported: ImportedList, digest: str, actor: Actor) -> Scan:
    """Make what the preview showed: the resource when there was none, and its listed entries, all or nothing.

    `digest` is that of the file that was looked at. Raises NotAllowed, ValueWrong, NameTaken, ListError, StateConflict.
    """
    require(actor.user, Act.RESOURCE_EDIT)
    if digest != imported.digest:
        raise ValueWrong(
            "digest", _("This is not the list that was looked at. Nothing was imported. Look at it again.")
        )
    entries = _read(imported).entries
    sizes = [entry.size_bytes for entry in entries if entry.kind == "file"]
    total = sum(size or 0 for size in sizes)
    with transaction.atomic():
        resource = Resource.objects.filter(host=imported.host, name=imported.resource_name).first()
        if resource is None:
            is_known = bool(sizes) and None not in sizes
            resource = resource_add(
                host=imported.host,
                name=imported.resource_name,
                path=imported.root,
                kind=ResourceKind.FOLDER,
                size_bytes=total if is_known else None,
                size_basis=SizeBasis.DECLARED if is_known else SizeBasis.UNKNOWN,
                actor=actor,
            )
        now = timezone.now()
        scan = Scan.objects.create(
            host=imported.host,
            resource=resource,
            root=imported.root,
            state=ScanState.IMPORTED,
            requested_by=actor.user,
            started_at=now,
            finished_at=now,
            apparent_bytes=total,
        )
        rows = list(_rows(scan, entries))
        for begin in range(0, len(rows), _STORE_ENTRIES):
            Entry.objects.bulk_create(rows[begin : begin + _STORE_ENTRIES])
        counts = {
            "files": sum(row.kind == Entry.Kind.FILE for row in rows),
            "folders": sum(row.kind == Entry.Kind.FOLDER for row in rows),
            "links": sum(row.kind == Entry.Kind.LINK for row in rows),
        }
        digested = sum(row.kind == Entry.Kind.FILE and row.sha256 is not None for row in rows)
        Scan.objects.filter(pk=scan.pk).update(**counts, digested=digested, entries_seen=len(rows))
        detail = {"file": imported.file_name, "digest": imported.digest, "resource": resource.name, **counts}
        advance(
            imported,
            ListState.IMPORTED,
            act="list.imported",
            actor=actor,
            detail=detail,
            resource=resource,
            scan=scan,
            decided_at=now,
        )
    return scan


def list_discard(*, imported: ImportedList, actor: Actor) -> None:
    """Not import a list after all; its bytes are kept as what was looked at. Raises NotAllowed, StateConflict."""
    require(actor.user, Act.RESOURCE_EDIT)
    advance(imported, ListState.DISCARDED, act="list.discarded", actor=actor, decided_at=timezone.now())


def _read(row: ImportedList) -> FileList:
    content = zstandard.ZstdDecompressor().decompress(bytes(row.content), max_output_size=LARGEST_FILE_BYTES)
    return _below_root(read_list(content, format_name=row.format_name, file_name=row.file_name), row.root)


def _below_root(found: FileList, root: RemoteName) -> FileList:
    """The list with absolute names made relative to the root. Raises ListError for names outside it."""
    if len(found.entries) > MOST_ENTRIES:
        sentence = _("the list names %(count)s entries; %(most)s are the most. Split it.") % {
            "count": f"{len(found.entries):,}",
            "most": f"{MOST_ENTRIES:,}",
        }
        raise ListError([ListProblem(found.entries[MOST_ENTRIES].line, sentence)])
    if not any(entry.name.startswith(b"/") for entry in found.entries):
        return found
    problems, entries = [], []
    for entry in found.entries:
        name = entry.name
        if name.startswith(b"/"):
            if not root.raw:
                problems.append(ListProblem(entry.line, _("the name is absolute. Say which folder the list is of.")))
                continue
            if not RemoteName(name).is_below(root):
                sentence = _("“%(name)s” does not lie below “%(root)s”.") % {"name": RemoteName(name), "root": root}
                problems.append(ListProblem(entry.line, sentence))
                continue
            name = name[len(root.raw.rstrip(b"/")) + 1 :]
        if name:
            entries.append(replace(entry, name=name))
    if problems:
        raise ListError(problems)
    return replace(found, entries=tuple(entries))


def _seen(entry: ListedEntry) -> Seen:
    digest = entry.digest("sha256")
    sha256 = bytes.fromhex(digest) if digest else None
    return Seen(entry.name, entry.kind, entry.size_bytes, entry.mtime_ns, None, sha256, entry.link_target)


def _rows(scan: Scan, entries: tuple[ListedEntry, ...]) -> Iterator[Entry]:
    """Rows in order, with the folders that names lie in, and what lies below each."""
    listed: dict[bytes, ListedEntry] = {}
    for entry in entries:
        parts = entry.name.split(b"/")
        for number in range(len(parts)):
            above = b"/".join(parts[:number])
            listed.setdefault(above, ListedEntry(above, entry.line, "folder"))
        listed[entry.name] = entry
    rows: list[Entry] = []
    climb = Climb()
    for position, name in enumerate(sorted(listed, key=order_key)):
        entry = listed[name]
        size = entry.size_bytes or 0 if entry.kind == "file" else 0
        parent, ended = climb.enter(position, name, size, is_folder=entry.kind == "folder")
        _measure(rows, ended)
        digest = entry.digest("sha256")
        row = Entry(
            scan=scan,
            position=position,
            name=RemoteName(name),
            parent=parent,
            kind=entry.kind,
            size_bytes=size,
            mtime_ns=entry.mtime_ns or 0,
            link_target=RemoteName(entry.link_target),
            sha256=bytes.fromhex(digest) if digest else None,
            entries_below=0,
            bytes_below=0,
        )
        rows.append(row)
    _measure(rows, climb.leave())
    return iter(rows)


def _measure(rows: list[Entry], ended: list[Folder]) -> None:
    for folder in ended:
        rows[folder.position].entries_below = folder.entries_below
        rows[folder.position].bytes_below = folder.bytes_below
