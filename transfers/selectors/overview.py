"""What the first page asks: what is usable, what waits for a person, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from calculet.people.models import Person
from inventory.models import Host, HostKey, Proposal, ProposalState, Resource
from transfers.forecast.simulate import Times
from transfers.models import (
    Build,
    BuildState,
    Capability,
    Pack,
    Revision,
    RevisionState,
    Unpack,
    UnpackState,
)
from transfers.selectors.allowance import is_quiet
from transfers.selectors.board import Board, PackRow, builds_for_pages


@dataclass(frozen=True, slots=True)
class Need:
    """One group of a capability's needs: any one of its packs will do."""

    rows: tuple[PackRow, ...]

    @property
    def is_met(self) -> bool:
        return any(row.opened is not None for row in self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(row.pack.name for row in self.rows)

    @property
    def nearest(self) -> PackRow | None:
        """The pack of the group that needs the fewest bytes yet; unknown sizes come last."""
        known = [row for row in self.rows if row.left_bytes is not None]
        return min(known, key=lambda row: row.left_bytes or 0) if known else next(iter(self.rows), None)


@dataclass(frozen=True, slots=True)
class CapabilityState:
    """A capability and the evidence for it. Usable: in each group at least one pack is opened."""

    capability: Capability
    host: Host
    needs: tuple[Need, ...]
    times: Times | None = None  # from `forecast_at` until it is usable; None when that cannot be said
    forecast_at: datetime | None = None

    @property
    def missing(self) -> tuple[Need, ...]:
        return tuple(need for need in self.needs if not need.is_met)

    @property
    def is_usable(self) -> bool:
        return bool(self.needs) and not self.missing

    @property
    def since(self) -> datetime | None:
        """When the last group was met by its first pack."""
        firsts = []
        for need in self.needs:
            times = [row.opened.opened_at for row in need.rows if row.opened is not None and row.opened.opened_at]
            if not times:
                return None
            firsts.append(min(times))
        return max(firsts, default=None)

    @property
    def left_bytes(self) -> int | None:
        """Bytes to come for the nearest pack of each missing group; None when one is not known."""
        sizes = [need.nearest.left_bytes if need.nearest is not None else None for need in self.missing]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def has_begun(self) -> bool:
        return any(need.is_met or any(row.received_bytes for row in need.rows) for need in self.needs)

    @property
    def is_stopped(self) -> bool:
        """True when a missing group has nothing but packs on hold, paused, or waiting for a decision."""
        return any(need.rows and all(row.is_stopped for row in need.rows) for need in self.missing)


def capability_states(boards: Sequence[Board]) -> tuple[CapabilityState, ...]:
    """Every capability of the boards' plans, with the packs that it needs."""
    rows = {row.pack.pk: row for board in boards for row in board.rows}
    by_plan = {board.plan.pk: board for board in boards}
    capabilities = Capability.objects.filter(plan__in=by_plan).prefetch_related("needs").order_by("position", "name")
    return tuple(
        CapabilityState(
            capability,
            by_plan[capability.plan_id].host,
            _needs(capability, rows),
            *_forecast(capability, by_plan[capability.plan_id]),
        )
        for capability in capabilities
    )


def _forecast(capability: Capability, board: Board) -> tuple[Times | None, datetime | None]:
    times = board.outlook.needs.get(capability.name) if board.outlook is not None else None
    return times, board.paces.at if board.paces is not None else None


def _needs(capability: Capability, rows: Mapping[int, PackRow]) -> tuple[Need, ...]:
    groups: dict[int, list[PackRow]] = {}
    for need in capability.needs.all():
        group = groups.setdefault(need.group, [])
        if need.pack_id in rows:
            group.append(rows[need.pack_id])
    return tuple(Need(tuple(group)) for _number, group in sorted(groups.items()))


def revisions_proposed() -> QuerySet[Revision, Revision]:
    """Plans that wait for approval, oldest first."""
    return (
        Revision.objects.filter(state=RevisionState.PROPOSED)
        .select_related("plan__host", "author")
        .order_by("proposed_at")
    )


def revisions_declined_of(person: Person) -> list[Revision]:
    """The person's own revisions that were declined and that no newer revision has answered yet."""
    newest: dict[int, Revision] = {}
    for revision in Revision.objects.select_related("plan__host", "author").order_by("number"):
        newest[revision.plan_id] = revision
    return [row for row in newest.values() if row.state == RevisionState.DECLINED and row.author_id == person.pk]


def tier_proposals_open() -> QuerySet[Proposal, Proposal]:
    """Changes of tiers and resources that wait for approval, oldest first."""
    return Proposal.objects.filter(state=ProposalState.PROPOSED).select_related("host", "author").order_by("created_at")


def builds_in(*states: BuildState) -> QuerySet[Build, Build]:
    """Builds in any of the states, by host and pack."""
    return builds_for_pages().filter(state__in=states).order_by("pack__plan__host__name", "pack__position", "pk")


def builds_struggling() -> QuerySet[Build, Build]:
    """Builds that still work but whose last attempt ended with a sentence."""
    working = [BuildState.PLANNED, BuildState.PACKING, BuildState.PACKED, BuildState.FETCHING]
    done = [BuildState.RECEIVED, BuildState.VERIFIED]
    return builds_in(*working, *done).exclude(problem="")


def unpacks_failed() -> QuerySet[Unpack, Unpack]:
    """Unpacks that ended with a fault and that no later one of the same build has answered."""
    later = Unpack.objects.filter(build=OuterRef("build"), pk__gt=OuterRef("pk"))
    return (
        Unpack.objects.filter(state=UnpackState.FAILED).exclude(Exists(later)).select_related("build__pack__plan__host")
    )


def packs_on_hold() -> QuerySet[Pack, Pack]:
    """Packs that wait for a person's word."""
    return (
        Pack.objects.filter(on_hold=True).select_related("plan__host").order_by("plan__host__name", "position", "name")
    )


def hosts_without_key() -> QuerySet[Host, Host]:
    """Hosts that have no pinned key in force, so that nothing connects to them."""
    pinned = HostKey.objects.filter(channel__host=OuterRef("pk"), retired_at__isnull=True)
    return Host.objects.exclude(Exists(pinned)).order_by("name")


def hosts_with_problem() -> QuerySet[Host, Host]:
    """Hosts whose last work was stopped by something."""
    return Host.objects.exclude(problem="").order_by("name")


def resources_stale() -> QuerySet[Resource, Resource]:
    """Resources that changed on the host since they were verified here."""
    return Resource.objects.filter(stale_since__isnull=False).select_related("host").order_by("host__name", "name")


def boards_silent(boards: Iterable[Board]) -> list[Board]:
    """Boards with a pack in the state fetching whose link has not been heard of lately, though it may transfer."""
    return [
        board
        for board in boards
        if not board.pace.is_running
        and not is_quiet(board.host)
        and any(row.state == BuildState.FETCHING and not row.is_waiting for row in board.rows)
    ]
