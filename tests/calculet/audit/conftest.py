"""A chain of a few events, and a way to tamper with it as somebody could who owns the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from calculet.actors import SYSTEM
from calculet.audit.guards import guard_statements, unguard_statements
from calculet.audit.services import record


@pytest.fixture
def chain(db: None) -> None:
    """Five events."""
    for number in range(1, 6):
        with transaction.atomic():
            record(act="test.done", actor=SYSTEM, host="lab", detail={"number": number, "name": "naïve “数据”"})


@contextmanager
def guards_down() -> Iterator[None]:
    """What an owner of the database can do: drop the triggers, change rows, put the triggers back."""
    with connection.cursor() as cursor:
        for statement in unguard_statements(connection.vendor):
            cursor.execute(statement)
        yield
        for statement in guard_statements(connection.vendor):
            cursor.execute(statement)


@pytest.fixture
def tamper(chain: None) -> Callable[..., None]:
    """Run statements on the database with the guards down."""

    def run(*statements: str, parameters: Any = None) -> None:
        with guards_down(), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, parameters)

    return run
