"""Looking inside archives that are home: one that was opened is known file by file, like on its host."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Q

from calculet.audit.services import record
from calculet.leases.services import lease_hold, lease_is_free
from calculet.lifecycle import SYSTEM
from inventory.browsing import entry_find
from inventory.models import InsideArchive
from inventory.overlap.archives import Identity, is_archive_name, look_here
from inventory.overlap.inside import Record
from inventory.selectors import latest_scan
from inventory.services.insides import inside_keep
from transfers.engine.verify import Stopped
from transfers.models import Build, BuildState, Mode
from transfers.selectors.specs import landed_path
from transfers.services.builds import build_lease_name
from transfers.services.turns import BuildTurn, build_turn

_OPENED = (BuildState.OPENED, BuildState.PERMITTED, BuildState.CLEARED)
_IMAGES = ("archive", "image")


def insides_here_due() -> list[int]:
    """Builds of one archive that were opened and not looked into as a whole by anybody."""
    rows = Build.objects.filter(state__in=_OPENED, mode=Mode.EXISTING).exclude(sha256="")
    builds = {
        build.pk: bytes.fromhex(build.sha256)
        for build in rows.only("sha256", "archive_name", "item").prefetch_related("item__resources")
        if is_archive_name(build.archive_name.encode("utf-8", "surrogateescape"))
        or any(resource.kind in _IMAGES for resource in build.item.resources.all())
    }
    if not builds:
        return []
    rows_known = InsideArchive.objects.filter(Q(fault="") | Q(is_here=True), sha256__in=set(builds.values()))
    known = {bytes(digest) for digest in rows_known.values_list("sha256", flat=True) if digest is not None}
    return [key for key, digest in builds.items() if digest not in known and lease_is_free(name=build_lease_name(key))]


def inside_here_run(build_id: int) -> None:
    """Look inside a build's archive and keep what lies there as what lies in its source. Safe to run twice."""
    with build_turn(build_id, *_OPENED) as turn:
        if turn is None or turn.build.mode != Mode.EXISTING:
            return
        build = turn.build

        def noted(archive: InsideArchive) -> None:
            detail = {"files": archive.files, "bytes": archive.content_bytes, "fault": archive.fault}
            record(act="inside.read_here", actor=SYSTEM, subject=build, host=build.pack.plan.host, detail=detail)

        inside_keep(
            build.pack.plan.host,
            build.source_path,
            _records(turn),
            hold=lambda: lease_hold(turn.held),
            noted=noted,
            here=_source_of(build),
            digest=bytes.fromhex(build.sha256),
        )


def _source_of(build: Build) -> Identity:
    """The identity that the latest scan saw at the source, so that its entry is known; else one of its own."""
    size_bytes = build.size_bytes or 0
    for resource in build.item.resources.all():
        scan = latest_scan(resource)
        if scan is None or not (build.source_path == scan.root or build.source_path.is_below(scan.root)):
            continue
        entry = entry_find(scan, build.source_path.raw[len(scan.root.raw.rstrip(b"/")) :].strip(b"/"))
        if entry is not None and entry.size_bytes == size_bytes:
            return Identity(entry.device, entry.inode, size_bytes, entry.mtime_ns, entry.ctime_ns)
    return Identity(0, -build.pk, size_bytes, 0, 0)


def _records(turn: BuildTurn) -> Iterator[Record]:
    for found in look_here(landed_path(turn.build)):
        if turn.heart():
            raise Stopped
        yield found
