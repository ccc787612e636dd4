"""A snapshot as something to fetch: its files are written into our staging on the host and become a resource there.

So it goes the way of everything else: listed, packed, proven against digests taken at the source, and reported.
"""

from __future__ import annotations

import logging
from contextlib import closing
from datetime import timedelta

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
from inventory.connect import installation_marker, open_remote
from inventory.manifests.sums import line_of
from inventory.models import Host, Resource, ResourceKind, ScanState, SizeBasis, Snapshot, Tier
from inventory.remote.base import Remote, RemoteError, TransientError
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote
from inventory.remote.staging import ensure_staging
from inventory.services.errors import ValueWrong
from inventory.services.resources import next_position
from inventory.services.scans import scan_request
from inventory.snapshot import OFFERED_FOLDER

RESOURCE_NAME = "environment listing"
_MESSAGE_SECONDS = 10.0
_RETRY_SECONDS = 60.0

logger = logging.getLogger(__name__)


def snapshot_offer(*, snapshot: Snapshot, actor: Actor) -> Resource:
    """Make a resource of a finished snapshot; the caller sends `tasks.offer_snapshot`, which writes its files.

    The host's resource “environment listing” is taken when it has no place yet or is one of ours; else another is made.
    Raises NotAllowed, ValueWrong.
    """
    require(actor.user, Act.RESOURCE_EDIT)
    require(actor.user, Act.SCAN)
    if snapshot.state != ScanState.FINISHED:
        raise ValueWrong("snapshot", _("This snapshot did not finish, so there is nothing to offer. Take another one."))
    host = snapshot.host
    place = offered_place(host, snapshot)
    with transaction.atomic():
        row = Snapshot.objects.select_for_update().get(pk=snapshot.pk)
        if row.resource is not None:
            return row.resource
        resource = _free_resource(host) or _new_resource(host)
        resource.path, resource.size_basis = place, SizeBasis.DECLARED
        resource.size_bytes = sum(size for size in row.files.values_list("size_bytes", flat=True))
        resource.save()
        asked = {"resource": resource, "offered_by": actor.user, "offered_at": timezone.now(), "offer_problem": ""}
        Snapshot.objects.filter(pk=row.pk).update(**asked)
        record(act="snapshot.offered", actor=actor, subject=row, host=host, detail={"resource": resource.name})
    return resource


def _new_resource(host: Host) -> Resource:
    tier = Tier.objects.order_by("position").first()
    return Resource(
        host=host,
        name=_free_name(host),
        kind=ResourceKind.FOLDER,
        tier=tier,
        position=next_position(host, tier),
        value=_("PCI devices, drivers, kernel, processors, packages, containers, state of source trees"),
    )


def offered_place(host: Host, snapshot: Snapshot) -> RemoteName:
    """Where a snapshot's files are written on its host."""
    return host.staging_path.join(OFFERED_FOLDER, b"%d" % snapshot.pk)


def _free_resource(host: Host) -> Resource | None:
    found = Resource.objects.filter(host=host, name=RESOURCE_NAME).first()
    ours = host.staging_path.join(OFFERED_FOLDER)
    return found if found is not None and (not found.path.raw or found.path.is_below(ours)) else None


def _free_name(host: Host) -> str:
    names = set(Resource.objects.filter(host=host).values_list("name", flat=True))
    number, name = 1, RESOURCE_NAME
    while name in names:
        number, name = number + 1, f"{RESOURCE_NAME} {number + 1}"
    return name


def offer_lease(snapshot_id: int) -> str:
    """The name of the lease under which a snapshot's files are written."""
    return f"snapshot-offer:{snapshot_id}"


def offers_sweep() -> list[int]:
    """Snapshots whose files are to be written and that nobody writes; what failed is tried again after a minute."""
    now = timezone.now()
    waiting = Snapshot.objects.filter(offered_at__lt=now - timedelta(seconds=_MESSAGE_SECONDS), written_at=None)
    late = now - timedelta(seconds=_RETRY_SECONDS)
    due = waiting.filter(offer_problem="") | waiting.filter(offered_at__lt=late).exclude(offer_problem="")
    return [pk for pk in due.values_list("pk", flat=True) if lease_is_free(name=offer_lease(pk))]


def offer_run(snapshot_id: int) -> None:
    """Write a snapshot's files on the host, then have them listed. May run twice."""
    rows = Snapshot.objects.select_related("host", "resource", "offered_by")
    row = rows.filter(pk=snapshot_id, offered_at__isnull=False, written_at=None, resource__isnull=False).first()
    held = lease_acquire(name=offer_lease(snapshot_id)) if row is not None else None
    if row is None or held is None:
        return
    try:
        row.refresh_from_db(fields=["written_at"])
        if row.written_at is None:
            _run(row, held)
    except LeaseTaken as taken:
        logger.info("%s", taken)
    finally:
        lease_release(held)


def _run(row: Snapshot, held: Held) -> None:
    try:
        with closing(open_remote(row.host)) as remote:
            if not _write(remote, row, held):
                return
    except RemoteError as error:
        # A host that is away is waited for; the rest needs a person, who sees the sentence until it is tried again.
        with transaction.atomic():
            lease_hold(held)
            Snapshot.objects.filter(pk=row.pk).update(offer_problem=str(error), offered_at=timezone.now())
            if not isinstance(error, TransientError):
                detail = {"problem": str(error)}
                record(act="snapshot.offer_failed", actor=SYSTEM, subject=row, host=row.host, detail=detail)
        return
    with transaction.atomic():
        lease_hold(held)
        Snapshot.objects.filter(pk=row.pk).update(written_at=timezone.now(), offer_problem="")
        record(act="snapshot.written", actor=SYSTEM, subject=row, host=row.host)
    if row.resource is not None and row.offered_by is not None:
        scan_request(resource=row.resource, actor=Actor.of(row.offered_by))


def _write(remote: Remote, row: Snapshot, held: Held) -> bool:
    """Write every file; False when the worker is being shut down."""
    place = offered_place(row.host, row)
    ensure_staging(remote, row.host.staging_path, installation_marker())
    remote.check(b"umask 077; mkdir -p -- %b\n" % quote(place.raw), step=f"make {place}")
    sums = b""
    for file in row.files.order_by("name"):
        if lease_beat(held):
            return False
        remote.write_file(place.join(file.name.encode()), [file.raw])
        sums += line_of(file.sha256, file.name.encode())
    remote.write_file(place.join(b"SHA256SUMS"), [sums])
    return True
