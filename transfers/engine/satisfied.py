"""Entries that a pack leaves out because their content is carried elsewhere, and where each of them finds it.

A *satisfied* entry is a file of a pack's tree that is not among what the pack itself carries. It stands in a list of
its own, with its digest, and its link target says where the content is:

    PACK/NAME    the pack that carries it (maybe the same one, under another name) and the name that it has there
    =/NAME       it is the same file as NAME of this tree: a hard link

A digest has one carrier: the first pack in order that carries it. Several names of one file on the host stay several
names of one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from transfers.engine.types import Member

SAME_FILE = "="


@dataclass(frozen=True, slots=True)
class Known:
    """What the source told of a file: its digest, and (device, inode) where the file has several names."""

    sha256: bytes
    file: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Carrier:
    """Who carries content: a pack, and the name that it has there. `pack` is "=" for a hard link in the same tree."""

    pack: str
    name: bytes


@dataclass(slots=True)
class Amount:
    """Files and their bytes."""

    files: int = 0
    size_bytes: int = 0


@dataclass
class Shared:
    """A pack's list, taken apart: what it carries itself, and what is carried elsewhere, by pack."""

    kept: list[Member] = field(default_factory=list)
    satisfied: list[Member] = field(default_factory=list)
    by_pack: dict[str, Amount] = field(default_factory=dict)
    unknown: Amount = field(default_factory=Amount)  # files whose digest nobody knows: they are kept


def carrier_of(member: Member) -> Carrier:
    """Where a satisfied entry finds its content."""
    pack, _slash, name = member.link_target.partition(b"/")
    return Carrier(pack.decode("ascii"), name)


def left_out_alike(one: Iterable[Member], other: Iterable[Member]) -> bool:
    """True when two lists of satisfied entries give the same tree, whichever packs carry the content."""
    return list(map(_whoever_carries, one)) == list(map(_whoever_carries, other))


def _whoever_carries(member: Member) -> Member:
    is_link = carrier_of(member).pack == SAME_FILE
    return member if is_link else replace(member, link_target=b"")


def share(
    pack: str,
    members: Iterable[Member],
    known: Mapping[bytes, Known],
    carried: Mapping[bytes, Carrier],
    *,
    links_are_free: bool,
) -> Shared:
    """Take a pack's list apart. `known` is keyed by name, `carried` by digest: what packs before this one carry.

    `links_are_free`: the pack holds further names of one file without holding its bytes again, as tar does.
    """
    found = Shared()
    own: dict[bytes, bytes] = {}  # digest → name of what this pack carries itself
    firsts: dict[tuple[int, int], tuple[bytes, str, bool]] = {}  # file → (first name here, carrier, whether it is kept)
    for member in members:
        told = known.get(member.name)
        if member.kind != "file" or not member.size_bytes or told is None:
            found.kept.append(member)
            if member.kind == "file" and member.size_bytes:
                found.unknown.files += 1
                found.unknown.size_bytes += member.size_bytes
            continue
        if told.file is not None and told.file in firsts:
            first, carrier, is_kept = firsts[told.file]
            if is_kept and links_are_free:
                found.kept.append(member)
            else:
                _leave(found, member, told, Carrier(SAME_FILE, first), carrier, 0 if links_are_free else None)
            continue
        elsewhere = carried.get(told.sha256)
        if elsewhere is None and told.sha256 in own:
            elsewhere = Carrier(pack, own[told.sha256])
        if elsewhere is None:
            own[told.sha256] = member.name
            found.kept.append(member)
        else:
            _leave(found, member, told, elsewhere, elsewhere.pack)
        if told.file is not None:
            firsts[told.file] = (member.name, elsewhere.pack if elsewhere else pack, elsewhere is None)
    return found


def _leave(
    found: Shared, member: Member, told: Known, place: Carrier, counted_for: str, saved: int | None = None
) -> None:
    amount = found.by_pack.setdefault(counted_for, Amount())
    amount.files += 1
    amount.size_bytes += member.size_bytes if saved is None else saved
    target = place.pack.encode("ascii") + b"/" + place.name
    found.satisfied.append(replace(member, sha256=told.sha256, link_target=target))
