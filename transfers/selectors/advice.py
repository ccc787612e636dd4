"""Order advice for a host, what it gains, and how much is usable when: in force, as advised, and largest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Min

from inventory.models import Tier
from transfers.forecast.advice import NO_TIER, WEIGHTS, Advised, Candidate, advise
from transfers.forecast.simulate import Outlook, Times
from transfers.models import Item, Plan, RevisionState
from transfers.selectors.board import Board, PackRow
from transfers.selectors.forecast import forecast_board, needs_of, ordered_rows, runs_now
from transfers.selectors.standings import Standing, standing_of


@dataclass(frozen=True, slots=True)
class Gain:
    """A capability in both orders; `earlier_seconds` counts expected times and is below zero when it comes later."""

    name: str
    now: Times | None
    then: Times | None

    @property
    def earlier_seconds(self) -> float:
        if self.now is None or self.then is None:
            return 0.0
        return self.now.expected_seconds - self.then.expected_seconds


@dataclass(frozen=True, slots=True)
class AdvisedRow:
    """A pack at its advised place, with its reason; `place_now` counts from 1."""

    row: PackRow
    advised: Advised
    tier: int | None
    place_now: int


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An advised order with its forecast. `is_new` is false when the order in force is as good for the aim."""

    aim: str | None
    board: Board
    rows: tuple[AdvisedRow, ...]
    gains: tuple[Gain, ...]
    average: Gain  # when a tier-weighted byte is opened, on average
    is_new: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """What is usable over time in one order: `steps` are (seconds, share of tier-weighted bytes opened by then).

    `needs` are the expected times of capabilities. Both hold expected times only.
    """

    steps: tuple[tuple[float, float], ...]
    needs: Mapping[str, Times]

    def share_at(self, seconds: float) -> float:
        """The share that is opened by then."""
        return max((share for at, share in self.steps if at <= seconds), default=0.0)


def tiers_of(plan: Plan) -> dict[int, int]:
    """The best tier of what each pack in force carries, by the pack's key; packs without any are left out."""
    items = Item.objects.filter(revision__plan=plan, revision__state=RevisionState.APPROVED).order_by()
    found = items.values_list("pack_id").annotate(best=Min("resources__tier__position"))
    return {key: best for key, best in found if best is not None}


def weights_of() -> dict[int, float]:
    """The weight of each tier that there is, before anybody edits it."""
    least = min(WEIGHTS.values())
    positions = Tier.objects.order_by("position").values_list("position", flat=True)
    return {position: WEIGHTS.get(position, least) for position in positions}


def suggest(
    board: Board, *, aim: str | None, weights: Mapping[int, float] | None = None, may_cross_tiers: bool = False
) -> Suggestion:
    """The order advised for an aim, from a board that is forecast. It is never later for the aim than the one in force.

    `aim` names a capability; None, or one that is usable, asks for the most tier-weighted bytes early.
    """
    needs, tiers = needs_of(board), tiers_of(board.plan)
    aimed = aim if aim in needs else None
    shares = board.paces.share if board.paces is not None else 1.0
    candidates = [_candidate(row, tiers, shares) for row in board.rows]
    used = weights or weights_of()
    advised = advise(candidates, needs, aim=aimed, weights=used, may_cross_tiers=may_cross_tiers)
    rows = {row.pack.name: row for row in board.rows}
    order = [rows[one.key].pack.pk for one in advised]
    then = forecast_board(board, order=order, paces=board.paces, needs=needs)
    gains = _gains(board, then, needs)
    worse = any(gain.name == aimed and gain.earlier_seconds < 0 for gain in gains)
    places = {row.pack.name: at for at, row in enumerate(board.rows, 1)}
    timed = {row.pack.name: row for row in then.rows}
    return Suggestion(
        aim=aimed,
        board=then,
        rows=tuple(
            AdvisedRow(timed[one.key], one, tiers.get(rows[one.key].pack.pk), places[one.key]) for one in advised
        ),
        gains=gains,
        average=Gain("", *(_average(one, tiers, used) for one in (board, then))),
        is_new=order != [row.pack.pk for row in board.rows] and not worse,
    )


def _candidate(row: PackRow, tiers: Mapping[int, int], share: float) -> Candidate:
    total, left = float(row.total_bytes or 0), float(row.left_bytes or 0)
    if row.is_before_packing and row.packed_about is not None:
        total = left = float(row.packed_about)
    elif row.is_before_packing:
        total, left = total * share, left * share
    runs = runs_now(row) and row.total_bytes is not None
    return Candidate(row.pack.name, left, total, tiers.get(row.pack.pk, NO_TIER), runs)


def _gains(now: Board, then: Board, needs: Iterable[str]) -> tuple[Gain, ...]:
    before = now.outlook.needs if now.outlook is not None else {}
    after = then.outlook.needs if then.outlook is not None else {}
    return tuple(Gain(name, before.get(name), after.get(name)) for name in needs)


def _average(board: Board, tiers: Mapping[int, int], weights: Mapping[int, float]) -> Times | None:
    """When a tier-weighted byte of what has a time is opened, on average of all such bytes."""
    least = min(weights.values(), default=1.0)
    rows = [
        (weights.get(tiers.get(row.pack.pk, NO_TIER), least) * (row.total_bytes or 0), row.times)
        for row in board.rows
        if row.times is not None
    ]
    total = sum(value for value, _times in rows)
    if not total:
        return None
    return Times(
        sum(value * times.expected_seconds for value, times in rows) / total,
        sum(value * times.likely_by_seconds for value, times in rows) / total,
    )


def largest_first(board: Board) -> Board:
    """The board in the order of somebody who does not think about it, forecast."""
    running = iter(sorted((row for row in board.rows if runs_now(row)), key=lambda row: -(row.left_bytes or 0)))
    order = [(next(running) if runs_now(row) else row).pack.pk for row in board.rows]
    return forecast_board(board, order=order, paces=board.paces)


def curve_of(board: Board, weights: Mapping[int, float]) -> Curve:
    """How much is usable over time, by the expected times of a forecast board."""
    return curve_through([standing_of(row) for row in board.rows], board.outlook, tiers_of(board.plan), weights)


def curve_through(
    standings: Sequence[Standing], outlook: Outlook | None, tiers: Mapping[int, int], weights: Mapping[int, float]
) -> Curve:
    """How much is usable over time, by the expected times of an outlook on packs in some order."""
    least = min(weights.values(), default=1.0)
    values = {one.name: weights.get(tiers.get(one.key, NO_TIER), least) * _bytes(one) for one in standings}
    total = sum(values.values()) or 1.0
    done = sum(values[one.name] for one in standings if one.is_opened)
    steps = [(0.0, done / total)]
    opened = {one.name for one in standings if one.is_opened}
    times = outlook.jobs if outlook is not None else {}
    timed = [(times[name].expected_seconds, values[name]) for name in values if name in times and name not in opened]
    for seconds, value in sorted(timed):
        done += value
        steps.append((seconds, done / total))
    return Curve(tuple(steps), outlook.needs if outlook is not None else {})


def _bytes(one: Standing) -> int:
    return one.total_bytes or 0 if one.is_in_force else 0


def order_named(board: Board, names: Sequence[str]) -> Board:
    """The board with packs in an order given by name; those not named come last. Raises KeyError."""
    keys = {row.pack.name: row.pack.pk for row in board.rows}
    order = [keys[name] for name in names]
    return forecast_board(board, order=[row.pack.pk for row in ordered_rows(board.rows, order)], paces=board.paces)
