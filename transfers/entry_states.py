"""Which state each entry of a listing is in: told by what packs carry, in one pass over both in the order of names.

    verified     a build that is verified at least carries it, and its content there is the same: by digest where both
                 sides have one, else by size and time of change (links: by target; folders: by being there)
    planned      a list of a draft, a proposal or the revision in force carries its name
    unexplained  neither

Plain Python; `transfers.services.entry_states` feeds it from rows and keeps what comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

VERIFIED, PLANNED, UNEXPLAINED = "v", "p", "u"


class Listed(NamedTuple):
    """An entry of a listing. `key` is its path on the host with a NUL for each slash, which sorts as listings do."""

    key: bytes
    kind: str
    size_bytes: int
    mtime_ns: int
    sha256: bytes | None
    link_target: bytes


class Carried(NamedTuple):
    """A member of a list. `is_verified`: of a build that was read back and matched."""

    key: bytes
    kind: str
    size_bytes: int
    mtime_ns: int
    sha256: bytes | None
    link_target: bytes
    is_verified: bool


def states(entries: Iterable[Listed], carried: Iterable[Carried]) -> Iterator[str]:
    """A letter an entry. Both come in the order of their keys; a key of `carried` may come several times."""
    members = iter(carried)
    member = next(members, None)
    for entry in entries:
        key = entry.key
        while member is not None and member.key < key:
            member = next(members, None)
        state = UNEXPLAINED
        while member is not None and member.key == key:
            if state != VERIFIED:
                if member.is_verified and _is_same(entry, member):
                    state = VERIFIED
                elif not member.is_verified and member.kind == entry.kind:
                    state = PLANNED
            member = next(members, None)
        yield state


def _is_same(entry: Listed, member: Carried) -> bool:
    if entry.kind != member.kind:
        return False
    if entry.kind == "link":
        return entry.link_target == member.link_target
    if entry.kind != "file":
        return True
    if entry.size_bytes != member.size_bytes:
        return False
    if entry.sha256 is not None and member.sha256 is not None:
        return entry.sha256 == member.sha256
    return entry.mtime_ns == member.mtime_ns
