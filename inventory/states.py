"""What becomes of the entries of a listing, as it was reckoned last: read here, written by transfers."""

from __future__ import annotations

import zstandard

from inventory.models import EntryStates, Scan


def states_of(scan: Scan) -> bytes | None:
    """One letter of `EntryState` an entry, in the order of names; None before they were reckoned."""
    content = EntryStates.objects.filter(scan=scan).values_list("content", flat=True).first()
    return zstandard.ZstdDecompressor().decompress(bytes(content)) or None if content is not None else None
