"""Measuring where the same bytes lie twice: asked for by a person, done from the listings that are there."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit.services import record
from calculet.leases.services import (
    Held,
    LeaseTaken,
    lease_acquire,
    lease_beat,
    lease_hold,
    lease_is_free,
    lease_release,
)
from calculet.lifecycle import SYSTEM, Actor
from calculet.people.roles import Act, require
from inventory.insides import Archive, archives_of, inside_files
from inventory.models import DeclaredOverlap, Overlap, OverlapMeasure, OverlapSet, Resource, Scan
from inventory.overlap.containment import OneFile, Overlaps, measure
from inventory.rawrows import rows_raw
from inventory.selectors import listing_of
from inventory.services.errors import ValueWrong

KEPT_MEASURES = 2
_BEAT_SECONDS = 2.0

logger = logging.getLogger(__name__)


class _Stopped(Exception):
    """The worker is being shut down; the measuring begins again elsewhere."""


def overlaps_request(*, actor: Actor) -> OverlapMeasure:
    """Ask for a measuring; the caller sends `tasks.measure_overlaps`. One that waits already is returned.

    Raises NotAllowed.
    """
    require(actor.user, Act.SCAN)
    with transaction.atomic():
        waiting = OverlapMeasure.objects.filter(finished_at__isnull=True, problem="").first()
        if waiting is not None:
            return waiting
        row = OverlapMeasure.objects.create(requested_by=actor.user)
        record(act="overlaps.asked", actor=actor, subject=row)
    return row


def overlap_declare(*, resource: Resource, other: Resource, percent: int, actor: Actor, note: str = "") -> None:
    """Say how much of a resource's bytes lies in another one as well; said again, it replaces what was said.

    Raises NotAllowed, ValueWrong.
    """
    require(actor.user, Act.RESOURCE_EDIT)
    if resource.pk == other.pk:
        raise ValueWrong("other", _("A resource cannot overlap with itself. Nothing was changed. Choose another one."))
    if not 0 <= percent <= 100:
        raise ValueWrong("percent", _("Say a percentage between 0 and 100. Nothing was changed."))
    words = " ".join(note.split())[:500]
    with transaction.atomic():
        given = {"percent": percent, "note": words, "declared_by": actor.user}
        DeclaredOverlap.objects.update_or_create(resource=resource, other=other, defaults=given)
        detail = {"other": str(other), "percent": percent, "note": words}
        record(act="overlap.declared", actor=actor, subject=resource, host=resource.host, detail=detail)


def overlap_withdraw(*, declared: DeclaredOverlap, actor: Actor) -> None:
    """Take back what was said of two resources. Raises NotAllowed."""
    require(actor.user, Act.RESOURCE_EDIT)
    with transaction.atomic():
        resource, other = declared.resource, declared.other
        declared.delete()
        detail = {"other": str(other)}
        record(act="overlap.withdrawn", actor=actor, subject=resource, host=resource.host, detail=detail)


def overlaps_lease(measure_id: int) -> str:
    """The name of the lease under which a measuring runs."""
    return f"overlaps:{measure_id}"


def overlaps_sweep() -> list[int]:
    """Measurings that nobody works on although they were asked for."""
    waiting = OverlapMeasure.objects.filter(finished_at__isnull=True, problem="").values_list("pk", flat=True)
    return [pk for pk in waiting if lease_is_free(name=overlaps_lease(pk))]


def overlaps_run(measure_id: int) -> None:
    """Measure every resource's listing against every other's. May run twice; one of them works."""
    row = OverlapMeasure.objects.filter(pk=measure_id, finished_at__isnull=True, problem="").first()
    held = lease_acquire(name=overlaps_lease(measure_id)) if row is not None else None
    if row is None or held is None:
        return
    try:
        resources = list(Resource.objects.select_related("host").order_by("pk"))
        listings = [(resource, scan) for resource in resources if (scan := listing_of(resource)) is not None]
        alive = _Alive(held)
        looked: dict[int, list[Archive]] = {}
        sets = ((resource.pk, _files(scan, looked)) for resource, scan in listings)
        found = measure(sets, keep_alive=alive)
        _store(row, held, listings, found, {key: len(archives) for key, archives in looked.items()})
    except LeaseTaken as taken:
        logger.info("%s", taken)
    except _Stopped:
        logger.info("%s was stopped with its worker; it begins again by the sweep", row)
    except Exception:
        logger.exception("%s failed by a fault of the program", row)
        problem = _(
            "The measuring ended by a fault of this program. The former one is kept. The worker's log says where."
        )
        OverlapMeasure.objects.filter(pk=row.pk).update(problem=problem)
    finally:
        lease_release(held)


class _Alive:
    """Keeps the lease every other second."""

    def __init__(self, held: Held) -> None:
        self._held, self._beaten = held, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._beaten < _BEAT_SECONDS:
            return
        self._beaten = time.monotonic()
        if lease_beat(self._held):
            raise _Stopped


def _files(scan: Scan, known: dict[int, list[Archive]]) -> Iterator[OneFile]:
    """A listing's files; what lies inside an archive that was looked into stands for it, and `known` tells of it."""
    own = scan.root.base  # of a resource that is one file
    looked = known[scan.pk] = [one for one in archives_of(scan) if one.is_whole]
    instead = {name for one in looked if not one.is_layout for name in (one.parts or (one.name,))}
    layouts = tuple(one.name + b"/" if one.name else b"" for one in looked if one.is_layout)
    rows = scan.entries.filter(kind="file").order_by()
    for name, size, sha256, device, inode in rows_raw(rows, "name", "size_bytes", "sha256", "device", "inode"):
        if looked and (name in instead or (layouts and name.startswith(layouts))):
            continue  # what lies inside stands for it
        yield OneFile(name.rpartition(b"/")[2] or own, size, sha256, (device, inode) if inode else None)
    for one in looked:
        for inner in inside_files(one.found) if one.found is not None else ():
            yield OneFile(inner.name.rpartition(b"/")[2], inner.size_bytes, bytes.fromhex(inner.sha256))


def _store(
    row: OverlapMeasure,
    held: Held,
    listings: list[tuple[Resource, Scan]],
    found: Overlaps,
    archives: dict[int, int],
) -> None:
    by_id = {resource.pk: resource for resource, _scan in listings}
    sets, pairs = [], []
    for resource, scan in listings:
        sums, within = found.sums[resource.pk], found.pairs.get((resource.pk, resource.pk))
        sets.append(
            OverlapSet(
                measure=row,
                resource=resource,
                scan=scan,
                files=sums.files,
                size_bytes=sums.size_bytes,
                digested_bytes=sums.digested_bytes,
                copies_files=within.files if within else 0,
                copies_bytes=within.size_bytes if within else 0,
                archives=archives.get(scan.pk, 0),
            )
        )
    for (one, other), shared in found.pairs.items():
        if one != other:
            pairs.append(
                Overlap(
                    measure=row,
                    resource_id=one,
                    other_id=other,
                    files=shared.files,
                    size_bytes=shared.size_bytes,
                    maybe_files=shared.maybe_files,
                    maybe_bytes=shared.maybe_bytes,
                    is_nested=_is_nested(by_id[one], by_id[other]),
                )
            )
    with transaction.atomic():
        lease_hold(held)
        OverlapSet.objects.bulk_create(sets)
        Overlap.objects.bulk_create(pairs, batch_size=1000)
        OverlapMeasure.objects.filter(pk=row.pk).update(finished_at=timezone.now())
        kept = OverlapMeasure.objects.order_by("-requested_at", "-pk").values_list("pk", flat=True)[:KEPT_MEASURES]
        OverlapMeasure.objects.exclude(pk__in=list(kept)).delete()
        record(act="overlaps.measured", actor=SYSTEM, subject=row, detail={"resources": len(sets), "pairs": len(pairs)})


def _is_nested(one: Resource, other: Resource) -> bool:
    if one.host_id != other.host_id or not one.path.raw or not other.path.raw:
        return False
    return one.path.is_below(other.path) or other.path.is_below(one.path)
