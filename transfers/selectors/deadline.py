"""What will not be usable before a host is cleared, and what would change that: order, channel, exclusions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, time

from django.utils import timezone

from transfers.forecast.goodput import LanePace
from transfers.selectors.board import Board, PackRow
from transfers.selectors.forecast import forecast_board, runs_now

_TRIED = 5  # of the largest packs are left out, each alone, to see what that would save


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A pack without which others would make it."""

    name: str
    saved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deadline:
    """Packs that are late: their likely-by time is after `at`, or they have none. `ends` is true once it has passed.

    `needed_bytes_per_second` would bring all that runs in time, and `fast_enough` are the channels and numbers of lanes
    that brought so much lately; `saved_by_order` would make it in the advised order.
    """

    at: datetime
    has_passed: bool
    late: tuple[PackRow, ...]
    needed_bytes_per_second: float | None
    saved_by_order: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    fast_enough: tuple[LanePace, ...] = ()


def deadline_of(board: Board, advised: Board) -> Deadline | None:
    """What the plan's clearing date means for a board that is forecast; None without a date."""
    if board.plan.clear_by is None:
        return None
    at = timezone.make_aware(datetime.combine(board.plan.clear_by, time.min))
    now = board.paces.at if board.paces is not None else timezone.now()
    seconds = (at - now).total_seconds()
    late = late_rows(board, seconds)
    is_late = bool(late) and seconds > 0
    needed = _needed(board, seconds) if is_late else None
    return Deadline(
        at=at,
        has_passed=seconds <= 0,
        late=late,
        needed_bytes_per_second=needed,
        saved_by_order=_saved(late, late_rows(advised, seconds)) if is_late else (),
        left_out=_left_out(board, late, seconds) if is_late else (),
        fast_enough=_fast_enough(board, needed) if needed is not None else (),
    )


def late_rows(board: Board, seconds: float) -> tuple[PackRow, ...]:
    """Packs in force that are not opened and will likely not be within so many seconds."""
    return tuple(
        row
        for row in board.rows
        if row.item is not None and row.opened is None and (row.times is None or row.times.likely_by_seconds > seconds)
    )


def _needed(board: Board, seconds: float) -> float | None:
    """The goodput at which everything that runs would likely be done in time; None when it is."""
    if board.outlook is None or board.outlook.everything is None or board.paces is None or board.paces.goodput is None:
        return None
    share = board.outlook.everything.likely_by_seconds / seconds
    return board.paces.goodput.mean * share if share > 1 else None


def _fast_enough(board: Board, needed: float) -> tuple[LanePace, ...]:
    goodput = board.paces.goodput if board.paces is not None else None
    return tuple(one for one in goodput.by_lanes if one.bytes_per_second >= needed) if goodput is not None else ()


def _saved(late: Iterable[PackRow], still_late: Iterable[PackRow]) -> tuple[str, ...]:
    names = {row.pack.name for row in still_late}
    return tuple(row.pack.name for row in late if row.pack.name not in names)


def _left_out(board: Board, late: tuple[PackRow, ...], seconds: float) -> tuple[LeftOut, ...]:
    running = sorted((row for row in board.rows if runs_now(row)), key=lambda row: -(row.left_bytes or 0))
    found = []
    for one in running[:_TRIED]:
        rest = replace(board, rows=tuple(row for row in board.rows if row.pack.pk != one.pack.pk))
        without = forecast_board(rest, paces=board.paces, needs={})
        others = [row for row in late if row.pack.pk != one.pack.pk]
        saved = _saved(others, late_rows(without, seconds))
        if saved:
            found.append(LeftOut(one.pack.name, saved))
    return tuple(found)
