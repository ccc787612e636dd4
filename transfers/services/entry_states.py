"""Reckoning the states of a listing's entries anew when plans, builds or digests changed; the inventory shows them.

Nobody's act: it follows from acts that have their events, can be done again at any time, and proves nothing.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

import zstandard
from django.db import transaction
from django.utils import timezone

from calculet.leases.services import (
    Held,
    LeaseTaken,
    lease_acquire,
    lease_beat,
    lease_hold,
    lease_is_free,
    lease_release,
)
from inventory.columns import columns_of
from inventory.models import EntryStates, Resource, Scan, StateSum
from inventory.owning import runs_of
from inventory.rawrows import rows_raw
from transfers.entry_states import Listed, states
from transfers.selectors.entry_states import Basis, basis_of, carried_by, scans_to_reckon

_BEAT_SECONDS = 2.0

logger = logging.getLogger(__name__)


class _Stopped(Exception):
    """The worker is being shut down; the reckoning begins again elsewhere."""


def entry_states_lease(scan_id: int) -> str:
    """The name of the lease under which a listing's states are reckoned."""
    return f"states:{scan_id}"


def entry_states_sweep() -> list[int]:
    """Listings whose states are to be reckoned and nobody does."""
    return [pk for pk in scans_to_reckon() if lease_is_free(name=entry_states_lease(pk))]


def entry_states_run(scan_id: int) -> None:
    """Reckon the states of one listing, if what they rest on changed. May run twice; one of them works."""
    held = lease_acquire(name=entry_states_lease(scan_id))
    if held is None:
        return
    try:
        scan = Scan.objects.select_related("resource").filter(pk=scan_id).first()
        basis = basis_of(scan_id) if scan is not None else None
        if scan is not None and basis is not None and not _is_reckoned(basis):
            _run(scan, basis, held)
    except LeaseTaken as taken:
        logger.info("%s", taken)
    except _Stopped:
        logger.info("the states of scan %s were stopped with their worker; the next tick begins again", scan_id)
    finally:
        lease_release(held)


def _is_reckoned(basis: Basis) -> bool:
    return EntryStates.objects.filter(scan_id=basis.scan_id, basis=basis.key).exists()


def _run(scan: Scan, basis: Basis, held: Held) -> None:
    try:
        letters, sums = _reckoned(scan, basis, held)
    except ValueError:  # a list that is damaged: kept as nothing, or every tick would try again
        logger.exception("the states of scan %s cannot be reckoned, so nothing of it counts as carried", scan.pk)
        letters, sums = b"", []
    with transaction.atomic():
        lease_hold(held)
        content = zstandard.ZstdCompressor(level=3).compress(letters)
        given = {"basis": basis.key, "content": content, "reckoned_at": timezone.now()}
        EntryStates.objects.update_or_create(scan=scan, defaults=given)
        StateSum.objects.filter(scan=scan).delete()
        StateSum.objects.bulk_create(sums)


def _reckoned(scan: Scan, basis: Basis, held: Held) -> tuple[bytes, list[StateSum]]:
    """A letter an entry, and their sums. Raises ValueError, LeaseTaken, _Stopped."""
    columns = columns_of(scan)
    owners = _owners(runs_of(scan, columns), columns.count)
    sums: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    letters = bytearray()
    begins = [begin for begin, _owner in owners]
    entries = _listed(scan, held)
    for number, state in enumerate(states(entries, carried_by(basis))):
        letters += state.encode()
        owner = owners[bisect_right(begins, number) - 1][1]
        counted = sums[owner.pk, state]
        counted[0] += 1
        if columns.kinds[number] == ord("f"):
            counted[1] += 1
            counted[2] += columns.sums[number + 1] - columns.sums[number]
    return bytes(letters), [
        StateSum(scan=scan, resource_id=owner, state=state, entries=counts[0], files=counts[1], size_bytes=counts[2])
        for (owner, state), counts in sums.items()
    ]


def _owners(runs: Sequence[tuple[int, int, Resource]], count: int) -> list[tuple[int, Resource]]:
    """Where each stretch of entries begins that belongs to one resource; of runs inside one another, the later."""
    borders = sorted({border for begin, end, _one in runs for border in (begin, end) if border < count} | {0})
    return [(at, next(one for begin, end, one in reversed(runs) if begin <= at < max(end, 1))) for at in borders]


def _listed(scan: Scan, held: Held) -> Iterator[Listed]:
    """The listing's entries with their paths on the host. Keeps the lease; raises LeaseTaken, _Stopped."""
    top = scan.root.raw.strip(b"/").replace(b"/", b"\0")
    beaten = time.monotonic()
    fields = ("name", "kind", "size_bytes", "mtime_ns", "sha256", "link_target")
    for name, kind, size, mtime, sha256, target in rows_raw(scan.entries.order_by("position"), *fields):
        if time.monotonic() - beaten > _BEAT_SECONDS:
            if lease_beat(held):
                raise _Stopped
            beaten = time.monotonic()
        below = name.replace(b"/", b"\0")
        key = b"\0".join((top, below)) if top and below else top or below
        yield Listed(key, kind, size, mtime, sha256, target)
