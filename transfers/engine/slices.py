"""Stretches of a list: parts of a pack that follow one another by name, cut and joined without losing an entry.

Lists are sorted by name, part by part, so a stretch is two names: the first that is in, and the first that is not any
more. Stretches that follow one another hold every name exactly once, also names that a later scan finds. Folders that
lie above a stretch's first names are in it as well, so that each part makes its own tree whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from transfers.engine.types import Member


def order_key(name: bytes) -> bytes:
    """By this key names stand as in lists: part by part, a folder directly before its content."""
    return name.replace(b"/", b"\0")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Names from `first` on and before `end`, as root-relative bytes; empty: no bound on that side."""

    first: bytes = b""
    end: bytes = b""

    @property
    def is_whole(self) -> bool:
        """True when every name is in it."""
        return not self.first and not self.end

    def holds(self, name: bytes) -> bool:
        """True when the name lies in the stretch."""
        key = order_key(name)
        return order_key(self.first) <= key and (not self.end or key < order_key(self.end))

    def followed_by(self, other: Stretch) -> bool:
        """True when the other stretch begins where this one ends."""
        return bool(self.end) and self.end == other.first


def members_in(members: Sequence[Member], stretch: Stretch) -> list[Member]:
    """The members of a sorted list that lie in the stretch, and the folders above them, in their order."""
    if stretch.is_whole:
        return list(members)
    found: list[Member] = []
    above: list[Member] = []  # folders before the stretch that hold what was last looked at
    for member in members:
        while above and not member.name.startswith(above[-1].name + b"/"):
            above.pop()
        if stretch.holds(member.name):
            found += above
            above.clear()
            found.append(member)
        elif member.kind == "folder":
            above.append(member)
    return found


def cuts_by_bytes(members: Iterable[Member], most_bytes: int) -> list[bytes]:
    """Names at which new parts begin, so that none has more than so many bytes unless one file alone has more."""
    cuts: list[bytes] = []
    total, is_empty = 0, True
    start: bytes | None = None  # the first entry since the last file: folders go with the file that follows them
    for member in members:
        if start is None:
            start = member.name
        if member.kind != "file":
            continue
        if not is_empty and total + member.size_bytes > most_bytes:
            cuts.append(start)
            total = 0
        total += member.size_bytes
        is_empty, start = False, None
    return cuts


def cuts_by_folders(members: Iterable[Member], tops: Sequence[bytes], within: Stretch) -> list[bytes]:
    """Names of the folders of a stretch that lie directly in one of `tops`, without the first: each begins a part.

    What lies beside the folders goes with the folder before it, or with the first.
    """
    homes = {top.strip(b"/") for top in tops}
    names = (one.name for one in members if one.kind == "folder" and one.name not in homes)
    return [name for name in names if name.rpartition(b"/")[0] in homes and within.holds(name)][1:]


def cut(stretch: Stretch, cuts: Sequence[bytes]) -> list[Stretch]:
    """The stretch as parts that begin at the cuts, which lie in it and in order."""
    return [Stretch(first, end) for first, end in pairwise([stretch.first, *cuts, stretch.end])]


def join(stretches: Sequence[Stretch]) -> Stretch | None:
    """One stretch for several that follow one another without a gap; None when they do not."""
    ordered = sorted(stretches, key=lambda one: order_key(one.first))
    if not all(one.followed_by(other) for one, other in pairwise(ordered)):
        return None
    return Stretch(ordered[0].first, ordered[-1].end)
