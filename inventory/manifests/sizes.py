"""Sizes as people write them: “85.5 MB”, “64 MiB”, “436,398,080”."""

from __future__ import annotations

import re
from decimal import Decimal

LARGEST_BYTES = 2**63 - 1  # what the database's columns hold
_DECIMAL = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_UNITS = {unit.lower(): factor for unit, factor in (_DECIMAL | _BINARY).items()}
UNITS = ", ".join((*_DECIMAL, *_BINARY))
_SIZE = re.compile(r"(\d{1,3}(?:[,_]\d{3})+|\d{1,20})(\.\d{1,12})?\s*([A-Za-z]{1,3})?", re.ASCII)
_SHORT_DIGITS = 6


def parse_size(text: str) -> int | None:
    """Bytes of a size with a unit (bytes without one), rounded to a whole; None when it is none.

    Units of 1000 (kB, MB, GB, TB) and of 1024 (KiB, MiB, GiB, TiB), in any case of letters.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    whole, fraction, unit = match.groups()
    factor = _UNITS.get((unit or "B").lower())
    if factor is None:
        return None
    number = Decimal(whole.replace(",", "").replace("_", "") + (fraction or ""))
    size = int((number * factor).to_integral_value())
    return size if size <= LARGEST_BYTES else None


def format_size(size_bytes: int) -> str:
    """The shortest text that `parse_size` reads back as exactly this size."""
    for unit, factor in reversed(_BINARY.items()):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    for unit, factor in reversed(_DECIMAL.items()):
        shown = f"{Decimal(size_bytes) / factor:f}"
        if size_bytes >= factor and len(shown.replace(".", "")) <= _SHORT_DIGITS:
            return f"{shown} {unit}"
    return f"{size_bytes} B"
