"""A scan against the one that finished before it: counts of everything, and the first paths that differ."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.db import transaction

from calculet.leases.services import Held, lease_beat, lease_hold
from inventory.drift import Drift, DriftSums, Seen, compare
from inventory.models import Scan, ScanChange
from inventory.selectors import entries_seen, latest_scan

CHANGES_KEPT = 20_000
_BEAT_SECONDS = 2.0


def scan_compare(scan: Scan, held: Held) -> dict[str, Any]:
    """Compare a scan that is about to finish, keep the first changes, and return the counts for its row.

    Empty when there was no scan of the same place before. Raises LeaseTaken.
    """
    former = latest_scan(scan.resource)
    if former is None or former.root != scan.root:
        return {}
    sums = DriftSums()
    kept: list[Drift] = []
    for drift in compare(_alive(entries_seen(former, beside=scan), held), entries_seen(scan, beside=former), sums):
        if len(kept) < CHANGES_KEPT:
            kept.append(drift)
    with transaction.atomic():
        lease_hold(held)
        ScanChange.objects.filter(scan=scan).delete()  # of an attempt that was cut off here
        rows = (_row(scan, position, drift) for position, drift in enumerate(kept))
        ScanChange.objects.bulk_create(rows, batch_size=1000)
    counts = asdict(sums)
    del counts["same"]
    return {"former": former, **counts}


def _row(scan: Scan, position: int, drift: Drift) -> ScanChange:
    seen = drift.before if drift.after is None else drift.after
    return ScanChange(
        scan=scan,
        position=position,
        kind=drift.kind,
        name=drift.name,
        entry_kind=seen.kind if seen is not None else "",
        reason=drift.reason,
        size_before=_size(drift.before),
        size_after=_size(drift.after),
    )


def _size(seen: Seen | None) -> int | None:
    return seen.size_bytes if seen is not None and seen.kind == "file" else None


def _alive(entries: Iterator[Seen], held: Held) -> Iterator[Seen]:
    """Keep the lease while millions pass by."""
    beaten = time.monotonic()
    for entry in entries:
        if time.monotonic() - beaten >= _BEAT_SECONDS:
            lease_beat(held)
            beaten = time.monotonic()
        yield entry
