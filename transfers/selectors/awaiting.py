"""Packs that leave files to other packs are usable when those are: what that means for pages and forecasts."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from transfers.forecast.simulate import Outlook, Times

_PACK = "\0"  # before a pack's name: a question about the pack and all that it waits for; no capability begins so
_MOST_WAYS = 200  # of telling one group of needs apart; more are not asked for one by one

Names = Mapping[str, Sequence[str]]


def carriers_in(pack: str, carriers: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The other packs that carry what a pack leaves out, from what is kept with its item."""
    return tuple(one["pack"] for one in carriers if one["pack"] != pack)


def list_of_merged(came_of: Iterable[str], in_force: Container[str], list_id: int | None) -> int | None:
    """The list that an opened build must have to count: of a pack that took others in, a former build holds less."""
    return list_id if any(name not in in_force for name in came_of) else None


def usable_names(opened: Iterable[str], carriers: Names) -> frozenset[str]:
    """Of the packs with an opened build, those whose trees are whole: what they leave out is opened as well."""
    usable = set(opened)
    while lacking := {name for name in usable if any(one not in usable for one in carriers.get(name, ()))}:
        usable -= lacking
    return frozenset(usable)


def parts_needed(opened: Iterable[str], carriers: Names) -> dict[str, tuple[str, ...]]:
    """What must be opened before a pack is usable, for each pack that waits for another one."""
    here = frozenset(opened)
    found: dict[str, tuple[str, ...]] = {}
    for name in carriers:
        whole: dict[str, None] = {}
        waiting = [name]
        while waiting:
            one = waiting.pop(0)
            if one not in whole:
                whole[one] = None
                waiting += carriers.get(one, ())
        missing = tuple(one for one in whole if one not in here)
        if missing and missing != (name,):
            found[name] = missing
    return found


def needs_with(needs: Mapping[str, Sequence[Sequence[str]]], parts: Names) -> dict[str, list[list[str]]]:
    """Needs told by what must be opened, with a question more for each pack that waits for another one."""
    told = {name: [one for group in groups for one in _told_apart(group, parts)] for name, groups in needs.items()}
    return told | {_PACK + name: [[one] for one in missing] for name, missing in parts.items()}


def _told_apart(group: Sequence[str], parts: Names) -> list[list[str]]:
    """One group, any of whose packs will do, as groups of packs of which each is one that must be opened."""
    choices = [parts.get(name, (name,)) for name in group]
    ways = list(product(*choices)) if _ways(choices) <= _MOST_WAYS else [tuple(group)]
    return [list(dict.fromkeys(way)) for way in ways]


def _ways(choices: Sequence[Sequence[str]]) -> int:
    count = 1
    for one in choices:
        count *= len(one)
    return count


def outlook_with(outlook: Outlook, parts: Names) -> Outlook:
    """An outlook in which no pack is usable before those that it waits for."""
    if not parts:
        return outlook
    jobs: dict[str, Times] = {name: times for name, times in outlook.jobs.items() if name not in parts}
    jobs |= {name: times for name in parts if (times := outlook.needs.get(_PACK + name)) is not None}
    needs = {name: times for name, times in outlook.needs.items() if not name.startswith(_PACK)}
    return replace(outlook, jobs=jobs, needs=needs)
