"""An order to advise: what an aim needs first, then the most value for each byte that is still to come.

What the team agreed on stays: where a pack of a better tier stands before one of a worse tier, the advice leaves it
before it, unless told to cross tiers. It may put a better tier forward. Packs that nothing moves keep their places.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

NO_TIER = 1_000
WEIGHTS: Mapping[int, float] = {1: 16.0, 2: 8.0, 3: 4.0, 4: 2.0, 5: 1.0}
_LEAST_BYTES = 1.0
NEARLY_DONE = 0.5  # of its bytes are here


class Why(StrEnum):
    """Why a pack stands where the advice puts it. `Advised` says of what and how much."""

    NEEDED = "needed"  # by the aim
    TIER = "tier"  # a pack that the aim needs stands behind it in a worse tier
    NEXT = "next"  # needed by the next capability
    NEARLY_DONE = "nearly done"
    VALUE = "value"  # tier-weighted bytes for each byte still to come
    KEPT = "kept"  # nothing moves it, so it keeps its place


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pack as the advice sees it: `left_bytes` to come of `total_bytes`, before packing where not known better."""

    key: str
    left_bytes: float
    total_bytes: float
    tier: int = NO_TIER  # the best of its resources
    runs: bool = True


@dataclass(frozen=True, slots=True)
class Advised:
    """A pack at its advised place; `need` is the need that it is for, `value` weighted bytes a byte to come."""

    key: str
    why: Why
    need: str | None = None
    value: float = 0.0


def advise(
    packs: Sequence[Candidate],
    needs: Mapping[str, Sequence[Sequence[str]]],
    *,
    aim: str | None = None,
    weights: Mapping[int, float] = WEIGHTS,
    may_cross_tiers: bool = False,
) -> tuple[Advised, ...]:
    """All packs in the order advised, from the order in force.

    `needs` are those not met yet, each with its unmet groups, in the order in which they matter; `aim` is the one to be
    met first (None: value alone decides).
    """
    running = [one for one in packs if one.runs]
    board = _Board(running, weights, may_cross_tiers=may_cross_tiers)
    if aim is not None and aim in needs:
        board.meet(aim, needs[aim], Why.NEEDED)
        for name, groups in needs.items():
            if name != aim:
                board.meet(name, groups, Why.NEXT)
    board.place_rest()
    advised = iter(board.placed)
    return tuple(next(advised) if one.runs else Advised(one.key, Why.KEPT) for one in packs)


class _Board:
    """Running packs in the order in force, and those of them that have their advised place."""

    def __init__(self, packs: Sequence[Candidate], weights: Mapping[int, float], *, may_cross_tiers: bool) -> None:
        self._packs = {one.key: one for one in packs}
        self._places = {one.key: at for at, one in enumerate(packs)}
        self._weights, self._may_cross = weights, may_cross_tiers
        self._left = set(self._packs)
        self._queues = {tier: deque(one for one in packs if one.tier == tier) for tier in {one.tier for one in packs}}
        self.placed: list[Advised] = []

    def meet(self, name: str, groups: Sequence[Sequence[str]], why: Why) -> None:
        """Place what a need asks for: of each group the pack that costs the fewest bytes, all told."""
        wanted: set[str] = set()
        for group in groups:
            known = [key for key in group if key in self._packs]
            if known and all(key in self._left for key in known):
                wanted.add(min(known, key=lambda key: (self._cost(key), self._places[key])))
        ahead = {one for key in wanted for one in self._ahead_of(key)}
        self._place(wanted | ahead, {key: Advised(key, why, name) for key in wanted}, Advised("", Why.TIER, name))

    def place_rest(self) -> None:
        """Place everything else by value alone."""
        self._place(set(self._left), {}, Advised("", Why.VALUE))

    def _place(self, keys: set[str], known: Mapping[str, Advised], else_: Advised) -> None:
        """Place keys, of which everything that must stand before them is one, by value as far as tiers allow."""
        waiting = sorted(keys, key=lambda key: (-self._value(key), self._packs[key].left_bytes, self._places[key]))
        while waiting:
            at = next(at for at, key in enumerate(waiting) if self._is_free(key))
            key = waiting.pop(at)
            self._left.discard(key)
            told = known.get(key, else_)
            why = Why.NEARLY_DONE if told.why is Why.VALUE and self._is_nearly_done(key) else told.why
            self.placed.append(Advised(key, why, told.need, self._value(key)))

    def _value(self, key: str) -> float:
        pack = self._packs[key]
        weight = self._weights.get(pack.tier, min(self._weights.values(), default=1.0))
        return weight * max(pack.total_bytes, _LEAST_BYTES) / max(pack.left_bytes, _LEAST_BYTES)

    def _is_nearly_done(self, key: str) -> bool:
        pack = self._packs[key]
        return pack.left_bytes < pack.total_bytes * (1 - NEARLY_DONE)

    def _cost(self, key: str) -> float:
        return sum(self._packs[one].left_bytes for one in (key, *self._ahead_of(key)))

    def _ahead_of(self, key: str) -> list[str]:
        """What must stand before it: packs of better tiers that do so now and are not placed yet."""
        if self._may_cross:
            return []
        tier, place = self._packs[key].tier, self._places[key]
        return [one for one in self._left if self._packs[one].tier < tier and self._places[one] < place]

    def _is_free(self, key: str) -> bool:
        if self._may_cross:
            return True
        tier, place = self._packs[key].tier, self._places[key]
        for other, queue in self._queues.items():
            while queue and queue[0].key not in self._left:
                queue.popleft()
            if other < tier and queue and self._places[queue[0].key] < place:
                return False
        return True
