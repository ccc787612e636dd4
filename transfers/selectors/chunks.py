"""A build's chunks for its map: missing, here in part, here, proven, wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from transfers.engine.cellmap import here_by_chunk
from transfers.engine.geometry import LEDGER_SUFFIX, Geometry
from transfers.engine.types import CheckLevel, ChunkSpec, Outcome
from transfers.models import Build, Check
from transfers.selectors.specs import build_folder, build_key

MISSING, PART, HERE, PROVEN, WRONG = "missing", "part", "here", "proven", "wrong"
MOST_CELLS = 640  # squares on a page; more chunks than that share squares
_WORST_FIRST = (WRONG, MISSING, PART, HERE, PROVEN)


@dataclass(frozen=True, slots=True)
class MapCell:
    """One square: chunks `first` to `last`, counted from 1 as on pages, and the state of the least of them."""

    first: int
    last: int
    state: str


@dataclass(frozen=True, slots=True)
class MapRun:
    """Chunks that follow one another and have the same state; for those who read instead of look."""

    first: int
    last: int
    state: str

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """The whole map of a build. `counts` is by state; `chunks_per_cell` is 1 for all but very large builds."""

    cells: tuple[MapCell, ...]
    runs: tuple[MapRun, ...]
    counts: Counter[str]
    chunk_count: int
    chunks_per_cell: int


def chunk_map(build: Build) -> ChunkMap:
    """Chunks by their rows' proofs, and what is here beyond them by the ledger that lies beside the incoming data."""
    rows = list(build.chunks.order_by("index").values_list("index", "offset", "length", "proven_at"))
    proven = {index for index, _offset, _length, proven_at in rows if proven_at is not None}
    wrong = _wrong_chunks(build) - proven
    here = _here(build, [ChunkSpec(index, offset, length) for index, offset, length, _at in rows])
    states = []
    for at, (index, _offset, _length, _proven_at) in enumerate(rows):
        if index in proven:
            states.append(PROVEN)
        elif index in wrong:
            states.append(WRONG)
        else:
            states.append(here[at] if here else MISSING)
    return _drawn(states)


def _drawn(states: Sequence[str]) -> ChunkMap:
    each = max(1, -(-len(states) // MOST_CELLS))
    cells = []
    for first in range(0, len(states), each):
        group = states[first : first + each]
        cells.append(MapCell(first + 1, first + len(group), min(group, key=_WORST_FIRST.index)))
    runs, at = [], 1
    for state, group_of in groupby(states):
        count = sum(1 for _one in group_of)
        runs.append(MapRun(at, at + count - 1, state))
        at += count
    return ChunkMap(tuple(cells), tuple(runs), Counter(states), len(states), each)


def _wrong_chunks(build: Build) -> set[int]:
    """Chunks whose newest comparison differed."""
    newest: dict[int, str] = {}
    subjects = Check.objects.filter(build=build, level=CheckLevel.CHUNK).order_by("pk")
    for subject, outcome in subjects.values_list("subject", "outcome"):
        text = bytes(subject)
        if text.isdigit():
            newest[int(text)] = outcome
    return {index for index, outcome in newest.items() if outcome != Outcome.MATCHED}


def _here(build: Build, specs: Sequence[ChunkSpec]) -> list[str]:
    """The state of each chunk by the ledger alone; empty when there is no ledger to read."""
    if not specs or not build.received_bytes:
        return []
    geometry = Geometry(specs)
    try:
        counts = [
            found
            for path in sorted(build_folder(build).glob(f"*{LEDGER_SUFFIX.decode()}"))
            if (found := here_by_chunk(path, build_key(build), geometry)) is not None
        ]
    except OSError:
        return []  # the landing cannot be read from here: the rows' proofs still stand
    if not counts:
        return []
    return [
        HERE if found == len(geometry.chunk_cells(chunk)) else PART if found else MISSING
        for chunk, found in enumerate(counts[0])
    ]
