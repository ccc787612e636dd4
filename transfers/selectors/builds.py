"""One pack's page: its builds, their checks, and where on the disk a range of a build lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db.models import Count, Max, Sum

from inventory.remote.names import escape
from transfers.engine.types import CheckLevel, Outcome
from transfers.models import Build, Check, LinkStatus, Mode, Pack, Unpack
from transfers.selectors.board import builds_for_pages
from transfers.selectors.specs import build_folder, build_key, list_members

GOOD = (Outcome.MATCHED, Outcome.RECORDED)
MOST_FAULTS = 200  # lines on a page; the report folder holds all
_NAMES_OF_RANGE = 3


@dataclass(frozen=True, slots=True)
class CheckSum:
    """All comparisons of one level with one outcome."""

    level: str
    outcome: str
    count: int
    length: int
    seconds: float
    last_at: datetime
    is_good: bool


@dataclass(frozen=True, slots=True)
class Fault:
    """One comparison that did not match. `file` is the landing file or the member, escaped; `start` to `end` bytes."""

    check: Check
    subject: str
    file: str
    start: int
    end: int


def builds_of(pack: Pack) -> list[Build]:
    """A pack's builds, newest first."""
    return list(builds_for_pages().filter(pack=pack).order_by("-number"))


def check_sums(build: Build) -> list[CheckSum]:
    """Comparisons of a build, summed by level and outcome."""
    rows = (
        Check.objects.filter(build=build)
        .values("level", "outcome")
        .annotate(rows=Count("pk"), members=Sum("count"), bytes=Sum("length"), took=Sum("seconds"), last=Max("at"))
        .order_by("level", "outcome")
    )
    order = [level.value for level in CheckLevel]
    sums = [
        CheckSum(
            level=row["level"],
            outcome=row["outcome"],
            count=row["members"] or row["rows"],
            length=row["bytes"] or 0,
            seconds=row["took"] or 0.0,
            last_at=row["last"],
            is_good=row["outcome"] in GOOD,
        )
        for row in rows
    ]
    return sorted(sums, key=lambda one: (order.index(one.level) if one.level in order else len(order), one.outcome))


def faults_of(build: Build) -> tuple[list[Fault], int]:
    """The newest comparisons that did not match, at most `MOST_FAULTS`, and how many there are in all."""
    rows = Check.objects.filter(build=build).exclude(outcome__in=GOOD).order_by("-pk")
    count = rows.count()
    checks = list(rows[:MOST_FAULTS])
    places = _places(build, checks)
    return [_fault(build, check, places.get(check.pk, "")) for check in checks], count


def _fault(build: Build, check: Check, place: str) -> Fault:
    raw = bytes(check.subject)
    subject = escape(raw)
    is_ranged = check.level in (CheckLevel.CHUNK, CheckLevel.BLOCK)
    if is_ranged and raw.isdigit():
        subject = str(int(raw) + 1)  # chunk numbers begin with 1 on pages and in chunks.sha256
    return Fault(
        check=check,
        subject=subject,
        file=place or (build.archive_name if is_ranged or not subject else subject),
        start=check.offset,
        end=check.offset + check.length,
    )


def _places(build: Build, checks: Sequence[Check]) -> dict[int, str]:
    """For a build of several files: which of them each failed range touches."""
    ranged = [check for check in checks if check.level in (CheckLevel.CHUNK, CheckLevel.BLOCK)]
    if build.mode != Mode.FILES or not ranged:
        return {}
    names: dict[int, list[str]] = {check.pk: [] for check in ranged}
    at = 0
    for member in list_members(build.member_list or build.entry_list):
        if member.kind != "file":
            continue
        for check in ranged:
            if at < check.offset + check.length and check.offset < at + member.size_bytes:
                names[check.pk].append(escape(member.name))
        at += member.size_bytes
    return {
        pk: ", ".join(found[:_NAMES_OF_RANGE]) + (" …" if len(found) > _NAMES_OF_RANGE else "")
        for pk, found in names.items()
    }


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a host's link as last heard of."""

    number: int
    state: str
    rate_bytes_per_second: float
    silent_seconds: float
    redials: int
    is_here: bool  # it works on the build that was asked about


def lanes_of(status: LinkStatus | None, build: Build | None) -> list[Lane]:
    """The lanes of a link by number, those of `build` marked."""
    if status is None:
        return []
    key = build_key(build) if build is not None else ""
    lanes = [
        Lane(
            number=int(row.get("number", 0)),
            state=str(row.get("state", "")),
            rate_bytes_per_second=float(row.get("rate_bytes_per_second") or 0),
            silent_seconds=float(row.get("silent_seconds") or 0),
            redials=int(row.get("redials") or 0),
            is_here=bool(key) and row.get("build_key") == key,
        )
        for row in status.lanes
    ]
    return sorted(lanes, key=lambda lane: lane.number)


def landing_path(build: Build) -> Path:
    """Where the build lies, or will lie, on this machine."""
    return build_folder(build)


def unpack_path(unpack: Unpack) -> Path | None:
    """Where the unpacked files lie; None until the folder is chosen."""
    return Path(unpack.build.landing.path) / unpack.folder if unpack.folder else None
