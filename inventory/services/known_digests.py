"""What is remembered of files by their identity, and given to the entries of scans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from inventory.digests import Taken, Wanted
from inventory.models import Entry, Host, KnownDigest, Scan
from inventory.services.sorting import held_time, signed

_FILL_ENTRIES = 20_000
_IDENTITY = ("inode", "device", "size_bytes", "mtime_ns", "ctime_ns")


def digests_keep(host: Host, taken: Iterable[Taken]) -> None:
    """Remember digests by the identity that their files had; part of a larger transaction."""
    now = timezone.now()
    rows = [
        KnownDigest(
            host=host,
            device=signed(one.stat.device),
            inode=signed(one.stat.inode),
            size_bytes=one.stat.size_bytes,
            mtime_ns=held_time(one.stat.mtime_ns),
            ctime_ns=held_time(one.stat.ctime_ns),
            sha256=one.sha256,
            taken_at=now,
        )
        for one in taken
    ]
    KnownDigest.objects.bulk_create(rows, batch_size=1000, ignore_conflicts=True)


def digests_fill(scan: Scan, *, hold: Callable[[], object]) -> int:
    """Give a scan's files the digests that are remembered for their identity; returns how many got one.

    In pieces, each a transaction that begins with `hold`, which raises when the work is not wanted any more.
    """
    if not scan.knows_identity or not KnownDigest.objects.filter(host=scan.host_id).exists():
        return 0
    last = Entry.objects.filter(scan=scan).aggregate(last=Max("position"))["last"]
    filled = 0
    for begin in range(0, 0 if last is None else last + 1, _FILL_ENTRIES):
        with transaction.atomic():
            hold()
            rows = _bare(scan).filter(position__gte=begin, position__lt=begin + _FILL_ENTRIES)
            known = _same(scan).values("sha256")[:1]
            found = rows.filter(Exists(_same(scan))).update(sha256=Subquery(known))
            Scan.objects.filter(pk=scan.pk).update(digested=F("digested") + found)
            filled += found
    return filled


def files_bare(scan: Scan, *, over_bytes: int = 0) -> Iterator[Wanted]:
    """The files of a scan, of so many bytes at least, whose digest nobody knows, each inode once."""
    seen: set[tuple[int, int]] = set()
    rows = (
        _bare(scan)
        .filter(size_bytes__gte=over_bytes)
        .order_by("position")
        .values_list("name", "size_bytes", "link_count", "device", "inode")
    )
    for name, size, links, device, inode in rows.iterator(chunk_size=2000):
        if links > 1:
            if (device, inode) in seen:
                continue
            seen.add((device, inode))
        yield Wanted(name.raw or scan.root.base, size)


def files_counted(scan: Scan, *, over_bytes: int = 0) -> tuple[int, int]:
    """How many of a scan's files, of so many bytes at least, have a digest, and how many have none."""
    files = Entry.objects.filter(scan=scan, kind=Entry.Kind.FILE, size_bytes__gte=over_bytes)
    return files.filter(sha256__isnull=False).count(), files.filter(sha256__isnull=True).count()


def _bare(scan: Scan) -> QuerySet[Entry]:
    return Entry.objects.filter(Q(sha256__isnull=True), scan=scan, kind=Entry.Kind.FILE)


def _same(scan: Scan) -> QuerySet[KnownDigest]:
    return KnownDigest.objects.filter(host=scan.host_id, **{name: OuterRef(name) for name in _IDENTITY})
