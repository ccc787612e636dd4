"""What rules take of a listing: counts and the largest folders at once, the members when they are asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress

from inventory.columns import FILE, FOLDER, KIND_LETTERS, LINK, Columns, columns_of
from inventory.models import Scan
from inventory.remote.names import escape
from transfers.engine.types import Member
from transfers.rule_masks import decide
from transfers.rules import Rules

LARGEST_SHOWN = 6
_DOMINATES = 0.6  # of a side's bytes in one folder: then its own folders say more
_KINDS = {FILE: "file", FOLDER: "folder", LINK: "link"}
_NAMES = {letter[0]: kind for kind, letter in KIND_LETTERS.items()}


@dataclass(frozen=True, slots=True)
class Side:
    """Entries on one side of the rules. `mask` has one byte an entry; bytes are those of files."""

    columns: Columns
    mask: bytes

    @property
    def entry_count(self) -> int:
        return self.mask.count(1)

    @property
    def file_count(self) -> int:
        return _both(self.mask, _of_kind(self.columns, FILE)).count(1)

    def numbers(self, *kinds: int) -> list[int]:
        """The entries of these kinds (of all, when none is named), in order."""
        mask = _both(self.mask, _of_kind(self.columns, *kinds)) if kinds else self.mask
        return list(compress(range(len(mask)), mask))

    @property
    def total_bytes(self) -> int:
        return sum(self.columns.sums[end] - self.columns.sums[begin] for begin, end in self.runs())

    def runs(self) -> Iterator[tuple[int, int]]:
        """Stretches of entries that are all on this side: the first, and the one behind the last."""
        begin = self.mask.find(1)
        while begin >= 0:
            end = self.mask.find(0, begin)
            end = len(self.mask) if end < 0 else end
            yield begin, end
            begin = self.mask.find(1, end)

    def largest_folders(self, limit: int = LARGEST_SHOWN) -> list[tuple[bytes, int]]:
        """Folders that hold most bytes of this side, with those; a folder that holds nearly all gives way to what lies
        in it. Names are those of the listing."""
        weight = _Weights(self.columns, list(self.runs()))
        whole = weight.of(0) if self.columns.count else 0
        found = {number: size for number in _folders_in(self.columns, 0) if (size := weight.of(number))}
        while found:
            number, size = max(found.items(), key=lambda one: one[1])
            inside = {one: held for one in _folders_in(self.columns, number) if (held := weight.of(one))}
            if size < _DOMINATES * whole or not inside:
                break
            del found[number]
            found |= inside
            whole = sum(found.values())
        order = sorted(found.items(), key=lambda one: (-one[1], one[0]))[:limit]
        return [(self.columns.name(number), size) for number, size in order]


@dataclass(frozen=True, slots=True)
class Taken:
    """What rules take of one listing (`within`), what they leave out of what could be packed (`without`: files and
    links), how many entries of which kind cannot be packed, and which rules match nothing."""

    scan: Scan
    within: Side
    without: Side
    special: dict[str, int]
    unused: tuple[str, ...]

    def members(self) -> Iterator[Member]:
        """What is taken, with names from the host's root, in their order."""
        columns = self.within.columns
        path_of, targets = columns.namer(self.scan.root.raw.strip(b"/")), _targets(columns)
        for number in self.within.numbers():
            if name := path_of(number):
                kind, size = _KINDS[columns.kinds[number]], columns.sums[number + 1] - columns.sums[number]
                target = targets.get(number, b"")
                yield Member(name, kind, size, columns.times[number], columns.modes[number], target)

    def largest(self, side: Side) -> list[tuple[str, int]]:
        """The folders that hold most of a side, as pages show paths, with their bytes of it."""
        return [(escape(self.scan.root.join(name).raw), size) for name, size in side.largest_folders()]

    def paths(self, numbers: Sequence[int]) -> list[str]:
        """Some entries as pages show paths."""
        top = self.scan.root.raw.rstrip(b"/")
        return [escape(b"/".join(part for part in (top, self.within.columns.name(one)) if part)) for one in numbers]


def take(scan: Scan, include: Sequence[str], exclude: Sequence[str]) -> Taken:
    """Sort a listing's entries by rules. A folder that is left out is taken when something in it is.

    Raises transfers.rules.RuleError.
    """
    columns = columns_of(scan)
    rules = Rules(include, exclude)
    if scan.folders:
        decided = decide(columns, scan.key.hex, include, exclude)
        mask, unused = decided.mask, decided.unused
    else:  # a resource that is one file: the rules are about its own name
        own = scan.root.base
        mask = bytes(rules.is_in(own, is_folder=False) for _number in range(columns.count))
        unused = rules.unused
    packable = _of_kind(columns, *_KINDS)
    within = bytearray(_both(mask, packable))
    left_out = _both(packable, bytes(within).translate(_FLIP))
    for number in compress(range(columns.count), _both(left_out, _of_kind(columns, FOLDER))):
        if within.find(1, number + 1, number + 1 + columns.below[number]) >= 0:
            within[number] = 1
    without = _both(left_out, _of_kind(columns, FILE, LINK))
    special = _both(mask, packable.translate(_FLIP))
    kinds = [_NAMES[columns.kinds[number]] for number in compress(range(columns.count), special)]
    counts = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return Taken(scan, Side(columns, bytes(within)), Side(columns, without), counts, unused)


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """What rules come to, told without making the list: of all resources together."""

    file_count: int
    entry_count: int
    total_bytes: int
    excluded_count: int
    excluded_bytes: int
    unused: tuple[str, ...]
    largest_in: list[tuple[str, int]]
    largest_out: list[tuple[str, int]]


def rule_counts(scans: Sequence[Scan], include: Sequence[str], exclude: Sequence[str]) -> RuleCounts:
    """Count what rules take of listings that do not lie inside one another. Raises transfers.rules.RuleError."""
    found = [take(scan, include, exclude) for scan in scans]

    def largest(side: str) -> list[tuple[str, int]]:
        folders = [folder for taken in found for folder in taken.largest(getattr(taken, side))]
        return sorted(folders, key=lambda one: (-one[1], one[0]))[:LARGEST_SHOWN]

    unused = [text for text in found[0].unused if all(text in taken.unused for taken in found)] if found else []
    return RuleCounts(
        file_count=sum(taken.within.file_count for taken in found),
        entry_count=sum(taken.within.entry_count for taken in found),
        total_bytes=sum(taken.within.total_bytes for taken in found),
        excluded_count=sum(taken.without.entry_count for taken in found),
        excluded_bytes=sum(taken.without.total_bytes for taken in found),
        unused=tuple(unused),
        largest_in=largest("within"),
        largest_out=largest("without"),
    )


_FLIP = bytes([1, 0]) + bytes(254)


def _of_kind(columns: Columns, *kinds: int) -> bytes:
    table = bytearray(256)
    for kind in kinds:
        table[kind] = 1
    return bytes(columns.kinds).translate(bytes(table))


def _both(one: bytes | bytearray, other: bytes) -> bytes:
    together = int.from_bytes(one, "little") & int.from_bytes(other, "little")
    return together.to_bytes(len(one), "little")


def _targets(columns: Columns) -> dict[int, bytes]:
    """The targets of links, by entry."""
    links = list(compress(range(columns.count), _of_kind(columns, LINK)))
    return dict(zip(links, columns.targets[1:].split(b"\0"), strict=False)) if links else {}


def _folders_in(columns: Columns, folder: int) -> Iterator[int]:
    """The folders directly in a folder."""
    number, end = folder + 1, folder + 1 + columns.below[folder]
    while number < end:
        if columns.kinds[number] == FOLDER:
            yield number
        number += columns.below[number] + 1


class _Weights:
    """Bytes of one side below any folder, from its stretches."""

    def __init__(self, columns: Columns, runs: list[tuple[int, int]]) -> None:
        self._columns, self._runs = columns, runs
        self._ends = [end for _begin, end in runs]
        sizes = (columns.sums[end] - columns.sums[begin] for begin, end in runs)
        self._totals = list(accumulate(sizes, initial=0))

    def of(self, folder: int) -> int:
        """Bytes of the side's files in a folder, at any depth."""
        return self._before(folder + 1 + self._columns.below[folder]) - self._before(folder)

    def _before(self, number: int) -> int:
        at = bisect_right(self._ends, number)
        total = self._totals[at]
        if at < len(self._runs) and self._runs[at][0] < number:
            total += self._columns.sums[number] - self._columns.sums[self._runs[at][0]]
        return total
