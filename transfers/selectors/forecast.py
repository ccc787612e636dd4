"""Forecasts of a host's packs and capabilities, from the rows as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from transfers.forecast.simulate import RUNS, Job, simulate
from transfers.models import BuildState, Capability, Mode
from transfers.selectors.board import USABLE, Board, PackRow
from transfers.selectors.paces import HostPaces, paces_of

_ALL_RUNS_UP_TO = 100  # packs; a board of many more is forecast from fewer futures, so that pages stay quick
_LEAST_RUNS = 100
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
    jobs = jobs_of(rows)
    count = runs or (RUNS if len(jobs) <= _ALL_RUNS_UP_TO else max(_LEAST_RUNS, RUNS * _ALL_RUNS_UP_TO // len(jobs)))
    wanted = needs_of(board) if needs is None else needs
    outlook = simulate(jobs, known.paces, needs=wanted, runs=count)
    timed = tuple(replace(row, times=outlook.jobs.get(row.pack.name)) for row in rows)
    return replace(board, rows=timed, paces=known, outlook=outlook)


def ordered_rows(rows: Sequence[PackRow], order: Sequence[int] | None) -> tuple[PackRow, ...]:
    """Rows in another order, given by the packs' keys; what it does not name comes last, as it stood."""
    if order is None:
        return tuple(rows)
    places = {key: at for at, key in enumerate(order)}
    return tuple(sorted(rows, key=lambda row: places.get(row.pack.pk, len(places))))


def runs_now(row: PackRow) -> bool:
    """True when something of the pack is left to do and nothing keeps it from being done."""
    return row.item is not None and not row.is_stopped and row.state not in USABLE


def runs_last(row: PackRow) -> bool:
    """True when the pack is on hold until everything else is opened, and nothing else keeps it."""
    is_bound = row.pack.on_hold and row.pack.hold_until_rest and not row.pack.is_paused
    broken = row.state in (BuildState.FAILED, BuildState.NEEDS_DECISION)
    return is_bound and row.item is not None and not broken and not row.is_home


def jobs_of(rows: Sequence[PackRow]) -> list[Job]:
    """What is left to do, in order, last what waits for the rest. Behind a pack of unknown size nothing can be said."""
    jobs = []
    for row in [*filter(runs_now, rows), *filter(runs_last, rows)]:
        if row.total_bytes is None:
            break
        jobs.append(_job(row, float(row.total_bytes)))
    return jobs


def _job(row: PackRow, total: float) -> Job:
    name = row.pack.name
    if row.is_home:
        return Job(name, 0.0, proof_bytes=total if row.state == BuildState.RECEIVED else total / 2)
    left = float(row.left_bytes or 0)
    if row.state in (BuildState.PACKED, BuildState.FETCHING):
        return Job(name, left, proof_bytes=float(row.received_bytes))
    mode = row.item.mode if row.item is not None else Mode.ARCHIVE
    if mode == Mode.ARCHIVE and row.is_before_packing:
        return Job(name, 0.0, unpacked_bytes=total, packing_bytes=total)
    return Job(name, left, packing_bytes=total, proof_bytes=float(row.received_bytes))


def needs_of(board: Board) -> dict[str, list[list[str]]]:
    """Capabilities that are not usable yet, each with its groups of packs of which none is opened."""
    opened = {row.pack.pk for row in board.rows if row.opened is not None}
    found: dict[str, list[list[str]]] = {}
    rows = Capability.objects.filter(plan=board.plan).prefetch_related("needs__pack").order_by("position", "name")
    for capability in rows:
        groups: dict[int, list[tuple[int, str]]] = {}
        for need in capability.needs.all():
            groups.setdefault(need.group, []).append((need.pack_id, need.pack.name))
        unmet = [group for group in groups.values() if not any(key in opened for key, _name in group)]
        if unmet:
            found[capability.name] = [[name for _key, name in group] for group in unmet]
    return found
