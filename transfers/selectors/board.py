"""Packs as they stand, in execution order: state and bytes, with room for the times of a forecast."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, Q, QuerySet

from inventory.models import Host
from transfers.forecast.simulate import Outlook, Times
from transfers.models import Build, BuildState, Chunk, Item, Mode, Pack, Plan, RevisionState
from transfers.selectors.awaiting import carriers_in, list_of_merged, usable_names
from transfers.selectors.goodput import Pace, pace_of
from transfers.selectors.paces import HostPaces
from transfers.selectors.samples import sample_shares
from transfers.selectors.specs import build_key

USABLE = frozenset({BuildState.OPENED, BuildState.PERMITTED, BuildState.CLEARED})
HOME = frozenset({BuildState.RECEIVED, BuildState.VERIFIED, *USABLE})  # every byte is here
MOVING = frozenset(
    {BuildState.PLANNED, BuildState.PACKING, BuildState.PACKED, BuildState.FETCHING, BuildState.RECEIVED}
)


@dataclass(frozen=True, slots=True)
class PackRow:
    """One pack with its newest build. Sizes in bytes; None where nobody knows yet.

    `times` are those until the pack is usable, in the order of the board; None before they are forecast (see
    `transfers.selectors.forecast`), when nothing is known to forecast from, or when the pack does not run.
    """

    pack: Pack
    build: Build | None
    item: Item | None  # in the revision in force
    opened: Build | None  # the newest build that is usable
    total_bytes: int | None
    is_before_packing: bool  # total_bytes is that of the members, before packing
    received_bytes: int
    left_bytes: int | None  # about, while `packed_about` is told of a pack that is not packed yet
    rate_bytes_per_second: float | None
    proven_chunks: int
    chunk_count: int
    times: Times | None = None
    resources: tuple[str, ...] = ()  # names, of the item in force
    listed_bytes: int | None = None  # of the members, before packing
    packed_about: int | None = None  # what a sample says that they come to; None when no sample was taken
    carriers: tuple[str, ...] = ()  # packs that it leaves files to
    awaited: tuple[str, ...] = ()  # of these, those that are not usable yet
    saved_bytes: int = 0  # of what it leaves to others

    @property
    def state(self) -> str:
        """The build's state, or why there is no build."""
        if self.build is not None:
            return self.build.state
        return "planned" if self.item is not None else "draft"

    @property
    def is_home(self) -> bool:
        return self.build is not None and self.build.state in HOME

    @property
    def is_waiting(self) -> bool:
        """True while an operator's hold or pause keeps the pack from moving."""
        return (self.pack.on_hold or self.pack.is_paused) and not self.is_home

    @property
    def is_stopped(self) -> bool:
        """True while nothing of the pack moves before a person does something."""
        return self.is_waiting or self.state in (BuildState.FAILED, BuildState.NEEDS_DECISION)

    @property
    def is_moving(self) -> bool:
        """True while figures may change by themselves."""
        return self.build is not None and self.build.state in MOVING and not self.is_waiting


@dataclass(frozen=True, slots=True)
class Board:
    """A host's packs in execution order, and its pace."""

    plan: Plan
    host: Host
    pace: Pace
    rows: tuple[PackRow, ...]
    paces: HostPaces | None = None  # what `outlook` was drawn from; both None before it is forecast
    outlook: Outlook | None = None

    @property
    def is_moving(self) -> bool:
        return self.pace.is_running or any(row.is_moving for row in self.rows)

    @property
    def running(self) -> tuple[PackRow, ...]:
        """Packs that are not wholly proven here yet and that nothing keeps from moving."""
        return tuple(row for row in self.rows if row.item is not None and not row.is_home and not row.is_waiting)

    @property
    def left_bytes(self) -> int | None:
        """Bytes of `running` that are still to come; None when a size is not known."""
        sizes = [row.left_bytes for row in self.running if not row.is_stopped]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def left_seconds(self) -> float | None:
        rate, left = self.pace.mean_bytes_per_second, self.left_bytes
        return left / rate if rate and left else None

    @property
    def total_bytes(self) -> int:
        """Bytes of everything planned, as far as sizes are known."""
        return sum(row.total_bytes or 0 for row in self.rows if row.item is not None)

    @property
    def home_bytes(self) -> int:
        return sum(row.received_bytes for row in self.rows if row.item is not None)


def builds_for_pages() -> QuerySet[Build, Build]:
    """Builds without the content of their lists, which can be many megabytes."""
    return Build.objects.select_related(
        "pack__plan__host", "entry_list", "member_list", "landing", "deviations_accepted_by", "item__revision"
    ).defer("entry_list__content", "member_list__content")


def items_for_pages() -> QuerySet[Item, Item]:
    """Items without the content of their lists."""
    lists = ("entry_list", "satisfied_list", "here_list")
    rows = Item.objects.select_related("pack", "revision", *lists)
    return rows.defer(*(f"{name}__content" for name in lists))


def boards() -> tuple[Board, ...]:
    """One board for each host with a plan, by the hosts' names."""
    plans = Plan.objects.select_related("host").order_by("host__name")
    return tuple(board_of(plan) for plan in plans)


def board_of(plan: Plan) -> Board:
    """A plan's packs in execution order. A handful of queries, whatever the number of packs."""
    packs = list(plan.packs.order_by("position", "name"))
    builds = _builds_by_pack(packs)
    in_force = {
        item.pack_id: item
        for item in items_for_pages().filter(revision__plan=plan, revision__state=RevisionState.APPROVED)
    }
    pace = pace_of(plan.host)
    current = {pack_id: found[0] for pack_id, found in builds.items()}
    chunks = _chunk_counts(build.pk for build in current.values())
    names = frozenset(item.pack.name for item in in_force.values())
    rows = [_row(pack, builds[pack.pk], in_force.get(pack.pk), pace, chunks, names) for pack in packs]
    return Board(plan, plan.host, pace, tuple(_with_others(_with_content(rows))))


def _with_content(rows: Sequence[PackRow]) -> list[PackRow]:
    """Rows with the resources of their items, and with what samples say of their size after packing."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    links = Item.resources.through.objects.filter(item__in=[row.item.pk for row in rows if row.item is not None])
    for item_id, name in links.order_by("resource__name").values_list("item_id", "resource__name"):
        names[item_id].append(name)
    lists = {key: row.item.entry_list for key, row in enumerate(rows) if row.item is not None and row.item.entry_list}
    shares = sample_shares(one.pk for one in lists.values())
    found = []
    for key, row in enumerate(rows):
        listed = lists.get(key)
        share = shares.get(listed.pk) if listed is not None and row.item and row.item.mode == Mode.ARCHIVE else None
        about = None if share is None or listed is None else int(listed.total_bytes * share)
        found.append(
            replace(
                row,
                resources=tuple(names[row.item.pk]) if row.item is not None else (),
                listed_bytes=listed.total_bytes if listed is not None else None,
                packed_about=about,
                left_bytes=about if about is not None and row.is_before_packing else row.left_bytes,
            )
        )
    return found


def _with_others(rows: Sequence[PackRow]) -> list[PackRow]:
    """Rows that know whom they leave files to: they are usable when those are."""
    carriers = {
        row.pack.name: carriers_in(row.pack.name, row.item.carriers)
        for row in rows
        if row.item is not None and row.item.satisfied_list_id is not None
    }
    if not carriers:
        return list(rows)
    usable = usable_names([row.pack.name for row in rows if row.opened is not None], carriers)
    return [
        replace(
            row,
            opened=row.opened if row.pack.name in usable else None,
            carriers=carriers[row.pack.name],
            awaited=tuple(name for name in carriers[row.pack.name] if name not in usable),
            saved_bytes=sum(one["bytes"] for one in row.item.carriers) if row.item is not None else 0,
        )
        if row.pack.name in carriers
        else row
        for row in rows
    ]


def _builds_by_pack(packs: Iterable[Pack]) -> Mapping[int, list[Build]]:
    found: defaultdict[int, list[Build]] = defaultdict(list)
    rows = builds_for_pages().filter(pack__in=list(packs)).exclude(state=BuildState.REPLACED).order_by("-number")
    for build in rows:
        found[build.pack_id].append(build)
    return found


def _chunk_counts(build_ids: Iterable[int]) -> Mapping[int, tuple[int, int]]:
    counted = (
        Chunk.objects.filter(build_id__in=list(build_ids))
        .values("build_id")
        .annotate(count=Count("pk"), proven=Count("pk", filter=Q(proven_at__isnull=False)))
        .values_list("build_id", "proven", "count")
    )
    return {build_id: (proven, count) for build_id, proven, count in counted}


def _row(
    pack: Pack,
    builds: list[Build],
    item: Item | None,
    pace: Pace,
    chunks: Mapping[int, tuple[int, int]],
    in_force: frozenset[str],
) -> PackRow:
    build = builds[0] if builds else None
    needed = list_of_merged(item.came_of, in_force, item.entry_list_id) if item is not None else None
    total, is_before_packing = _total(build, item)
    received = 0 if build is None else build.received_bytes
    if build is not None and build.state in HOME:
        received = total or received
    proven, count = chunks.get(build.pk, (0, 0)) if build is not None else (0, 0)
    return PackRow(
        pack=pack,
        build=build,
        item=item,
        opened=next(
            (row for row in builds if row.state in USABLE and needed in (None, row.entry_list_id)),
            None,
        ),
        total_bytes=total,
        is_before_packing=is_before_packing,
        received_bytes=received,
        left_bytes=None if total is None else max(total - received, 0),
        rate_bytes_per_second=_rate(build, pace),
        proven_chunks=proven,
        chunk_count=count,
    )


def _total(build: Build | None, item: Item | None) -> tuple[int | None, bool]:
    """(size in bytes, whether it is that of the members before packing)."""
    if build is not None and build.size_bytes is not None:
        return build.size_bytes, False
    entry_list = build.entry_list if build is not None else item.entry_list if item is not None else None
    return (None, False) if entry_list is None else (entry_list.total_bytes, True)


def _rate(build: Build | None, pace: Pace) -> float | None:
    lanes: list[dict[str, Any]] = pace.status.lanes if pace.status is not None and pace.is_running else []
    rates = [
        float(lane.get("rate_bytes_per_second") or 0)
        for lane in lanes
        if build is not None and lane.get("build_key") == build_key(build)
    ]
    return sum(rates) if rates else None
