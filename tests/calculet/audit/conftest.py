"""A chain of a few events, and a way to tamper with it as somebody could who owns the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import connection, transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from calculet.actors import SYSTEM
from calculet.audit.guards import guard_statements, unguard_statements
from calculet.audit.models import Event
from calculet.audit.services import record
from calculet.audit.walks import anchor_file


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


@pytest.fixture(autouse=True)
def file(settings: Settings, tmp_path: Path) -> Path:
    """Anchors of this test alone, in a folder outside the data folder."""
    settings.ANCHOR_DIR = tmp_path / "anchors"
    settings.ANCHOR_DIR.mkdir()
    return anchor_file()


@pytest.fixture
def key(settings: Settings, tmp_path: Path) -> Ed25519PrivateKey:
    """A configured key, and its public half beside it."""
    made = Ed25519PrivateKey.generate()
    path = tmp_path / "anchor-key.pem"
    private = serialization.PrivateFormat.PKCS8
    path.write_bytes(made.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    path.chmod(0o600)
    public = made.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(public)
    settings.ANCHOR_KEY_FILE = str(path)
    return made


def cut(tamper: Callable[..., None], left: int) -> None:
    """Remove the newest events, and set the head and the kept walk back: what is left holds in itself."""
    digest = Event.objects.get(sequence=left).hash
    tamper(
        f"DELETE FROM audit_event WHERE sequence > {left}",
        f"UPDATE audit_head SET sequence = {left}, hash = '{digest}'",
        f"UPDATE audit_walk SET sequence = {left}, hash = '{digest}'",
    )


def today() -> int:
    return timezone.now().astimezone(UTC).date().toordinal()
