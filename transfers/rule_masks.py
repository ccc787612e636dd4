"""Rules over a whole listing at once: pattern by pattern over its columns, not entry by entry.

A pattern of gitignore matches an entry by the last part of its name, or by a folder above it. So each pattern is tried
only on entries whose last part can match (they are found by the plain piece of it), and a folder that it matches
covers all that lies in it at once: a million entries are decided without looking at most of them. Matching itself is
done by the library pathspec, on the whole name, so the meaning is exactly that of `transfers.rules.Rules`; a property
test holds the two together.

What a pattern matches is remembered for a listing, so that one more rule costs that rule only. Plain Python.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_SPECIAL = re.compile(r"[*?\[\\]")
_NO_MARK, _MARK = 2, 1  # by itself or a folder's whole content; through a folder: the weaker one
_KEPT = 48


class Tree(Protocol):
    """What is asked of a listing; see `inventory.columns.Columns`."""

    @property
    def count(self) -> int: ...
    @property
    def below(self) -> Sequence[int]: ...
    @property
    def kinds(self) -> bytes | memoryview: ...
    @property
    def has_line_feeds(self) -> bool: ...

    def tail(self, number: int) -> bytes: ...
    def namer(self) -> Callable[[int], bytes]: ...
    def run_of(self, name: bytes) -> tuple[int, int]: ...
    def with_piece(self, piece: bytes, first: int, end: int) -> Iterator[int]: ...


@dataclass(frozen=True, slots=True)
class Decided:
    """One byte an entry: 1 where the rules take it in. `unused` are the patterns that matched nothing."""

    mask: bytes
    unused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Matches:
    """One byte an entry: 1 where the pattern matches through a folder, and where it does so by itself."""

    through: bytes
    itself: bytes

    @property
    def is_any(self) -> bool:
        return 1 in self.through or 1 in self.itself


_known: OrderedDict[tuple[str, str, bool], _Matches] = OrderedDict()
_lock = threading.Lock()


def decide(tree: Tree, key: str, include: Sequence[str], exclude: Sequence[str]) -> Decided:
    """Which entries rules take in. `key` names the listing's content. The patterns were checked by `Rules` before."""
    size = tree.count
    included, unused_include = _covered(tree, key, include)
    excluded, unused_exclude = _covered(tree, key, exclude)
    everything = int.from_bytes(b"\1" * size, "little")
    has_include = bool(_texts(include))
    mask = bytearray(((included if has_include else everything) & ~excluded & everything).to_bytes(size, "little"))
    if size and not tree.tail(0):
        mask[0] = not has_include  # the resource itself has no name that a pattern could match
    return Decided(bytes(mask), (*unused_include, *unused_exclude))


def _texts(patterns: Sequence[str]) -> list[str]:
    return [text for line in patterns if (text := line.strip()) and not text.startswith("#")]


def _covered(tree: Tree, key: str, patterns: Sequence[str]) -> tuple[int, list[str]]:
    """As a number with one byte an entry, which a list of patterns covers; and those that match nothing.

    The last pattern that matches an entry by itself decides; where none does, the last one through a folder.
    """
    by_itself, through, is_told, unused = 0, 0, 0, []
    texts = _texts(patterns)
    is_mixed = any(text.startswith("!") for text in texts)
    for text in texts:
        found = _matches(tree, key, text, is_mixed=is_mixed)
        if not found.is_any:
            unused.append(text)
            continue
        itself, folder = int.from_bytes(found.itself, "little"), int.from_bytes(found.through, "little")
        is_told |= itself
        if text.startswith("!"):
            by_itself &= ~itself
            through &= ~folder
        else:
            by_itself |= itself
            through |= folder
    return by_itself | (through & ~is_told), unused


def _matches(tree: Tree, key: str, text: str, *, is_mixed: bool) -> _Matches:
    asked = (key, text, is_mixed)
    with _lock:
        found = _known.get(asked)
        if found is not None:
            _known.move_to_end(asked)
            return found
    found = _look(tree, text, is_mixed=is_mixed)
    with _lock:
        _known[asked] = found
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    return found


def _look(tree: Tree, text: str, *, is_mixed: bool) -> _Matches:
    """`is_mixed`: others in its list take back, so it matters what matches by itself within a covered folder."""
    pattern = GitIgnoreSpecPattern(text)
    through, itself = bytearray(tree.count), bytearray(tree.count)
    if pattern.include is None:
        return _Matches(bytes(through), bytes(itself))
    text = text[1:] if text.startswith("!") else text
    parts = text.strip("/").split("/")
    is_anywhere = len(parts) == 1 and not text.startswith("/")
    # A pattern of one part asks for nothing above; but pathspec's “anything” does not reach over a line feed there.
    shown = tree.tail if is_anywhere and "**" not in text and not tree.has_line_feeds else tree.namer()
    covered = 0
    for number in _candidates(tree, parts, is_anywhere=is_anywhere):
        is_folder = tree.kinds[number] == ord("d")
        if number < covered and (is_folder or not is_mixed):
            continue
        name = shown(number)
        match = (
            pattern.match_file(name.decode("utf-8", "surrogateescape") + ("/" if is_folder else "")) if name else None
        )
        if match is None:
            continue
        is_marked = "ps_d" in match.match.groupdict() and match.match.group("ps_d") is not None
        mask = through if is_marked else itself
        if not is_folder:
            mask[number] = 1
            continue
        end = number + tree.below[number] + 1
        mask[number:end] = b"\1" * (end - number)
        covered = max(covered, end)
    return _Matches(bytes(through), bytes(itself))


def _candidates(tree: Tree, parts: list[str], *, is_anywhere: bool) -> Iterator[int]:
    """Entries that a pattern could match by their own last part: all that can, and as few others as is easy."""
    first, end = 0, tree.count
    if not is_anywhere:
        plain = []
        for part in parts[:-1]:
            if _SPECIAL.search(part) or not part:
                break
            plain.append(part)
        first, end = tree.run_of(_bytes("/".join(plain)))
    last = next((part for part in reversed(parts) if part != "**"), "")
    piece = _piece(last)
    return tree.with_piece(piece, first, end) if piece else iter(range(first, end))


def _piece(part: str) -> bytes:
    """A run of plain characters that every name matching this part holds; empty when none is easily told."""
    begin = _SPECIAL.split(part, maxsplit=1)[0]
    rest = re.split(r"[*?\]]", part)[-1] if "\\" not in part else ""
    return _bytes(max(begin, "" if "[" in rest else rest, key=len))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
