"""How a row is named in an event, and which host and pack it belongs to."""

from __future__ import annotations

from collections import deque
from functools import cache

from django.db import models

HOST_FIELD, PACK_FIELD = "host", "pack"
_FARTHEST = 4  # foreign keys to follow: unpack, build, pack, plan


def text_keep(text: str, limit: int) -> str:
    """Text that every database stores: NUL and lone surrogates escaped, cut to `limit` characters."""
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def host_of(row: models.Model) -> str:
    """The name of the host that a row belongs to, by the shortest way over its foreign keys; empty when none."""
    return _named(row, HOST_FIELD)


def pack_of(row: models.Model) -> str:
    """The name of the pack that a row belongs to, in the same way."""
    return _named(row, PACK_FIELD)


def _named(row: models.Model, field: str) -> str:
    if row._meta.model_name == field:
        return str(row)
    path = _path_to(row._meta.model, field)  # not type(): a request's person is wrapped
    found: object = row
    for name in path:
        found = getattr(found, name, None)
    return "" if not path or found is None else str(found)


@cache
def _path_to(model: type[models.Model], wanted: str) -> tuple[str, ...]:
    """The names of the foreign keys that lead from a model to one of that name; empty when there is no such way."""
    ways: deque[tuple[type[models.Model], tuple[str, ...]]] = deque([(model, ())])
    while ways:
        here, path = ways.popleft()
        if len(path) >= _FARTHEST:
            continue
        for field in here._meta.concrete_fields:
            if not isinstance(field, models.ForeignKey):
                continue
            target = field.related_model
            if field.name == wanted:
                return (*path, field.name)
            if isinstance(target, type) and issubclass(target, models.Model) and target is not here:
                ways.append((target, (*path, field.name)))
    return ()
