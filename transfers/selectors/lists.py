"""A few members of a stored list for a page, without unpacking a list of a million into memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import zstandard

from transfers.engine.members import decode_members
from transfers.engine.types import Member
from transfers.models import EntryList

_PIECE_BYTES = 2**18
_FIELDS = 3  # of a record; see transfers.engine.members


def members_stream(entry_list: EntryList) -> Iterator[Member]:
    """The members of a list in its order, decoded as they are asked for. Raises ValueError when it is damaged."""
    for fields in _fields_stream(entry_list):
        yield from decode_members(b"".join(field + b"\0" for field in fields))


def file_names_stream(entry_list: EntryList) -> Iterator[bytes]:
    """The names of a list's files in its order: a million in a second. Raises ValueError when it is damaged."""
    for fields in _fields_stream(entry_list):
        heads, names = fields[::_FIELDS], fields[1::_FIELDS]
        yield from (name for head, name in zip(heads, names, strict=True) if head.startswith(b"f"))


def _fields_stream(entry_list: EntryList) -> Iterator[list[bytes]]:
    """The fields of whole records, some thousands at a time."""
    kept: list[bytes] = [b""]
    try:
        with zstandard.ZstdDecompressor().stream_reader(bytes(entry_list.content)) as reader:
            while piece := reader.read(_PIECE_BYTES):
                first, *more = piece.split(b"\0")
                kept[-1] += first
                kept += more
                whole = (len(kept) - 1) // _FIELDS * _FIELDS
                yield kept[:whole]
                kept = kept[whole:]
    except zstandard.ZstdError as error:
        raise ValueError("The member list is damaged.") from error
    if kept != [b""]:
        raise ValueError("The member list is cut off or damaged.")


def members_between(entry_list: EntryList, start: int, count: int) -> list[Member]:
    """`count` members from number `start` (from 0) on. Raises ValueError when the list is damaged."""
    return list(islice(members_stream(entry_list), start, start + count))


def first_files(entry_list: EntryList, count: int) -> list[Member]:
    """The first files of a list, folders and links left out. Raises ValueError when the list is damaged."""
    return list(islice((member for member in members_stream(entry_list) if member.kind == "file"), count))
