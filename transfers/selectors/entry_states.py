"""From which lists the states of a listing's entries are reckoned, and which listings are due for it."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Any

from django.db.models import Count, OuterRef, Subquery

from inventory.models import EntryStates, Resource, Scan, ScanState
from inventory.remote.names import RemoteName
from transfers.engine.types import Member
from transfers.entry_states import Carried
from transfers.models import Build, BuildState, EntryList, Item, Mode, RevisionState
from transfers.selectors.lists import members_stream

PLANNING = (RevisionState.DRAFT, RevisionState.PROPOSED, RevisionState.APPROVED)
PROVEN = (BuildState.VERIFIED, BuildState.OPENED, BuildState.PERMITTED, BuildState.CLEARED)


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """One list that tells states. `what`: planned, verified, or satisfied (left to other packs, by digest)."""

    list_id: int
    what: str
    is_in_parts: bool = False  # then its order is that of the parts, not that of names


@dataclass(slots=True)
class Basis:
    """What the states of one listing are reckoned from."""

    scan_id: int
    sources: set[Source] = field(default_factory=set)
    inside: list[tuple[int, bytes]] = field(default_factory=list)  # resources inside it, with their paths
    digest_runs: int = 0  # that brought digests to its entries

    @property
    def key(self) -> str:
        """The same for the same basis."""
        told = (self.scan_id, sorted(self.sources), sorted(self.inside), self.digest_runs)
        return hashlib.sha256(repr(told).encode()).hexdigest()


def bases() -> list[Basis]:
    """The basis of each resource's best listing, in a handful of queries for all of them."""
    resources = _listed_resources()
    paths = dict(Resource.objects.values_list("pk", "path"))
    by_host: dict[int, list[tuple[Source, frozenset[int]]]] = defaultdict(list)
    for host_id, source, about in _sources():
        by_host[host_id].append((source, about))
    named = list(Resource.objects.exclude(path=b"").values_list("host_id", "pk", "path"))
    found = []
    for one in resources:
        basis = Basis(one.scan_id, digest_runs=one.runs)
        for host_id, pk, path in named:
            if host_id == one.host_id and pk != one.pk and path != one.path and path.is_below(one.path):
                basis.inside.append((pk, path.raw))
        for source, about in by_host[one.host_id]:
            if any(_is_near(paths.get(pk), one.path) for pk in about):
                basis.sources.add(source)
        found.append(basis)
    return found


def basis_of(scan_id: int) -> Basis | None:
    """The basis of one listing; None when it is not, or no longer, the best one of its resource."""
    return next((basis for basis in bases() if basis.scan_id == scan_id), None)


def scans_to_reckon() -> list[int]:
    """Listings whose states were never reckoned, or from something else than what is there now."""
    known = dict(EntryStates.objects.values_list("scan_id", "basis"))
    return [basis.scan_id for basis in bases() if known.get(basis.scan_id) != basis.key]


def carried_by(basis: Basis) -> Iterator[Carried]:
    """Members of all lists of a basis, in the order of their keys. Raises ValueError for a damaged list."""
    lists = EntryList.objects.in_bulk([source.list_id for source in basis.sources])
    wanted = {
        member.sha256
        for source in basis.sources
        if source.what == "satisfied"
        for member in members_stream(lists[source.list_id])
        if member.sha256 is not None
    }
    here = {
        member.sha256
        for source in basis.sources
        if wanted and source.what == "verified"
        for member in members_stream(lists[source.list_id])
        if member.sha256 in wanted
    }
    streams = []
    for source in sorted(basis.sources):
        members: Iterable[Member] = members_stream(lists[source.list_id])
        streams.append(_in_order(_carried(members, source.what, here), source))
    return merge(*streams, key=lambda member: member.key)


def _carried(members: Iterable[Member], what: str, here: Container[bytes]) -> Iterator[Carried]:
    for member in members:
        is_link = member.kind == "link"
        yield Carried(
            member.name.replace(b"/", b"\0"),
            member.kind,
            member.size_bytes,
            member.mtime_ns,
            member.sha256,
            member.link_target if is_link else b"",
            what == "verified" or (what == "satisfied" and member.sha256 is not None and member.sha256 in here),
        )


def _in_order(members: Iterator[Carried], source: Source) -> Iterator[Carried]:
    """Raises ValueError for a list that is not in the order of names: then nothing can be told by going along it."""
    if source.is_in_parts:
        yield from sorted(members, key=lambda member: member.key)
        return
    former = b""
    for member in members:
        if member.key < former:
            raise ValueError(f"List {source.list_id} is not in the order of names.")
        former = member.key
        yield member


def _listed_resources() -> list[Any]:
    """Resources with a listing: `scan_id` is that of their best one, `runs` how often digests were taken since."""
    listings = Scan.objects.filter(resource=OuterRef("pk")).order_by("-finished_at", "-pk").values("pk")
    own = Subquery(listings.filter(state=ScanState.FINISHED)[:1])
    had = Subquery(listings.filter(state=ScanState.IMPORTED)[:1])
    rows = Resource.objects.only("path", "host_id").annotate(scanned_id=own, imported_id=had)
    rows = rows.annotate(runs=Count("digest_runs__finished_at"))
    found: list[Any] = list(rows)
    for one in found:
        one.scan_id = one.scanned_id or one.imported_id
    return [one for one in found if one.scan_id]


def _sources() -> Iterator[tuple[int, Source, frozenset[int]]]:
    """Every list that tells states: its host, what it is, and the resources that it is about."""
    items = Item.objects.filter(revision__state__in=PLANNING, entry_list__isnull=False)
    about = _resources_of_items()
    columns = ("pk", "revision__plan__host_id", "mode", "entry_list_id", "satisfied_list_id")
    for pk, host_id, mode, list_id, satisfied_id in items.values_list(*columns):
        yield host_id, Source(list_id, "planned", mode == Mode.PARTS), about[pk]
        if satisfied_id is not None:
            yield host_id, Source(satisfied_id, "planned"), about[pk]
            yield host_id, Source(satisfied_id, "satisfied"), about[pk]
    builds = Build.objects.filter(state__in=PROVEN)
    proven = ("item_id", "pack__plan__host_id", "mode", "entry_list_id", "member_list_id", "item__satisfied_list_id")
    for pk, host_id, mode, list_id, member_id, satisfied_id in builds.values_list(*proven):
        yield host_id, Source(member_id or list_id, "verified", mode == Mode.PARTS), about[pk]
        if satisfied_id is not None:
            yield host_id, Source(satisfied_id, "satisfied"), about[pk]


def _resources_of_items() -> dict[int, frozenset[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for item_id, resource_id in Item.resources.through.objects.values_list("item_id", "resource_id"):
        found[item_id].add(resource_id)
    return defaultdict(frozenset, {key: frozenset(ids) for key, ids in found.items()})


def _is_near(one: RemoteName | None, other: RemoteName) -> bool:
    return one is not None and bool(one.raw) and (one.is_below(other) or other.is_below(one))
