"""The name that a landed archive gets."""

from __future__ import annotations

import re
from collections.abc import Sequence

from inventory.remote.names import escape
from transfers.engine.types import Member
from transfers.models import Mode

# "image.tar.part-aa", "image.tar.001", "image.tar.aa", "image.tar.part003of010": what `split` and its kin add.
_PART_SUFFIX = re.compile(rb"[._-](?:part[._-]?)?(?:[0-9]{1,6}(?:of[0-9]+)?|[a-z]{2,4})$")


def archive_name(pack: str, mode: str, members: Sequence[Member], *, is_compressed: bool) -> str:
    """The local file name of a build; empty in files mode.

    An existing archive keeps its own name; parts get the name that they are parts of; names that are not UTF-8 are
    written with our escapes, so that every file system and every checksum file can hold them.
    """
    if mode == Mode.FILES:
        return ""
    if mode == Mode.ARCHIVE:
        return f"{pack}.tar{'.zst' if is_compressed else ''}"
    first = next(member for member in members if member.kind == "file")
    base = first.name.rpartition(b"/")[2]
    if mode == Mode.PARTS:
        base = _PART_SUFFIX.sub(b"", base) or base
    return escape(base)
