"""What a build leaves to other packs, and which builds at home hold it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transfers.engine.satisfied import SAME_FILE, carrier_of
from transfers.engine.types import Member
from transfers.engine.unpack_satisfied import Lender, Satisfied, expected_of
from transfers.models import Build, BuildState, Mode, Pack
from transfers.selectors.board import USABLE
from transfers.selectors.specs import landed_path, list_members


def satisfied_members(build: Build) -> list[Member]:
    """The entries that a build leaves to other packs; see `transfers.engine.satisfied`."""
    found = build.item.satisfied_list
    return list(list_members(found)) if found is not None else []


def carrier_names(build: Build) -> list[str]:
    """The other packs that carry what a build leaves out."""
    if build.item.satisfied_list_id is None:
        return []
    return [one["pack"] for one in build.item.carriers if one["pack"] != build.pack.name]


def carriers_awaited(build: Build) -> list[str]:
    """The packs that must be opened before the build's tree is whole."""
    names = carrier_names(build)
    if not names:
        return []
    opened = Pack.objects.filter(plan=build.pack.plan_id, name__in=names, builds__state__in=USABLE)
    here = set(opened.values_list("name", flat=True))
    return [name for name in names if name not in here]


@dataclass(frozen=True)
class Holding:
    """A build at home and the content that it holds: digests of its files, by the names that they have there."""

    build: Build

    @cached_property
    def names(self) -> Mapping[bytes, bytes]:
        if self.build.mode == Mode.EXISTING:
            files = [member.name for member in list_members(self.build.entry_list) if member.kind == "file"]
            return {name: bytes.fromhex(self.build.sha256) for name in files[:1]}
        return expected_of(list_members(self.build.member_list or self.build.entry_list))

    @cached_property
    def by_digest(self) -> Mapping[bytes, bytes]:
        return {digest: name for name, digest in self.names.items()}

    @property
    def lender(self) -> Lender:
        kinds = {Mode.FILES: "files", Mode.EXISTING: "whole"}
        return Lender(landed_path(self.build), kinds.get(Mode(self.build.mode), "archive"), self.names)


def holdings(build: Build) -> list[Holding]:
    """Builds that may hold what a build leaves out: of the packs that carry it, the usable ones first.

    Builds that were opened and replaced since come last: their bytes are kept, and every file is compared again.
    """
    names = carrier_names(build)
    rows = Build.objects.filter(pack__plan=build.pack.plan_id, pack__name__in=names, opened_at__isnull=False)
    rows = rows.filter(state__in=[*USABLE, BuildState.REPLACED])
    found = list(rows.select_related("pack__plan__host", "landing", "entry_list", "member_list"))
    found.sort(key=lambda one: (one.state == BuildState.REPLACED, names.index(one.pack.name), -one.number))
    return [Holding(one) for one in found]


@dataclass(frozen=True, slots=True)
class Account:
    """Who holds what a build leaves out: (entry, build, name there); `missing` are entries that nobody holds."""

    held: tuple[tuple[Member, Build, bytes], ...]
    missing: tuple[Member, ...]

    def by_build(self) -> Iterator[tuple[Build, int, int]]:
        """(build, files, bytes), in the order in which they lend."""
        counts: dict[int, tuple[Build, int, int]] = {}
        for member, build, _name in self.held:
            _build, files, size = counts.get(build.pk, (build, 0, 0))
            counts[build.pk] = (build, files + 1, size + member.size_bytes)
        yield from counts.values()


def account_satisfied(build: Build, own: Mapping[bytes, bytes]) -> Account:
    """Find the content of every entry that a build leaves out. `own` are its own files' digests by name."""
    lent = [one for one in holdings(build) if one.build.state in USABLE]
    own_names = {digest: name for name, digest in own.items()}
    held: list[tuple[Member, Build, bytes]] = []
    missing: list[Member] = []
    places: dict[bytes, tuple[Build, bytes]] = {}
    for member in satisfied_members(build):
        carrier = carrier_of(member)
        if carrier.pack == SAME_FILE:
            place = places.get(carrier.name) or ((build, carrier.name) if carrier.name in own else None)
        else:
            place = _place(member, build, own_names if carrier.pack == build.pack.name else {}, lent)
        if place is None:
            missing.append(member)
            continue
        places[member.name] = place
        held.append((member, *place))
    return Account(tuple(held), tuple(missing))


def _place(
    member: Member, build: Build, own_names: Mapping[bytes, bytes], lent: Sequence[Holding]
) -> tuple[Build, bytes] | None:
    digest = member.sha256 or b""
    if digest in own_names:
        return build, own_names[digest]
    return next(((one.build, one.by_digest[digest]) for one in lent if digest in one.by_digest), None)


def satisfied_for_unpack(build: Build) -> Satisfied:
    """What an unpacked tree of the build gets from elsewhere."""
    members = satisfied_members(build)
    lenders = [one.lender for one in holdings(build) if _is_there(one.lender.source)] if members else []
    return Satisfied(members, build.pack.name, lenders)


def _is_there(path: Path) -> bool:
    return path.exists()


def total_of(members: Iterable[Member]) -> int:
    """Bytes of all of them."""
    return sum(member.size_bytes for member in members)
