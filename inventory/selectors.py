"""All reads of the inventory: what pages show, and what other areas ask of it. Folders are read in `browsing`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.utils import timezone

from calculet.leases.models import Lease
from calculet.leases.services import LEASE_SILENCE_SECONDS
from inventory.drift import Seen
from inventory.manifests.lists import ListedEntry
from inventory.models import (
    DigestRun,
    Entry,
    Host,
    HostKey,
    ImportedList,
    ListedBy,
    ListState,
    Proposal,
    ProposalState,
    Resource,
    Scan,
    ScanState,
    SizeBasis,
    Tier,
)
from inventory.remote.probe import ProbeReport

SECOND_NS = 10**9
UNDER_WAY = (ScanState.QUEUED, ScanState.RUNNING)
KEY_FILES_AT_MOST = 200
PROBE_AWAITED_SECONDS = 60


def known_report(host: Host) -> ProbeReport | None:
    """What the last probe found; None when there was none, or only one of an older version of this program."""
    try:
        return ProbeReport.from_json(host.probe) if host.probe else None
    except TypeError:
        return None


def has_no_shell(host: Host) -> bool:
    """True when the last probe found that the account has SFTP only."""
    report = known_report(host)
    return report is not None and not report.has_shell


def latest_scan(resource: Resource) -> Scan | None:
    """The scan of a resource that finished last; None before the first."""
    return resource.scans.filter(state=ScanState.FINISHED).order_by("-finished_at", "-pk").first()


def listing_of(resource: Resource) -> Scan | None:
    """The best listing of a resource: its latest scan, else the latest list that somebody had."""
    found = latest_scan(resource)
    if found is not None:
        return found
    return resource.scans.filter(state=ScanState.IMPORTED).order_by("-finished_at", "-pk").first()


def scan_entries(scan: Scan) -> QuerySet[Entry]:
    """A scan's entries in the order of their names, part by part: a folder's content follows it directly."""
    return scan.entries.order_by("position")


def entries_seen(scan: Scan, *, beside: Scan | None = None) -> Iterator[Seen]:
    """A scan's entries in order, as comparisons with `beside` want them, in flat memory.

    What SFTP does not tell (when an inode was written, fractions of a second) is left out on both sides.
    """
    columns = ("name", "kind", "size_bytes", "mtime_ns", "ctime_ns", "sha256", "link_target", "inode")
    rows = scan_entries(scan).values_list(*columns).iterator(chunk_size=2000)
    is_ours = scan.state != ScanState.IMPORTED  # a list does not say when an inode was written, nor 0 for a time
    is_coarse = any(one.listed_by == ListedBy.SFTP for one in (scan, beside or scan))
    for name, kind, size, mtime, ctime, sha256, target, inode in rows:
        digest = None if sha256 is None else bytes(sha256)
        since: tuple[int | None, int | None] = (mtime, ctime) if is_ours else (mtime or None, None)
        if is_coarse:
            since = (mtime // SECOND_NS * SECOND_NS if is_ours else mtime or None, None)
        yield Seen(name.raw, kind, size, since[0], since[1], digest, target.raw, inode or None)


def entries_listed(scan: Scan) -> Iterator[ListedEntry]:
    """A scan's entries but its root, in order, as list formats write them, in flat memory."""
    columns = ("position", "name", "kind", "size_bytes", "mtime_ns", "sha256", "link_target")
    for position, name, kind, size, mtime, sha256, target in scan_entries(scan).values_list(*columns).iterator():
        digests = () if sha256 is None else (("sha256", bytes(sha256).hex()),)
        raw = name.raw or (scan.root.base if kind == Entry.Kind.FILE else b"")  # a resource that is one file
        if raw:
            held = size if kind == Entry.Kind.FILE else None
            yield ListedEntry(raw, position, kind, held, mtime, digests, target.raw)


def policy_of(resource: Resource) -> tuple[str, int]:
    """The policy that holds for a resource, its own or its host's, and the size in bytes from which on."""
    row: Resource | Host = resource if resource.digest_policy else resource.host
    return row.digest_policy, row.digest_over_bytes or 0


@dataclass(frozen=True, slots=True)
class DigestsShown:
    """Where a resource's digests stand: of the latest scan's files, and the run that was asked for last."""

    having: int
    lacking: int
    run: DigestRun | None

    @property
    def is_under_way(self) -> bool:
        return self.run is not None and self.run.state in UNDER_WAY


def digests_of(resource: Resource, scan: Scan | None) -> DigestsShown:
    """How far the digests of a resource's latest scan are taken."""
    run = resource.digest_runs.order_by("-requested_at", "-pk").first()
    if scan is None:
        return DigestsShown(0, 0, run)
    return DigestsShown(scan.digested, scan.files - scan.digested, run)


def lists_waiting(*, host: Host | None = None) -> QuerySet[ImportedList]:
    """Lists that were looked at and not decided, newest first."""
    rows = ImportedList.objects.filter(state=ListState.PREVIEWED).select_related("host", "created_by").defer("content")
    return (rows if host is None else rows.filter(host=host)).order_by("-created_at", "-pk")


def lists_of(resource: Resource) -> list[ImportedList]:
    """The lists that were imported for a resource, newest first."""
    rows = ImportedList.objects.filter(resource=resource, state=ListState.IMPORTED).select_related("scan", "created_by")
    return list(rows.defer("content").order_by("-decided_at", "-pk")[:20])


# -- the board of tiers and resources ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Sums:
    """Bytes by how far they can be trusted, never added to one another."""

    exact: int = 0
    declared: int = 0
    about: int = 0
    unknown: int = 0  # resources without a size

    def add(self, resource: Resource) -> None:
        """Count one resource."""
        if resource.size_bytes is None:
            self.unknown += 1
        else:
            setattr(self, resource.size_basis, getattr(self, resource.size_basis) + resource.size_bytes)

    def by_basis(self) -> list[tuple[str, int]]:
        """The sums that are not nothing, best basis first."""
        bases = (SizeBasis.EXACT, SizeBasis.DECLARED, SizeBasis.ABOUT)
        return [(str(basis.label), found) for basis in bases if (found := getattr(self, basis.value))]


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A resource with the scan that was asked for last."""

    resource: Resource
    scan: Scan | None

    @property
    def is_under_way(self) -> bool:
        return self.scan is not None and self.scan.state in UNDER_WAY


@dataclass(slots=True)
class BoardTier:
    """A tier's resources; `tier` is None for those that have none yet."""

    tier: Tier | None
    rows: list[BoardRow] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)


@dataclass(frozen=True, slots=True)
class Board:
    """Tiers with resources, in order of value."""

    tiers: list[BoardTier]
    sums: Sums

    @property
    def is_under_way(self) -> bool:
        """True while any of its resources is being scanned."""
        return any(row.is_under_way for tier in self.tiers for row in tier.rows)

    @property
    def count(self) -> int:
        return sum(len(tier.rows) for tier in self.tiers)


def board(*, host: Host | None = None) -> Board:
    """The tiers with their resources and last scans, of one host or of all. Tiers without a resource are left out."""
    rows = Resource.objects.select_related("host", "tier").order_by("tier__position", "host__name", "position", "name")
    if host is not None:
        rows = rows.filter(host=host)
    ours = Scan.objects.exclude(state=ScanState.IMPORTED)
    last = ours.filter(resource=OuterRef("pk")).order_by("-requested_at", "-pk").values("pk")[:1]
    resources = list(rows.annotate(last_scan_id=Subquery(last)))
    scans = Scan.objects.in_bulk([row.last_scan_id for row in resources if row.last_scan_id])
    groups: dict[int | None, BoardTier] = {}
    sums = Sums()
    for resource in resources:
        group = groups.setdefault(resource.tier_id, BoardTier(resource.tier))
        group.rows.append(BoardRow(resource, scans.get(resource.last_scan_id)))
        group.sums.add(resource)
        sums.add(resource)
    # Databases disagree on where NULL sorts; what has no tier comes last on every one.
    ordered = sorted(groups.values(), key=lambda group: (group.tier is None, group.tier.position if group.tier else 0))
    return Board(ordered, sums)


def scans_of(resource: Resource, *, limit: int = 20) -> list[Scan]:
    """A resource's scans, newest first."""
    ours = resource.scans.exclude(state=ScanState.IMPORTED)
    return list(ours.select_related("requested_by").order_by("-requested_at", "-pk")[:limit])


# -- hosts -------------------------------------------------------------------------------------------------------------


def hosts_shown() -> QuerySet[Host]:
    """Every host with its channels, and how many resources it has (`resource_count`)."""
    return Host.objects.prefetch_related("channels").annotate(resource_count=Count("resources")).order_by("name")


def keys_of(host: Host) -> list[HostKey]:
    """Every key that was pinned for a host's channels, the one in force first."""
    keys = HostKey.objects.filter(channel__host=host).select_related("pinned_by", "channel")
    return sorted(keys, key=lambda key: (key.retired_at is not None, -key.pinned_at.timestamp()))


def host_sums(host: Host) -> Sums:
    """What a host's resources come to, by basis."""
    sums = Sums()
    for resource in Resource.objects.filter(host=host).only("size_bytes", "size_basis"):
        sums.add(resource)
    return sums


def probe_is_awaited(host: Host, *, asked_at: datetime | None) -> bool:
    """True while a probe runs, or while one that was asked for at `asked_at` may still begin."""
    now = timezone.now()
    lease = Lease.objects.filter(name=f"probe:{host.pk}").first()
    beat = lease.heartbeat_at if lease is not None else None
    if lease is not None and lease.owner and beat is not None:
        return beat > now - timedelta(seconds=LEASE_SILENCE_SECONDS)
    if asked_at is None or not now - timedelta(seconds=PROBE_AWAITED_SECONDS) < asked_at <= now:
        return False
    return beat is None or beat < asked_at


def key_file_names() -> list[str]:
    """Names of the files in the key directory that may be private keys; empty when there is no such directory."""
    try:
        files = sorted(path for path in settings.KEY_DIR.rglob("*") if path.is_file() and path.suffix != ".pub")
    except OSError:
        return []
    return [path.relative_to(settings.KEY_DIR).as_posix() for path in files[:KEY_FILES_AT_MOST]]


# -- proposals ---------------------------------------------------------------------------------------------------------


def proposals_waiting(*, host: Host | None = None) -> QuerySet[Proposal]:
    """Proposals that nobody decided yet, oldest first."""
    rows = Proposal.objects.filter(state=ProposalState.PROPOSED).select_related("host", "author")
    return (rows if host is None else rows.filter(host=host)).order_by("created_at", "pk")


def proposals_decided() -> QuerySet[Proposal]:
    """Every proposal that was decided or withdrawn, the latest first: the history of the tiers."""
    rows = Proposal.objects.exclude(state__in=[ProposalState.DRAFT, ProposalState.PROPOSED]).select_related(
        "host", "author", "decided_by"
    )
    return rows.order_by("-decided_at", "-pk")


def resources_named(host: Host, names: Iterable[str]) -> dict[str, Resource]:
    """Some of a host's resources, by name."""
    rows = Resource.objects.filter(host=host, name__in=list(names)).select_related("tier")
    return {row.name: row for row in rows}


def tiers_at(positions: Iterable[int]) -> dict[int, Tier]:
    """Some tiers, by position."""
    return {tier.position: tier for tier in Tier.objects.filter(position__in=list(positions))}


def tier_positions() -> list[int]:
    """The positions of all tiers, in order."""
    return list(Tier.objects.order_by("position").values_list("position", flat=True))
