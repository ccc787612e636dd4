"""Forecasts of a host's packs and capabilities, from the rows as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from transfers.forecast.futures import Paces
from transfers.forecast.simulate import RUNS, Job, Outlook, Times, simulate
from transfers.models import Capability, Plan
from transfers.selectors.awaiting import needs_with, outlook_with, parts_needed
from transfers.selectors.board import USABLE, Board, PackRow
from transfers.selectors.paces import HostPaces, paces_of
from transfers.selectors.standings import Standing, carriers_of, standing_of, standings_of

_ALL_RUNS_UP_TO = 125  # packs; a board of many more is forecast from fewer futures, so that it answers a drop at once
Needs = Mapping[str, Sequence[Sequence[str]]]


def forecast_boards(boards: Iterable[Board]) -> tuple[Board, ...]:
    """Boards with the times of their packs and capabilities."""
    return tuple(forecast_board(board) for board in boards)


def forecast_board(
    board: Board,
    *,
    order: Sequence[int] | None = None,
    paces: HostPaces | None = None,
    needs: Needs | None = None,
    runs: int | None = None,
    at: datetime | None = None,
) -> Board:
    """The board with times, as it stands or in another order of packs (by their keys; packs not named come last)."""
    known = paces or paces_of(board.plan, at=at)
    rows = ordered_rows(board.rows, order)
    if known.paces is None:
        return replace(board, rows=rows, paces=known)
    wanted = needs_of(board) if needs is None else needs
    outlook = outlook_of([standing_of(row) for row in rows], known.paces, wanted, runs=runs)
    timed = tuple(replace(row, times=outlook.jobs.get(row.pack.name)) for row in rows)
    return replace(board, rows=timed, paces=known, outlook=outlook)


@dataclass(frozen=True, slots=True)
class OrderTimes:
    """Packs in an order that need not be saved, and what it would give; `outlook` is None when nothing can be said."""

    plan: Plan
    standings: tuple[Standing, ...]
    paces: HostPaces
    needs: Needs
    outlook: Outlook | None

    def times_of(self, one: Standing) -> Times | None:
        """When the pack would be usable; None when that cannot be said."""
        return self.outlook.jobs.get(one.name) if self.outlook is not None else None


def times_in_order(plan: Plan, order: Sequence[int] | None = None) -> OrderTimes:
    """What an order of packs (by their keys; those not named come last) would give. Few statements, no whole rows."""
    return reordered(OrderTimes(plan, standings_of(plan), paces_of(plan), {}, None), order)


def reordered(times: OrderTimes, order: Sequence[int] | None) -> OrderTimes:
    """The same packs in another order."""
    standings, paces = times.standings, times.paces
    if order is not None:
        places = {key: at for at, key in enumerate(order)}
        standings = tuple(sorted(standings, key=lambda one: places.get(one.key, len(places))))
    needs = times.needs or unmet_needs(times.plan, {one.key for one in standings if one.is_opened})
    outlook = outlook_of(standings, paces.paces, needs) if paces.paces is not None else None
    return OrderTimes(times.plan, standings, paces, needs, outlook)


def outlook_of(standings: Sequence[Standing], paces: Paces, needs: Needs, *, runs: int | None = None) -> Outlook:
    """What is to come of packs in order; a question that was asked before is answered from memory."""
    jobs = tuple(jobs_of(standings))
    parts = parts_needed([one.name for one in standings if one.state in USABLE], carriers_of(standings))
    told = needs_with(needs, parts)
    asked = tuple((name, tuple(tuple(group) for group in groups)) for name, groups in told.items())
    fewer = max(RUNS * _ALL_RUNS_UP_TO // max(len(jobs), 1), 100)
    return outlook_with(_simulated(jobs, paces, asked, runs or min(RUNS, fewer)), parts)


@lru_cache(maxsize=16)
def _simulated(
    jobs: tuple[Job, ...], paces: Paces, needs: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...], runs: int
) -> Outlook:
    return simulate(jobs, paces, needs=dict(needs), runs=runs)


def ordered_rows(rows: Sequence[PackRow], order: Sequence[int] | None) -> tuple[PackRow, ...]:
    """Rows in another order, given by the packs' keys; what it does not name comes last, as it stood."""
    if order is None:
        return tuple(rows)
    places = {key: at for at, key in enumerate(order)}
    return tuple(sorted(rows, key=lambda row: places.get(row.pack.pk, len(places))))


def runs_now(row: PackRow) -> bool:
    """True when something of the pack is left to do and nothing keeps it from being done."""
    return standing_of(row).runs_now


def jobs_of(standings: Sequence[Standing]) -> list[Job]:
    """What is left to do, in order, last what waits for the rest. Behind a pack of unknown size nothing can be said."""
    jobs = []
    now, last = (one for one in standings if one.runs_now), (one for one in standings if one.runs_last)
    for one in (*now, *last):
        if one.total_bytes is None:
            break
        jobs.append(one.job())
    return jobs


def needs_of(board: Board) -> dict[str, list[list[str]]]:
    """Capabilities that are not usable yet, each with its groups of packs of which none is opened."""
    return unmet_needs(board.plan, {row.pack.pk for row in board.rows if row.opened is not None})


def unmet_needs(plan: Plan, opened: Set[int]) -> dict[str, list[list[str]]]:
    """The same, given the keys of packs that are opened."""
    found: dict[str, list[list[str]]] = {}
    rows = Capability.objects.filter(plan=plan).prefetch_related("needs__pack").order_by("position", "name")
    for capability in rows:
        groups: dict[int, list[tuple[int, str]]] = {}
        for need in capability.needs.all():
            groups.setdefault(need.group, []).append((need.pack_id, need.pack.name))
        unmet = [group for group in groups.values() if not any(key in opened for key, _name in group)]
        if unmet:
            found[capability.name] = [[name for _key, name in group] for group in unmet]
    return found
