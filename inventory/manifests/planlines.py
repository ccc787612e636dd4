"""What a plan file says, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from inventory.remote.names import RemoteName

CHUNK_BYTES = 64 * 2**20
Basis = Literal["exact", "declared", "about", "unknown"]


@dataclass(frozen=True, slots=True)
class TierLine:
    """An ordered class of value; position 1 comes first."""

    position: int
    name: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ResourceLine:
    """Something on the host. `position` counts from 1 within its tier, in the order of the file."""

    name: str
    path: RemoteName | None
    kind: str
    tier: int | None
    position: int
    size_bytes: int | None
    size_basis: Basis
    value: str = ""
    recommendation: str = ""


@dataclass(frozen=True, slots=True)
class PackLine:
    """Something to be brought home; packs are carried out in the order of the file."""

    name: str
    aim: str
    mode: str
    resources: tuple[str, ...]
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    chunk_bytes: int = CHUNK_BYTES
    on_hold: bool = False
    hold_reason: str = ""
    hold_until_at: datetime | None = None  # what ends the hold by itself, whichever comes first
    hold_until_rest: bool = False
    hold_until_rate: int | None = None  # bytes a second
    leaves_out_carried: bool = False
    leaves_out_here: bool = False
    first_name: bytes = b""  # of a part of a pack that was split: root-relative, empty for no bound
    end_name: bytes = b""
    delta_of: str = ""
    came_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CapabilityLine:
    """What can be done once every group of `needs` is met by any one of its packs."""

    name: str
    description: str
    needs: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class PlanFile:
    """One host's plan as a file."""

    tiers: tuple[TierLine, ...] = ()
    resources: tuple[ResourceLine, ...] = ()
    packs: tuple[PackLine, ...] = ()
    capabilities: tuple[CapabilityLine, ...] = ()
    clear_by: date | None = None
    stated_bytes_per_second: int | None = None
    stated_packed_percent: int | None = None
