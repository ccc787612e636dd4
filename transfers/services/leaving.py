"""What a pack need not carry because it is already here, and what the packs that were opened prove to be here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _

from inventory.models import Entry, HadFile, HadSource, HadState, Resource
from inventory.rawrows import rows_raw
from inventory.selectors import latest_scan
from inventory.services.had_runs import Proof
from transfers.engine.types import Member
from transfers.models import Build, BuildState, Item, Mode
from transfers.selectors.specs import list_members

LEAVING_MODES = (Mode.ARCHIVE, Mode.FILES)  # one existing archive, or its parts, is carried whole or not at all
_PROVEN = (BuildState.OPENED, BuildState.PERMITTED, BuildState.CLEARED)


@dataclass(frozen=True, slots=True)
class Left:
    """An item's list taken apart: what is carried, and what is left out, with the digest that says so."""

    kept: list[Member]
    here: list[Member]


def here_left_out(item: Item, members: list[Member]) -> Left:
    """Leave out the files whose content is already here. Empty files stay: they cost nothing, and trees stay whole.

    Raises ValidationError when nothing would be left.
    """
    if not item.leaves_out_here or item.mode not in LEAVING_MODES:
        return Left(members, [])
    known = _covered(item.resources.all())
    kept, here = [], []
    for member in members:
        digest = known.get(member.name) if member.kind == "file" else None
        if digest is None:
            kept.append(member)
        else:
            here.append(replace(member, sha256=digest))
    if here and not any(member.kind == "file" for member in kept):
        raise ValidationError(
            _(
                "Every file of pack “%(pack)s” is already here, so nothing would be left of it. Take it out of the "
                "draft, or let it carry what is here as well."
            )
            % {"pack": item.pack.name}
        )
    return Left(kept, here)


def _covered(resources: Iterable[Resource]) -> dict[bytes, bytes]:
    """Root-relative names of files in the latest scans whose content is already here, with the digest."""
    here = HadFile.objects.filter(source__state=HadState.FINISHED, sha256=OuterRef("sha256"))
    found: dict[bytes, bytes] = {}
    for resource in resources:
        scan = latest_scan(resource)
        if scan is None:
            continue
        top = scan.root.raw.strip(b"/")
        rows = scan.entries.filter(Exists(here), kind=Entry.Kind.FILE, sha256__isnull=False, size_bytes__gt=0)
        for name, sha256 in rows_raw(rows.order_by(), "name", "sha256"):
            full = b"/".join(part for part in (top, bytes(name)) if part)
            found.setdefault(full, bytes(sha256))
    return found


def landing_proofs(source: HadSource) -> Iterator[Proof]:
    """Every member that a pack opened in a landing was proven to hold; its name is where it lies."""
    builds = Build.objects.filter(landing__name=source.place.raw.decode("utf-8", "replace"), state__in=_PROVEN)
    for build in builds.select_related("member_list", "entry_list").order_by("pk"):
        for member in list_members(build.member_list or build.entry_list):
            if member.kind == "file" and member.sha256 is not None and member.size_bytes:
                place = f"{build.folder}/{build.archive_name}".rstrip("/").encode("utf-8", "surrogateescape")
                yield Proof(place + b": /" + member.name, member.size_bytes, member.sha256)
