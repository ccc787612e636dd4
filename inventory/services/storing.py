"""Writing entries by the hundred thousand: plain values to the database's own fast way, without an object a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from inventory.models import Entry, Scan
from inventory.services.sorting import ENTRY_FIELDS


def entries_store(scan: Scan, values: Sequence[tuple[object, ...]]) -> None:
    """Insert entries, each in the order of `ENTRY_FIELDS`; part of a larger transaction."""
    table = connection.ops.quote_name(Entry._meta.db_table)
    names = ", ".join(connection.ops.quote_name(name) for name in ("scan_id", *ENTRY_FIELDS))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in values:
                    copy.write_row((scan.pk, *row))
        else:
            rows: list[Any] = [(scan.pk, *row) for row in values]
            marks = ", ".join(["%s"] * (1 + len(ENTRY_FIELDS)))
            cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)  # noqa: S608  (our own names)
