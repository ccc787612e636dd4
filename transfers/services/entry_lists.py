"""From rules to the explicit list: what a pack carries is decided here, on the scan, and nowhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import zstandard
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from inventory.models import Entry, Resource
from inventory.remote.names import escape
from inventory.selectors import latest_scan
from transfers.engine.members import encode_members
from transfers.engine.slices import members_in
from transfers.engine.split_names import PartsWrong, is_list_of_sums, number_parts
from transfers.engine.types import Member
from transfers.models import EntryList, Item, Mode
from transfers.rules import RuleError
from transfers.selectors.lists import file_names_stream
from transfers.selectors.revisions import items_before
from transfers.selectors.specs import list_members
from transfers.selectors.taking import LARGEST_SHOWN, take
from transfers.services.delta_lists import delta_members
from transfers.services.host_means import need_means

SAMPLE_NAMES = 20


@dataclass(frozen=True, slots=True)
class Preview:
    """What the rules of an item come to. Names in samples are escaped; bytes are those of files."""

    file_count: int
    entry_count: int
    total_bytes: int
    excluded_count: int
    excluded_bytes: int
    warnings: tuple[str, ...]
    included_sample: tuple[str, ...]
    excluded_sample: tuple[str, ...]
    largest_in: Sequence[tuple[str, int]] = ()  # folders as pages show their paths, with the bytes of files in them
    largest_out: Sequence[tuple[str, int]] = ()


@dataclass
class _Sorted:
    """The entries of an item's resources, sorted into those that are in and those that are out."""

    members: dict[bytes, Member] = field(default_factory=dict)
    excluded_count: int = 0
    excluded_bytes: int = 0
    excluded_sample: list[str] = field(default_factory=list)
    special: dict[str, int] = field(default_factory=dict)
    unused_rules: list[str] | None = None
    largest_in: list[tuple[str, int]] = field(default_factory=list)
    largest_out: list[tuple[str, int]] = field(default_factory=list)


def item_evaluate(item: Item) -> tuple[list[Member], Preview]:
    """Evaluate an item's rules on the latest scans of its resources; writes nothing.

    Raises ValidationError: no resource, a resource without a finished scan, a pattern that means nothing, or content
    that the mode can't carry.
    """
    need_means(item.revision.plan.host, item.mode)
    members, sorting = item_members(item)
    told: tuple[str, ...] = ()
    if item.delta_of is not None:
        members, told = delta_members(item, item.delta_of, members)
    _check_mode(item, members)
    files = [member for member in members if member.kind == "file"]
    preview = Preview(
        file_count=len(files),
        entry_count=len(members),
        total_bytes=sum(member.size_bytes for member in files),
        excluded_count=sorting.excluded_count,
        excluded_bytes=sorting.excluded_bytes,
        warnings=(*told, *_warnings(item, sorting), *(_overlaps(item, members) if item.delta_of is None else ())),
        included_sample=tuple(escape(b"/" + member.name) for member in _spread(files)),
        excluded_sample=tuple(sorting.excluded_sample),
        largest_in=_largest(sorting.largest_in),
        largest_out=_largest(sorting.largest_out),
    )
    return members, preview


def _largest(folders: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(folders, key=lambda one: (-one[1], one[0]))[:LARGEST_SHOWN]


def item_members(item: Item) -> tuple[list[Member], _Sorted]:
    """What an item's rules give on the latest scans, whatever other packs hold of it. Raises ValidationError."""
    resources = list(item.resources.order_by("pk"))
    if not resources:
        raise ValidationError(_("Pack “%(pack)s” names no resource. Choose at least one.") % {"pack": item.pack.name})
    sorting = _Sorted()
    for resource in resources:
        _sort_resource(item, resource, sorting)
    members = list(sorting.members.values())
    if len(resources) > 1 or item.mode == Mode.PARTS:  # a listing is in the order of names already
        members = _in_order(item.mode, members)
    return members_in(members, item.stretch), sorting


def _sort_resource(item: Item, resource: Resource, sorting: _Sorted) -> None:
    if not resource.path.raw:
        raise ValidationError(
            _("“%(name)s” has no path on the host, so nothing of it can be packed. Give it one first.")
            % {"name": resource.name}
        )
    scan = latest_scan(resource)
    if scan is None:
        raise ValidationError(
            _("“%(name)s” was not scanned yet, so nobody knows what is in it. Scan it, then preview again.")
            % {"name": resource.name}
        )
    try:
        taken = take(scan, item.include_rules, item.exclude_rules)
    except RuleError as error:
        raise ValidationError(str(error)) from error
    for member in taken.members():
        sorting.members.setdefault(member.name, member)
    sorting.excluded_count += taken.without.entry_count
    sorting.excluded_bytes += taken.without.total_bytes
    if not sorting.excluded_sample:
        sorting.excluded_sample = taken.paths(taken.without.numbers()[:SAMPLE_NAMES])
    for kind, count in taken.special.items():
        sorting.special[kind] = sorting.special.get(kind, 0) + count
    sorting.largest_in += taken.largest(taken.within)
    sorting.largest_out += taken.largest(taken.without)
    sorting.unused_rules = [
        text for text in taken.unused if sorting.unused_rules is None or text in sorting.unused_rules
    ]


def _in_order(mode: str, members: Iterable[Member]) -> list[Member]:
    """By name, part by part, so that a folder comes before its content; parts by number, as `split` made them.

    Raises ValidationError for a set of parts with a gap or with files that are none of it.
    """
    found = list(members)
    if mode == Mode.PARTS:
        return _parts_in_order(found)
    return sorted(found, key=lambda member: member.name.replace(b"/", b"\0"))


def _parts_in_order(members: Sequence[Member]) -> list[Member]:
    """Folders first, then the parts; lists of checksums that lie beside them are no parts and are left out."""
    files = {one.name: one for one in members if one.kind == "file" and not is_list_of_sums(one.name)}
    others = sorted((one for one in members if one.kind != "file"), key=lambda one: one.name.split(b"/"))
    try:
        return [*others, *(files[name] for name in number_parts(files).ordered())]
    except PartsWrong as error:
        raise ValidationError(str(error)) from error


def _check_mode(item: Item, members: Sequence[Member]) -> None:
    files = [member for member in members if member.kind == "file"]
    if not members:
        raise ValidationError(
            _("Pack “%(pack)s” would be empty: the rules leave everything out. Change them.") % {"pack": item.pack.name}
        )
    if item.mode == Mode.EXISTING and len(files) != 1:
        raise ValidationError(
            _(
                "Pack “%(pack)s” is to carry one archive that exists, and its rules name %(count)s files. Name exactly "
                "one, or choose another mode."
            )
            % {"pack": item.pack.name, "count": len(files)}
        )
    if item.mode in (Mode.PARTS, Mode.FILES) and not files:
        raise ValidationError(
            _("Pack “%(pack)s” names no file, and this mode carries files only. Change the rules or the mode.")
            % {"pack": item.pack.name}
        )


def _warnings(item: Item, sorting: _Sorted) -> Iterator[str]:
    for text in sorting.unused_rules or []:
        yield _("The rule “%(rule)s” matches nothing.") % {"rule": text}
    for kind, count in sorted(sorting.special.items()):
        yield ngettext(
            "%(count)s entry of the kind “%(kind)s” cannot be packed and is left out.",
            "%(count)s entries of the kind “%(kind)s” cannot be packed and are left out.",
            count,
        ) % {"count": count, "kind": _(Entry.Kind(kind).label)}


def _overlaps(item: Item, members: Sequence[Member]) -> Iterator[str]:
    """Entries that a pack before this one in the same revision carries already."""
    names: dict[bytes, int] = {}
    for other in items_before(item):
        if other.entry_list is None:
            continue
        names = names or {member.name: member.size_bytes for member in members if member.kind == "file"}
        same = [name for name in file_names_stream(other.entry_list) if name in names]
        if same:
            yield ngettext(
                "Pack “%(pack)s” carries %(count)s of these files as well (%(bytes)s bytes).",
                "Pack “%(pack)s” carries %(count)s of these files as well (%(bytes)s bytes).",
                len(same),
            ) % {
                "pack": other.pack.name,
                "count": f"{len(same):,}",
                "bytes": f"{sum(names[name] for name in same):,}",
            }


def _spread(files: Sequence[Member]) -> Sequence[Member]:
    """Some names from the whole of the list, not only from its beginning."""
    return files[:: max(1, -(-len(files) // SAMPLE_NAMES))]


def preview_kept(item: Item) -> Preview:
    """What an item's list comes to that stays as it was approved."""
    entries = item.entry_list
    assert entries is not None
    sample = (member for member in list_members(entries) if member.kind == "file")
    return Preview(
        file_count=entries.file_count,
        entry_count=entries.entry_count,
        total_bytes=entries.total_bytes,
        excluded_count=item.excluded_count,
        excluded_bytes=item.excluded_bytes,
        warnings=tuple(item.warnings),
        included_sample=tuple(escape(b"/" + member.name) for member in islice(sample, SAMPLE_NAMES)),
        excluded_sample=(),
    )


def preview_without(preview: Preview, satisfied: Sequence[Member]) -> Preview:
    """The preview of a pack that leaves these files to others."""
    return replace(
        preview,
        file_count=preview.file_count - len(satisfied),
        entry_count=preview.entry_count - len(satisfied),
        total_bytes=preview.total_bytes - sum(member.size_bytes for member in satisfied),
    )


def entry_list_store(members: Sequence[Member]) -> EntryList:
    """Keep a list under its digest, once. Call it inside a transaction."""
    content = b"".join(encode_members(members))
    digest = hashlib.sha256(content).hexdigest()
    files = [member for member in members if member.kind == "file"]
    made, _is_new = EntryList.objects.get_or_create(
        digest=digest,
        defaults={
            "entry_count": len(members),
            "file_count": len(files),
            "total_bytes": sum(member.size_bytes for member in files),
            "content": zstandard.ZstdCompressor(level=3).compress(content),
        },
    )
    return made
