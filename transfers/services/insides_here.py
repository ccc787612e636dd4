"""Looking inside archives that are home: one that was opened is known file by file, like on its host.

So is one that came as a set of parts: only here are they joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db.models import Q

from calculet.audit.services import record
from calculet.leases.services import lease_hold, lease_is_free
from calculet.lifecycle import SYSTEM
from inventory.browsing import entry_find
from inventory.models import Entry, InsideArchive, Scan
from inventory.overlap.archives import Identity, is_archive_name, look_here
from inventory.overlap.inside import Record
from inventory.remote.names import RemoteName
from inventory.selectors import latest_scan
from inventory.services.insides import inside_keep
from transfers.engine.verify import Stopped
from transfers.models import Build, BuildState, Mode
from transfers.selectors.specs import landed_path, list_members
from transfers.services.builds import build_lease_name
from transfers.services.turns import BuildTurn, build_turn

_OPENED = (BuildState.OPENED, BuildState.PERMITTED, BuildState.CLEARED)
_IMAGES = ("archive", "image")
_WHOLE = (Mode.EXISTING, Mode.PARTS)  # what lands as one file that lay on the host


def insides_here_due() -> list[int]:
    """Builds of one archive that were opened and not looked into as a whole by anybody."""
    rows = Build.objects.filter(state__in=_OPENED, mode__in=_WHOLE).exclude(sha256="")
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
        if turn is None or turn.build.mode not in _WHOLE:
            return
        build = turn.build

        def noted(archive: InsideArchive) -> None:
            detail = {"files": archive.files, "bytes": archive.content_bytes, "fault": archive.fault}
            record(act="inside.read_here", actor=SYSTEM, subject=build, host=build.pack.plan.host, detail=detail)

        found = _sources_of(build)
        is_set = build.mode == Mode.PARTS
        inside_keep(
            build.pack.plan.host,
            found[0][0] if is_set and found else build.source_path,
            _records(turn),
            hold=lambda: lease_hold(turn.held),
            noted=noted,
            here=found[0][1] if found and not is_set else Identity(0, -build.pk, build.size_bytes or 0, 0, 0),
            digest=bytes.fromhex(build.sha256),
            parts=found if is_set else (),
        )


def _sources_of(build: Build) -> list[tuple[RemoteName, Identity]]:
    """The files on the host that were fetched, in their order, as the latest scan saw them; none when not all of them
    are there still as they were."""
    if build.mode == Mode.PARTS:
        wanted: list[tuple[RemoteName, int, int | None]] = [
            (RemoteName(b"/" + member.name), member.size_bytes, member.mtime_ns)
            for member in list_members(build.entry_list)
            if member.kind == "file"
        ]
    else:
        wanted = [(build.source_path, build.size_bytes or 0, None)]
    scans = [scan for resource in build.item.resources.all() if (scan := latest_scan(resource)) is not None]
    found = []
    for name, size_bytes, mtime_ns in wanted:
        entry = _entry_at(scans, name)
        if entry is None or entry.size_bytes != size_bytes or mtime_ns not in (None, entry.mtime_ns):
            return []
        identity = Identity(entry.device, entry.inode, size_bytes, entry.mtime_ns, entry.ctime_ns)
        found.append((name, identity))
    return found


def _entry_at(scans: Sequence[Scan], path: RemoteName) -> Entry | None:
    for scan in scans:
        if path == scan.root or path.is_below(scan.root):
            entry = entry_find(scan, path.raw[len(scan.root.raw.rstrip(b"/")) :].strip(b"/"))
            if entry is not None:
                return entry
    return None


def _records(turn: BuildTurn) -> Iterator[Record]:
    for found in look_here(landed_path(turn.build)):
        if turn.heart():
            raise Stopped
        yield found
