"""What a forecast asks of each pack, without whole rows: a board of a thousand packs is read in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transfers.forecast.simulate import Job
from transfers.models import Build, BuildState, Item, Mode, Plan, RevisionState
from transfers.selectors.awaiting import carriers_in, list_of_merged, usable_names
from transfers.selectors.board import HOME, USABLE, PackRow
from transfers.selectors.samples import shares_of_plan

_STOPPED = frozenset({BuildState.FAILED, BuildState.NEEDS_DECISION})


@dataclass(frozen=True, slots=True)
class Standing:
    """One pack as it stands. Sizes in bytes; `total_bytes` is None where nobody knows it yet."""

    key: int
    name: str
    mode: str
    state: str
    is_in_force: bool
    is_opened: bool
    is_paused: bool
    on_hold: bool
    waits_for_rest: bool  # the hold ends when everything else is opened
    total_bytes: int | None
    is_before_packing: bool
    received_bytes: int
    carriers: tuple[str, ...] = ()  # packs that it leaves files to: it is usable when they are
    packed_about: int | None = None  # what a sample says that it comes to

    @property
    def is_home(self) -> bool:
        """True when every byte is here."""
        return self.state in HOME

    @property
    def is_stopped(self) -> bool:
        """True while nothing of the pack moves before a person does something."""
        return ((self.on_hold or self.is_paused) and not self.is_home) or self.state in _STOPPED

    @property
    def runs_now(self) -> bool:
        """True when something of the pack is left to do and nothing keeps it from being done."""
        return self.is_in_force and not self.is_stopped and self.state not in USABLE

    @property
    def runs_last(self) -> bool:
        """True when the pack is on hold until everything else is opened, and nothing else keeps it."""
        is_bound = self.on_hold and self.waits_for_rest and not self.is_paused
        return is_bound and self.is_in_force and self.state not in _STOPPED and not self.is_home

    def job(self) -> Job:
        """What is left to do for the pack, whose size must be known."""
        assert self.total_bytes is not None
        total, received = float(self.total_bytes), float(self.received_bytes)
        if self.is_home:
            return Job(self.name, 0.0, proof_bytes=total if self.state == BuildState.RECEIVED else total / 2)
        left = max(total - received, 0.0)
        if self.state in (BuildState.PACKED, BuildState.FETCHING):
            return Job(self.name, left, proof_bytes=received)
        if self.mode == Mode.ARCHIVE and self.is_before_packing and self.packed_about is not None:
            return Job(self.name, float(self.packed_about), packing_bytes=total)
        if self.mode == Mode.ARCHIVE and self.is_before_packing:
            return Job(self.name, 0.0, unpacked_bytes=total, packing_bytes=total)
        return Job(self.name, left, packing_bytes=total, proof_bytes=received)


def standing_of(row: PackRow) -> Standing:
    """A row of a board as a forecast sees it."""
    return Standing(
        key=row.pack.pk,
        name=row.pack.name,
        mode=row.item.mode if row.item is not None else Mode.ARCHIVE,
        state=row.state,
        is_in_force=row.item is not None,
        is_opened=row.opened is not None,
        is_paused=row.pack.is_paused,
        on_hold=row.pack.on_hold,
        waits_for_rest=row.pack.hold_until_rest,
        total_bytes=row.total_bytes,
        is_before_packing=row.is_before_packing,
        received_bytes=row.received_bytes,
        carriers=row.carriers,
        packed_about=row.packed_about,
    )


def carriers_of(standings: Sequence[Standing]) -> dict[str, tuple[str, ...]]:
    """The packs that each pack leaves files to, of those that leave any."""
    return {one.name: one.carriers for one in standings if one.carriers}


def standings_of(plan: Plan) -> tuple[Standing, ...]:
    """A plan's packs in execution order, as `board_of` has them."""
    items = {}
    columns = (
        "pack_id", "mode", "entry_list__total_bytes", "pack__name", "carriers", "satisfied_list_id", "came_of",
        "entry_list_id",
    )  # fmt: skip
    in_force = list(
        Item.objects.filter(revision__plan=plan, revision__state=RevisionState.APPROVED)
        .order_by()
        .values_list(*columns)
    )
    names = frozenset(row[3] for row in in_force)
    shares = shares_of_plan(plan)
    for key, mode, total, name, carriers, satisfied, came_of, list_id in in_force:
        others = carriers_in(name, carriers) if satisfied is not None else ()
        share = shares.get(list_id) if mode == Mode.ARCHIVE else None
        about = None if share is None or total is None else int(total * share)
        items[key] = (mode, total, others, list_of_merged(came_of, names, list_id), about)
    builds: dict[int, list[_Build]] = {}
    rows = Build.objects.filter(pack__plan=plan).exclude(state=BuildState.REPLACED).order_by("-number")
    columns_of_builds = ("pack_id", "state", "size_bytes", "received_bytes", "entry_list__total_bytes", "entry_list_id")
    for key, *values in rows.values_list(*columns_of_builds):
        builds.setdefault(key, []).append(_Build(*values))
    packs = plan.packs.order_by("position", "name")
    found = [
        _standing(*values, items.get(values[0]), builds.get(values[0], ()))
        for values in packs.values_list("pk", "name", "is_paused", "on_hold", "hold_until_rest")
    ]
    usable = usable_names([one.name for one in found if one.is_opened], carriers_of(found))
    return tuple(one if one.is_opened == (one.name in usable) else replace(one, is_opened=False) for one in found)


@dataclass(frozen=True, slots=True)
class _Build:
    state: str
    size_bytes: int | None
    received_bytes: int
    listed_bytes: int
    list_id: int


def _standing(
    key: int,
    name: str,
    is_paused: bool,  # noqa: FBT001 - columns of a row, in their order
    on_hold: bool,  # noqa: FBT001
    waits_for_rest: bool,  # noqa: FBT001
    item: tuple[str, int | None, tuple[str, ...], int | None, int | None] | None,
    builds: Sequence[_Build],
) -> Standing:
    mode, listed, carriers, needed, about = item if item is not None else (Mode.ARCHIVE, None, (), None, None)
    build = builds[0] if builds else None
    state = build.state if build is not None else "planned" if item is not None else "draft"
    packed = build.size_bytes if build is not None else None
    total = packed if packed is not None else build.listed_bytes if build is not None else listed
    received = build.received_bytes if build is not None else 0
    return Standing(
        key=key,
        name=name,
        mode=mode,
        state=state,
        is_in_force=item is not None,
        is_opened=any(one.state in USABLE and needed in (None, one.list_id) for one in builds),
        is_paused=is_paused,
        on_hold=on_hold,
        waits_for_rest=waits_for_rest,
        total_bytes=total,
        is_before_packing=packed is None and total is not None,
        received_bytes=(total or received) if state in HOME else received,
        carriers=carriers,
        packed_about=about,
    )
