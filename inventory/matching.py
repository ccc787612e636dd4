"""Which entries of a listing are wanted, in which order: on columns, a million in some hundredths of a second.

What narrows (kind, size, state, tier) becomes one byte an entry, which is searched at the speed of memory; a name's
pattern is looked for in the heap of all names by its longest plain piece. Where either is rare, that one leads.
"""

from __future__ import annotations

import fnmatch
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from inventory.columns import KIND_LETTERS, Columns
from inventory.remote.names import unescape

_SPECIAL = re.compile(r"[*?\[]")
_STEPS = 1024  # between two looks at the clock
_FEW = 20_000  # entries that are looked at one by one sooner than all names are searched
_SORTED = 10_000  # findings that are sorted; of more, the listing's own order is walked


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for. An empty field asks nothing. Sizes in bytes, of files. `tier` is a tier's id."""

    name: str = ""
    kind: str = ""
    least_bytes: int | None = None
    most_bytes: int | None = None
    sort: str = ""
    has_no_digest: bool = False
    state: str = ""
    tier: int | None = None

    @property
    def is_any(self) -> bool:
        """True when it asks anything at all."""
        return self != Search()


class OutOfTime(Exception):
    """The search took too long. `number` is the entry that it stood at; None when it cannot go on from there."""

    def __init__(self, number: int | None) -> None:
        super().__init__(number)
        self.number = number


class Pattern:
    """A name's pattern: with `*`, `?` or `[…]` of the whole last part (of the whole name when it holds a slash); other
    text is looked for anywhere in the last part. A backslash escapes as pages show names."""

    def __init__(self, text: str) -> None:
        self.piece = _longest_piece(text)
        self._is_whole = "/" in text
        self.folder = b""  # what has the pattern lies below this one
        self._end = b""  # of a pattern with a slash: what the last part ends with
        if _SPECIAL.search(text):
            plain = _SPECIAL.split(text, maxsplit=1)[0]
            self.folder = _bytes_of(plain.rpartition("/")[0])
            self._end = _bytes_of(re.split(r"[*?\]/]", text)[-1])
            translated = fnmatch.translate(_bytes_of(text).decode("latin-1"))
            self._match = re.compile(translated.encode("latin-1"), re.DOTALL).match
        else:
            self._match = re.compile(re.escape(_bytes_of(text)), re.DOTALL).search

    def tester(self, columns: Columns) -> Callable[[int], bool]:
        """Tells of each entry whether its name has the pattern."""
        shown, match = columns.namer() if self._is_whole else columns.base, self._match
        return lambda number: match(shown(number)) is not None

    @property
    def leads(self) -> bytes:
        """What every tail of a matching name holds; empty when nothing of it can be told."""
        return self._end if self._is_whole else self.piece


def mask_of(
    columns: Columns, wanted: Search, *, states: bytes | None, tiers: Iterable[tuple[int, int, bool]]
) -> bytes | None:
    """One byte an entry, 1 where kind, size, state and tier are as wanted; None when they ask nothing.

    `states` has one letter an entry; None: all are unexplained. `tiers` are runs (first, behind the last, whether its
    tier is the wanted one), of which a later one counts.
    """
    masks = []
    if wanted.kind in KIND_LETTERS:
        masks.append(_where(columns.kinds, KIND_LETTERS[wanted.kind]))
    if wanted.least_bytes is not None or wanted.most_bytes is not None:
        masks.append(_where(columns.kinds, b"f"))
        masks.append(_sized(columns, wanted.least_bytes, wanted.most_bytes))
    elif wanted.has_no_digest:
        masks.append(_where(columns.kinds, b"f"))
    if wanted.state:
        masks.append(_where(b"u" * columns.count if states is None else states, wanted.state.encode()))
    if wanted.tier is not None:
        held = bytearray(columns.count)
        for begin, end, is_wanted in tiers:
            held[begin:end] = (b"\1" if is_wanted else b"\0") * (end - begin)
        masks.append(bytes(held))
    if not masks:
        return None
    together = int.from_bytes(masks[0], "little")
    for mask in masks[1:]:
        together &= int.from_bytes(mask, "little")
    return together.to_bytes(columns.count, "little")


def _where(letters: bytes | memoryview, letter: bytes) -> bytes:
    table = bytearray(256)
    table[letter[0]] = 1
    return bytes(letters).translate(bytes(table))


def _sized(columns: Columns, least: int | None, most: int | None) -> bytes:
    """1 where the size of a file is within the borders; of what is no file, anything."""
    orders, count = columns.by_size, columns.count

    def place(border: int, bisect: Callable[..., int]) -> int:
        return bisect(orders, -border, key=lambda number: -columns.weight(number))

    begin = 0 if most is None else place(most, bisect_left)
    end = count if least is None else place(least, bisect_right)
    if begin >= end:
        return bytes(count)
    is_few = end - begin <= count // 2
    mask = bytearray(count) if is_few else bytearray(b"\1") * count
    for number in orders[begin:end] if is_few else chain(orders[:begin], orders[end:]):
        mask[number] = is_few
    return bytes(mask)


@dataclass(frozen=True, slots=True)
class Matching:
    """A search in one listing, within a run of entries (`first`, and `end` behind the last)."""

    columns: Columns
    first: int
    end: int
    mask: bytes | None
    pattern: Pattern | None
    until: float  # by time.monotonic

    def in_order(self, sort: str, start: int | None) -> Iterator[int]:
        """Matching entries in the order of names, or by `size` or `time`, from an entry on. Raises OutOfTime."""
        if sort not in ("size", "time"):
            return self._by_name(self.first if start is None else max(start, self.first))
        order = self.columns.by_size if sort == "size" else self.columns.by_time
        key = self._key(sort)
        few: list[int] = []
        try:
            for number in self._by_name(self.first):
                few.append(number)
                if len(few) > _SORTED:
                    return self._walked(order, key, start)
        except OutOfTime:
            raise OutOfTime(None) from None
        few.sort(key=key)
        return iter(few if start is None else few[bisect_left(few, key(start), key=key) :])

    def _key(self, sort: str) -> Callable[[int], tuple[int, int]]:
        columns = self.columns
        if sort == "size":
            return lambda number: (-columns.weight(number), number)
        return lambda number: (-columns.times[number], number)

    def _walked(self, order: Sequence[int], key: Callable[[int], tuple[int, int]], start: int | None) -> Iterator[int]:
        begin = 0 if start is None else bisect_left(order, key(start), key=key)
        numbers = (order[at] for at in range(begin, len(order)))
        return self._tested(number for number in numbers if self.first <= number < self.end)

    def _by_name(self, first: int) -> Iterator[int]:
        if self.pattern is None or (self.mask is not None and self.mask.count(1, first, self.end) <= _FEW):
            return self._tested(self._masked(first))
        first_below, end_below = self.columns.run_of(self.pattern.folder)
        first, end = max(first, first_below), min(self.end, end_below)
        if self.pattern.leads:
            return self._tested(self.columns.with_piece(self.pattern.leads, first, end))
        return self._tested(iter(range(first, end)))

    def _tested(self, numbers: Iterator[int]) -> Iterator[int]:
        mask = self.mask
        has_pattern = None if self.pattern is None else self.pattern.tester(self.columns)
        for step, number in enumerate(numbers):
            if step % _STEPS == 0 and time.monotonic() > self.until:
                raise OutOfTime(number)
            if (mask is None or mask[number]) and (has_pattern is None or has_pattern(number)):
                yield number

    def _masked(self, first: int) -> Iterator[int]:
        """What is not masked out, as an index into the mask finds it."""
        if self.mask is None:
            yield from range(first, self.end)
            return
        number = self.mask.find(1, first, self.end)
        while number >= 0:
            yield number
            number = self.mask.find(1, number + 1, self.end)


def _bytes_of(text: str) -> bytes:
    """A pattern's bytes: escaped as pages show names, else literally."""
    try:
        return unescape(text)
    except (ValueError, UnicodeEncodeError):
        return text.encode("utf-8", "surrogateescape")


def _longest_piece(text: str) -> bytes:
    """The longest run of a pattern that stands for itself; empty when there is none."""
    if "[" in text:  # what stands in brackets is no run; between them it is not worth the care
        text = text.partition("[")[0]
    pieces = re.split(r"[*?]+", text)
    return max((_bytes_of(piece) for piece in pieces), key=len, default=b"")
