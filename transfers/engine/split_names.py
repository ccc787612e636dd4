"""The order of a set of parts, from their names: what `split` and its like number, in digits, letters or hexadecimal.

GNU `split` without `-a` widens its suffixes when they run out, so that names still sort: after `yz` comes `zaaa`,
after `89` comes `9000`, after `ef` comes `f000`. Which way a set was numbered is told by which reading leaves nothing
over and nothing missing; a gap in the middle and a name that fits in nowhere are errors, never passed over in silence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inventory.remote.names import escape

_ALPHABETS = (b"0123456789", b"abcdefghijklmnopqrstuvwxyz", b"0123456789abcdef")
_WIDTHS = range(2, 9)
_SUMS = re.compile(rb"(?i)(?:^|\.)(?:md5|sha1|sha256|sha512|b3)(?:sums?)?(?:\.txt)?$")
_ENDING = re.compile(rb"(?s)(?<=[^/])\.[^./]+$")
NAMED_AT_MOST = 5


@dataclass(eq=False)
class PartsWrong(ValueError):
    """A set of parts that cannot be joined. `str()` is the sentence to show."""

    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class PartNumbers:
    """How a set of names was read: each part's number, and the names that are no parts of it."""

    numbers: Mapping[bytes, int]
    strays: tuple[bytes, ...]
    begins_at_most: int = 0  # 1 where a set may begin with number 1 instead of 0

    @property
    def missing(self) -> tuple[int, ...]:
        """The first few numbers that no name has, before the last one."""
        return tuple(number for _at, number in zip(range(NAMED_AT_MOST), self._gaps(), strict=False))

    @property
    def missing_count(self) -> int:
        """How many numbers are missing."""
        have = set(self.numbers.values())
        return max(have) + 1 - min([self.begins_at_most, *have]) - len(have) if have else 0

    @property
    def faults(self) -> tuple[int, int, int]:
        """Names left over, numbers missing, numbers that stand twice: the less, the likelier this reading is."""
        return len(self.strays), self.missing_count, len(self.numbers) - len(set(self.numbers.values()))

    def _gaps(self) -> Iterator[int]:
        have = sorted(self.numbers.values())
        expected = min([self.begins_at_most, *have[:1]])
        for number in have:
            yield from range(expected, number)
            expected = number + 1

    def ordered(self) -> list[bytes]:
        """The parts in order. Raises PartsWrong for a gap, a stray name, or two parts of one number."""
        if self.strays:
            names = ", ".join(f"“{escape(name)}”" for name in self.strays[:NAMED_AT_MOST])
            raise PartsWrong(
                f"{len(self.strays):,} of the files are no part of the set: {names}. Nothing was joined. Leave them "
                "out by a rule, or move them elsewhere."
            )
        if len(set(self.numbers.values())) != len(self.numbers):
            raise PartsWrong("Two parts have the same number. Nothing was joined. Leave one of them out by a rule.")
        if self.missing:
            numbers = ", ".join(str(number) for number in self.missing)
            more = " and more" if self.missing_count > len(self.missing) else ""
            raise PartsWrong(
                f"The set is not whole: {self.missing_count:,} of its parts are missing (number {numbers}{more}). "
                "Nothing was joined. Find them, or fetch the files as they are."
            )
        return sorted(self.numbers, key=self.numbers.__getitem__)


def is_list_of_sums(name: bytes) -> bool:
    """True for a name that lists of checksums have (SHA256SUMS, pack.tar.sha256, …); such a file is no part."""
    return _SUMS.search(name.rpartition(b"/")[2]) is not None


def number_parts(names: Iterable[bytes]) -> PartNumbers:
    """Read the numbers of parts from their names (the last component counts; all must lie in one folder).

    Of all readings the one is taken that leaves the fewest names over and the fewest numbers missing. A lone file is
    part 0 of a set of one.
    """
    found = list(dict.fromkeys(names))
    if len(found) < 2:
        return PartNumbers(dict.fromkeys(found, 0), ())
    best = PartNumbers({}, tuple(found))
    for numbers, begins_at_most in _readings(found):
        reading = PartNumbers(numbers, tuple(name for name in found if name not in numbers), begins_at_most)
        if not any(reading.faults):
            return reading
        best = min(best, reading, key=lambda one: one.faults)
    return best


def _readings(names: Sequence[bytes]) -> Iterator[tuple[dict[bytes, int], int]]:
    for key in _digit_keys(names):
        yield {name: int(token) for name, token in _between(names, *key) if token.isdigit()}, 1
    for suffix in _endings(names):
        stems = [name for name in names if name.endswith(suffix)]
        for width in _WIDTHS:
            for prefix in _prefixes(stems, width + len(suffix)):
                yield from _numbered(stems, prefix, suffix, width)


def _prefixes(names: Sequence[bytes], taken_off: int) -> list[bytes]:
    """What may stand before the numbers: of most names, and of the shortest, since widened numbers come later."""
    long_enough = [name for name in names if len(name) >= taken_off]
    most = [prefix for prefix, _n in Counter(name[:-taken_off] for name in long_enough).most_common(2)]
    shortest = [name[:-taken_off] for name in sorted(long_enough, key=len)[:3]]
    return list(dict.fromkeys([*most, *shortest]))


def _numbered(
    names: Sequence[bytes], prefix: bytes, suffix: bytes, width: int
) -> Iterator[tuple[dict[bytes, int], int]]:
    ways: list[Callable[[bytes, bytes, int], int | None]] = [_fixed, _widened] if width == 2 else [_fixed]
    for alphabet in _ALPHABETS:
        for way in ways:
            read = ((name, way(token, alphabet, width)) for name, token in _between(names, prefix, suffix))
            yield {name: number for name, number in read if number is not None}, 0


def _digit_keys(names: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """What stands before and after the run of digits that tells most names apart."""
    keys = Counter((name[: run.start()], name[run.end() :]) for name in names for run in re.finditer(rb"\d+", name))
    return [key for key, count in keys.most_common(3) if count > 1]


def _endings(names: Sequence[bytes]) -> list[bytes]:
    endings = Counter(found[0] for name in names if (found := _ENDING.search(name)))
    return [b"", *(ending for ending, count in endings.most_common(2) if count > 1)]


def _between(names: Sequence[bytes], prefix: bytes, suffix: bytes) -> Iterator[tuple[bytes, bytes]]:
    for name in names:
        if len(name) > len(prefix) + len(suffix) and name.startswith(prefix) and name.endswith(suffix):
            yield name, name[len(prefix) : len(name) - len(suffix)]


def _value(token: bytes, alphabet: bytes) -> int | None:
    value = 0
    for sign in token:
        digit = alphabet.find(sign)
        if digit < 0:
            return None
        value = value * len(alphabet) + digit
    return value


def _fixed(token: bytes, alphabet: bytes, width: int) -> int | None:
    return _value(token, alphabet) if len(token) == width else None


def _widened(token: bytes, alphabet: bytes, width: int) -> int | None:
    """`split`'s own widening: each leading last sign makes the suffix two signs longer."""
    last, base = alphabet[-1:], len(alphabet)
    rounds = (len(token) - width) // 2
    if len(token) != width + 2 * rounds or token[:rounds] != last * rounds or token[rounds : rounds + 1] == last:
        return None
    rest = _value(token[rounds:], alphabet)
    if rest is None:
        return None
    before = sum((base - 1) * int(base ** (width - 1 + step)) for step in range(rounds))
    return before + rest
