"""Marking what rests on a scan when a later one found it otherwise. Safe to run twice; the rows decide."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.leases.services import Held as Lease
from calculet.leases.services import LeaseTaken, lease_acquire, lease_hold, lease_is_free, lease_release
from calculet.lifecycle import SYSTEM
from inventory.models import Scan, ScanState
from inventory.remote.names import escape
from inventory.selectors import latest_scan
from transfers.engine.listdrift import ListDrift, list_drift
from transfers.engine.types import Member
from transfers.models import Item, ItemBasis, ItemDrift
from transfers.selectors.drifting import build_of, deltas_of, digests_now, held_by, is_coarse, items_to_compare
from transfers.services.entry_lists import item_members

NAMES_KEPT = 2000

logger = logging.getLogger(__name__)


def drifts_due() -> list[int]:
    """Items that a later scan may have found otherwise, and that nobody compares."""
    return [pk for pk in items_to_compare() if lease_is_free(name=drift_lease(pk))]


def drift_lease(item_id: int) -> str:
    """The name of the lease under which an item is compared."""
    return f"drift:{item_id}"


def drift_run(item_id: int) -> None:
    """Compare what an item's pack holds with the latest scans, and keep what differs."""
    item = Item.objects.select_related("pack", "revision__plan__host").filter(pk=item_id).first()
    lease = lease_acquire(name=drift_lease(item_id)) if item is not None else None
    if item is None or lease is None:
        return
    try:
        _compare(item, lease)
    except LeaseTaken as taken:
        logger.info("%s", taken)
    finally:
        lease_release(lease)


def _compare(item: Item, lease: Lease) -> None:
    bases = list(item.bases.select_related("resource"))
    latest = {basis.pk: latest_scan(basis.resource) for basis in bases}
    times = _times_of_change(item)
    found = _found(item) if times else None
    with transaction.atomic():
        lease_hold(lease)
        for basis in bases:
            ItemBasis.objects.filter(pk=basis.pk).update(compared=latest[basis.pk])
        _keep(item, min(times, default=timezone.now()), found)


def _times_of_change(item: Item) -> list[datetime]:
    """When scans finished that found a place otherwise than it was when what the pack holds was listed."""
    build = build_of(item)
    times = []
    for basis in (build.item if build is not None else item).bases.all():
        rows = Scan.objects.filter(resource=basis.resource_id, state=ScanState.FINISHED)
        later = rows.filter(finished_at__gt=basis.scanned_at)
        times += [scan.finished_at for scan in later if scan.drifted != 0 and scan.finished_at is not None]
    return times


def _found(item: Item) -> dict[str, Any] | None:
    """Counts and first names of what differs; None when nothing does."""
    resources = list(item.resources.all())
    held = held_by(item, deltas_of(item.pack, item.revision_id))
    try:
        now = item_members(item)[0]
    except ValidationError as error:
        logger.info("%s is not compared: %s", item, error)
        return None
    has_digests = any(member.sha256 is not None for member in held.members.values())
    drifts = list_drift(
        held.members,
        now,
        digests=digests_now(resources) if has_digests else {},
        touched=held.touched,
        whole_seconds=is_coarse(resources),
    )
    counts: dict[str, Any] = {"added": 0, "changed": 0, "removed": 0, "bytes_to_bring": 0}
    names: list[dict[str, Any]] = []
    for drift in drifts:
        counts[drift.what] += 1
        if drift.after is not None and drift.after.kind == "file":
            counts["bytes_to_bring"] += drift.after.size_bytes
        if len(names) < NAMES_KEPT:
            names.append(_named(drift))
    if not names:
        return None
    return {**counts, "names": names, "doubt": "" if held.is_whole else _doubt()}


def _named(drift: ListDrift) -> dict[str, Any]:
    return {
        "name": escape(b"/" + drift.name),
        "what": drift.what,
        "reason": drift.reason,
        "size_before": _size(drift.before),
        "size_after": _size(drift.after),
    }


def _size(member: Member | None) -> int | None:
    return member.size_bytes if member is not None and member.kind == "file" else None


def _doubt() -> str:
    return _(
        "A scan found more changes than are kept, or could not tell when inodes were written: files that were changed "
        "and kept their size and time may be missing here. Digests at the source tell."
    )


def _keep(item: Item, changed_at: datetime, found: dict[str, Any] | None) -> None:
    before = ItemDrift.objects.filter(item=item).first()
    host = item.revision.plan.host
    if found is None:
        if before is not None:
            before.delete()
            audit.record(act="pack.no_longer_stale", actor=SYSTEM, subject=item.pack, host=host)
        return
    since = before.since if before is not None else changed_at
    ItemDrift.objects.update_or_create(item=item, defaults={**found, "since": since})
    counts = {name: found[name] for name in ("added", "changed", "removed", "bytes_to_bring")}
    if before is None or any(getattr(before, name) != count for name, count in counts.items()):
        audit.record(act="pack.stale", actor=SYSTEM, subject=item.pack, host=host, detail=counts)
