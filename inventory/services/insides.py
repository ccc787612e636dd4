"""What lies inside archives: kept by the identity of the archive file, and read for comparing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from inventory.models import Host, InsideArchive, InsidePart, InsidePiece
from inventory.overlap.archives import Identity, identity_of
from inventory.overlap.images import tree_of
from inventory.overlap.inside import Record
from inventory.overlap.spool import Spool, packed
from inventory.remote.names import RemoteName
from inventory.services.sorting import held_time, signed


@dataclass(frozen=True, slots=True)
class Looked:
    """The archive as it is kept; None when it could not be opened or changed meanwhile, `fault` says why."""

    archive: InsideArchive | None
    fault: str


def inside_keep(
    host: Host,
    name: RemoteName,
    records: Iterable[Record],
    *,
    hold: Callable[[], object],
    is_layout: bool = False,
    here: Identity | None = None,
    digest: bytes | None = None,
    parts: Sequence[tuple[RemoteName, Identity]] = (),
    noted: Callable[[InsideArchive], object] = bool,
) -> Looked:
    """Take the findings of one look, make its tree, and keep that in one transaction that begins with `hold`.

    `here` and `digest`: of the file on its host, when the copy at home was read. `parts`: the files on its host that
    are the archive when they are joined, in order. `noted` is called last in the transaction. What was not whole is
    kept with the word that says why.

    Raises FindingsDamaged and what `records` and `hold` raise.
    """
    with Spool() as spool:
        tree = tree_of(spool.fill(records))
        pieces = list(packed(tree.files()))
        fault = spool.end.name.decode("ascii", "replace")[:32]
        identity = here or identity_of(spool.end)
        if identity is None or (here is None and fault in ("unreadable", "changed")):
            return Looked(None, fault or "unreadable")
        fault = fault or (tree.faults[0] if tree.faults else "")
        if digest is None and spool.end.sha256:
            digest = bytes.fromhex(spool.end.sha256)
    key = _held(identity)
    values = {
        "name": name,
        "is_layout": is_layout,
        "sha256": digest,
        "is_here": here is not None,
        "kind": "" if fault == "no-archive" else tree.kind,
        "images": tree.images,
        "files": sum(count for _content, count, _size in pieces),
        "content_bytes": sum(size for _content, _count, size in pieces),
        "fault": fault,
        "looked_at": timezone.now(),
    }
    with transaction.atomic():
        hold()
        InsideArchive.objects.filter(host=host, **key).delete()
        archive = InsideArchive.objects.create(host=host, **key, **values)
        for position, (content, _count, _size) in enumerate(pieces):
            InsidePiece.objects.create(archive=archive, position=position, content=content)
        InsidePart.objects.bulk_create(
            (
                InsidePart(archive=archive, position=position, name=part, **_held(its))
                for position, (part, its) in enumerate(parts)
            ),
            batch_size=500,
        )
        noted(archive)
    return Looked(archive, fault)


def _held(identity: Identity) -> dict[str, int]:
    """An identity as the database holds it."""
    return {
        "device": signed(identity.device),
        "inode": signed(identity.inode),
        "size_bytes": identity.size_bytes,
        "mtime_ns": held_time(identity.mtime_ns),
        "ctime_ns": held_time(identity.ctime_ns),
    }
