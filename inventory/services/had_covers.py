"""How much of each resource is already here: counted again when its listing, its digests or a declaration changed."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef, Subquery, Sum
from django.utils import timezone

from calculet.leases.services import LeaseTaken, lease_acquire, lease_hold, lease_is_free, lease_release
from inventory.models import DigestRun, Entry, HadCover, HadFile, HadSource, HadState, Resource, Scan, ScanState
from inventory.selectors import listing_of


def covers_sweep() -> list[int]:
    """Resources whose count is older than what it is a count of. None while nobody declared anything."""
    declared = HadSource.objects.aggregate(last=Max("changed_at"))["last"]
    if declared is None:
        return []
    listed = Scan.objects.filter(resource=OuterRef("pk"), state__in=[ScanState.FINISHED, ScanState.IMPORTED])
    taken = DigestRun.objects.filter(resource=OuterRef("pk"), finished_at__isnull=False)
    rows = Resource.objects.annotate(
        listed_at=Subquery(listed.order_by("-finished_at").values("finished_at")[:1]),
        taken_at=Subquery(taken.order_by("-finished_at").values("finished_at")[:1]),
        counted_at=Subquery(HadCover.objects.filter(resource=OuterRef("pk")).values("counted_at")[:1]),
    ).exclude(listed_at=None)
    found = rows.values_list("pk", "listed_at", "taken_at", "counted_at")
    due = [pk for pk, listed_at, taken_at, at in found if _is_older(at, declared, listed_at, taken_at)]
    return [pk for pk in due if lease_is_free(name=_lease(pk))]


def _is_older(counted_at: datetime | None, *events: datetime | None) -> bool:
    return counted_at is None or any(event is not None and event > counted_at for event in events)


def cover_count(resource_id: int) -> None:
    """Count how much of a resource's best listing is already here. May run twice."""
    resource = Resource.objects.filter(pk=resource_id).first()
    held = lease_acquire(name=_lease(resource_id)) if resource is not None else None
    if resource is None or held is None:
        return
    try:
        now = timezone.now()  # what changes while it is counted is counted again
        scan = listing_of(resource)
        files, size_bytes = _sums(scan) if scan is not None else (0, 0)
        with transaction.atomic():
            lease_hold(held)
            values = {"scan": scan, "files": files, "size_bytes": size_bytes, "counted_at": now}
            HadCover.objects.update_or_create(resource=resource, defaults=values)
    except LeaseTaken:
        return
    finally:
        lease_release(held)


def _lease(resource_id: int) -> str:
    return f"had-cover:{resource_id}"


def _sums(scan: Scan) -> tuple[int, int]:
    here = HadFile.objects.filter(source__state=HadState.FINISHED, sha256=OuterRef("sha256"))
    rows = scan.entries.filter(Exists(here), kind=Entry.Kind.FILE, sha256__isnull=False, size_bytes__gt=0)
    sums = rows.aggregate(files=Count("pk"), size=Sum("size_bytes"))
    return sums["files"], sums["size"] or 0
