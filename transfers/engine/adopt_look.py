"""Looking at a local file or folder that somebody offers: which stretches of a build may lie there.

a file                       from the build's first byte on; a part, when it bears the name of one
a folder, build in one file  the parts in it by name, by number and size; or the one file that it holds
a folder, build of files     the files in it by the names of the list, whatever folders are left out in front
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from inventory.remote.names import escape
from transfers.engine.adopt import AdoptionRefused, Offer, Stretch
from transfers.engine.geometry import LEDGER_SUFFIX
from transfers.engine.split_names import is_list_of_sums, number_parts
from transfers.engine.types import BuildSpec

CONTROL_SUFFIXES = (b".aria2", b".lftp-pget-status", LEDGER_SUFFIX, b".meta4")
NAMES_TOLD = 5
PROBED_NAMES = 200


def look_at(path: Path, spec: BuildSpec) -> Offer:
    """What the file or folder may hold of the build. Raises AdoptionRefused; reads no content."""
    try:
        found = path.lstat()
        if stat.S_ISREG(found.st_mode):
            offer = _file(path, found.st_size, spec)
        elif stat.S_ISDIR(found.st_mode):
            offer = _folder(path, spec)
        else:
            raise AdoptionRefused(path, "it is neither a regular file nor a folder")
    except OSError as error:
        raise AdoptionRefused(path, (error.strerror or str(error)).lower()) from error
    if not offer.stretches:
        raise AdoptionRefused(path, "; ".join(offer.remarks) or "nothing in it can lie in this build")
    return offer


def _file(path: Path, size_bytes: int, spec: BuildSpec) -> Offer:
    own = os.fsencode(path.name)
    if own.endswith(CONTROL_SUFFIXES):
        raise AdoptionRefused(path, "it is a control file; name the file that it belongs to")
    named = [one for one in spec.segments if one.source.base == own]
    if not spec.single_file or (len(named) == 1 < len(spec.segments)):
        stretches = [Stretch(one.offset, min(one.length, size_bytes), path, 0) for one in named[:1]]
        return Offer(tuple(one for one in stretches if one.length))
    length = min(size_bytes, spec.size_bytes)
    remarks: tuple[str, ...] = ()
    if size_bytes > spec.size_bytes:
        remarks = (f"it is {size_bytes - spec.size_bytes:,} bytes longer than the build; the rest is left",)
    return Offer((Stretch(0, length, path, 0),) if length else (), remarks)


def _folder(folder: Path, spec: BuildSpec) -> Offer:
    if not spec.single_file:
        return _files(folder, spec)
    sizes = dict(_regular_files(folder))
    if len(sizes) == 1:
        ((name, size),) = sizes.items()
        return _file(folder / os.fsdecode(name), size, spec)
    places, remarks = _places(sizes, spec)
    stretches: list[Stretch] = []
    for offset, name in sorted((offset, name) for name, offset in places.items()):
        length = min(sizes[name], spec.size_bytes - offset)
        if stretches and stretches[-1].offset + stretches[-1].length > offset:
            raise AdoptionRefused(folder, f"“{escape(name)}” would lie over the part before it")
        if length > 0:
            stretches.append(Stretch(offset, length, folder / os.fsdecode(name), 0))
    return Offer(tuple(stretches), remarks)


def _regular_files(folder: Path) -> Iterator[tuple[bytes, int]]:
    with os.scandir(os.fsencode(folder)) as entries:
        for entry in entries:
            is_ours = not entry.name.endswith(CONTROL_SUFFIXES) and not is_list_of_sums(entry.name)
            if is_ours and entry.is_file(follow_symlinks=False):
                yield entry.name, entry.stat(follow_symlinks=False).st_size


def _places(sizes: dict[bytes, int], spec: BuildSpec) -> tuple[dict[bytes, int], tuple[str, ...]]:
    """Where each part begins in the build: by the source's own names of parts, else by number and size."""
    if len(spec.segments) > 1:
        by_name = {one.source.base: one.offset for one in spec.segments}
        named = {name: by_name[name] for name in sizes if name in by_name}
        if named:
            return named, _left_over(sizes, list(named))
    found = number_parts(sorted(sizes))
    numbers = found.numbers
    if not numbers or len(set(numbers.values())) < len(numbers):
        return {}, ("the numbers of its parts cannot be read from their names",)
    first, last = min(numbers.values()), max(numbers.values())
    first = first if first <= found.begins_at_most else 0
    ordered = sorted(numbers, key=numbers.__getitem__)
    of_one_size = {sizes[name] for name in ordered if numbers[name] != last}
    remarks = _left_over(sizes, ordered)
    if found.missing_count:
        remarks = (f"{found.missing_count:,} parts are missing between the others", *remarks)
    if len(of_one_size) == 1 and sizes[ordered[-1]] <= max(of_one_size):
        (size,) = of_one_size
        return {name: (numbers[name] - first) * size for name in ordered}, remarks
    if found.missing_count:
        return {}, ("parts are missing and the others are of several sizes, so nobody can tell where they lie",)
    places, at = {}, 0
    for name in ordered:
        places[name] = at
        at += sizes[name]
    return places, remarks


def _left_over(sizes: dict[bytes, int], used: Sequence[bytes]) -> tuple[str, ...]:
    left = sorted(set(sizes) - set(used))
    if not left:
        return ()
    names = ", ".join(f"“{escape(name)}”" for name in left[:NAMES_TOLD])
    return (f"{len(left):,} files are no parts of it and are left out: {names}",)


def _files(folder: Path, spec: BuildSpec) -> Offer:
    """The files of the list below the folder, which may stand for any folder above them."""
    segments = [one for one in spec.segments if one.length]
    probed = segments[:: max(1, len(segments) // PROBED_NAMES)]
    deepest = max((one.landing_name.count(b"/") for one in probed), default=0)
    hits = {
        left_out: sum(_size_of(folder, one.landing_name, left_out) is not None for one in probed)
        for left_out in range(deepest + 1)
    }
    best = max(hits, key=lambda left_out: (hits[left_out], -left_out), default=0)
    stretches = []
    for one in segments:
        size = _size_of(folder, one.landing_name, best)
        if size:
            path = _below(folder, one.landing_name, best)
            stretches.append(Stretch(one.offset, min(size, one.length), path, 0))
    return Offer(tuple(stretches))


def _below(folder: Path, name: bytes, left_out: int) -> Path:
    return Path(os.fsdecode(b"/".join([os.fsencode(folder), *name.split(b"/")[left_out:]])))


def _size_of(folder: Path, name: bytes, left_out: int) -> int | None:
    if name.count(b"/") < left_out:
        return None
    try:
        found = _below(folder, name, left_out).lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
