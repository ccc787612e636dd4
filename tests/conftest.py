"""What every test may use: six people, signed-in clients, and a database whose audit guards survive a flush."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.utils import translation

from calculet.audit.guards import EVENTS, guard_statements, unguard_statements
from calculet.people.models import Person
from calculet.people.roles import Role

pytest_plugins = ["tests.browser_fixtures", "tests.ssh_fixtures"]

PASSWORD = "correct horse battery staple"


def pytest_configure(config: pytest.Config) -> None:
    """Let Django empty the tables between transactional tests, which the audit guards refuse otherwise."""
    # A run that was put into the background ignores interrupts, and what tests start would inherit that.
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)
    operations = type(connection.ops)
    if getattr(operations, "_flushes_guarded_tables", False):
        return
    plain_flush = operations.sql_flush

    def flush(self: Any, style: Any, tables: Any, **options: Any) -> list[str]:
        statements = plain_flush(self, style, tables, **options)
        if EVENTS not in tables:
            return statements
        vendor = self.connection.vendor
        return [*unguard_statements(vendor), *statements, *guard_statements(vendor)]

    operations.sql_flush = flush  # type: ignore[method-assign]
    operations._flushes_guarded_tables = True  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about the other database: nothing is missing, so it is no skip."""
    others = [item for item in items if any(mark.args[0] != connection.vendor for mark in item.iter_markers("only_on"))]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_unconfigure(config: pytest.Config) -> None:
    """The first process of a run removes the data folders of all."""
    if "PYTEST_XDIST_WORKER" not in os.environ and (root := os.environ.get("TESTS_DATA_ROOT")):
        shutil.rmtree(Path(root), ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest) -> None:
    """Each process has a data folder and so a SQLite file of its own; on PostgreSQL, a database of its own."""
    if connection.vendor != "sqlite":
        request.getfixturevalue("django_db_modify_db_settings_parallel_suffix")


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """A request leaves its reader's language behind in the thread; each test begins with the product's own."""
    translation.deactivate()
    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def no_anchors() -> None:
    """Each test has a chain of its own, which the anchors of another would call cut."""
    shutil.rmtree(settings.DATA_DIR / "anchors", ignore_errors=True)


@pytest.fixture
def person(db: None) -> Callable[..., Person]:
    """Make a person: `person("eve", Role.VIEWER, …)`."""

    def make(username: str, *roles: Role) -> Person:
        made = Person.objects.create_user(username, password=PASSWORD)
        for role in roles:
            made.groups.add(Group.objects.get_or_create(name=role.value)[0])
        return made

    return make


@pytest.fixture
def alice(person: Callable[..., Person]) -> Person:
    """She asks: planner and operator."""
    return person("alice", Role.PLANNER, Role.OPERATOR)


@pytest.fixture
def bob(person: Callable[..., Person]) -> Person:
    """He approves."""
    return person("bob", Role.APPROVER)


@pytest.fixture
def dan(person: Callable[..., Person]) -> Person:
    """He approves as well."""
    return person("dan", Role.APPROVER)


@pytest.fixture
def carol(person: Callable[..., Person]) -> Person:
    """She can sign in, and has no role."""
    return person("carol")


@pytest.fixture
def ada(person: Callable[..., Person]) -> Person:
    """She is the admin."""
    return person("ada", Role.ADMIN)


@pytest.fixture
def audrey(person: Callable[..., Person]) -> Person:
    """She is the auditor."""
    return person("audrey", Role.AUDITOR)


@pytest.fixture
def signed_in() -> Callable[[Person], Client]:
    """Make a browser of a person: `signed_in(alice).get("/")`."""

    def make(who: Person) -> Client:
        client = Client()
        client.force_login(who, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return make
