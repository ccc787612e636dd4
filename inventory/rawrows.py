"""Rows of a query as the database gives them, names as plain bytes: for passes over a million entries.

Django makes a `RemoteName` of each name and an object of each row; where all entries of a scan pass by, that takes
longer than everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import DEFAULT_DB_ALIAS, models

CHUNK_ROWS = 5000


def rows_raw(rows: models.QuerySet[Any], *columns: str) -> Iterator[tuple[Any, ...]]:
    """The columns of each row in the query's order, in flat memory, without any conversion by fields.

    Binary columns are bytes, as both databases' clients give them.
    """
    compiler = rows.values_list(*columns).query.get_compiler(DEFAULT_DB_ALIAS)
    for chunk in compiler.execute_sql(chunked_fetch=True, chunk_size=CHUNK_ROWS):
        yield from chunk
