"""The database itself refuses to change or remove events, whoever asks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from django.apps import apps
from django.conf import settings
from django.core.checks import run_checks
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection, transaction
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.guards import REFUSAL, GuardsMissing, guards_missing, guards_prove
from calculet.audit.models import Event, Head, SavedView
from calculet.audit.services import record, verify_chain
from calculet.people.models import Person
from calculet.people.roles import Role
from inventory.models import Host
from tests.calculet.audit.conftest import guards_down
from transfers.models import Pack, Plan

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


COLUMNS = "sequence, at, actor, user_id, origin, act, host, pack, subject_kind, subject_id, subject_label, detail, "
COLUMNS += "previous_hash, hash"
FORGED = "2, '2026-01-01 00:00:00+00:00', 'mallory', NULL, '', 'x', '', '', '', '', '', '{}', 'a', 'b'"


def refused(statement: str) -> None:
    before = list(Event.objects.order_by("sequence").values_list()), list(Head.objects.values_list())
    with pytest.raises(DatabaseError, match=REFUSAL), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert (list(Event.objects.order_by("sequence").values_list()), list(Head.objects.values_list())) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_event SET actor = 'mallory' WHERE sequence = 2",
        "UPDATE audit_event SET hash = hash",
        "UPDATE audit_event SET sequence = 9 WHERE sequence = 5",
        "DELETE FROM audit_event WHERE sequence = 5",
        "DELETE FROM audit_event",
        "DELETE FROM audit_head",
        "UPDATE audit_head SET sequence = 1",
        "UPDATE audit_head SET hash = 'x'",
        "UPDATE audit_head SET sequence = sequence + 2",
    ],
)
def test_rows_cannot_be_changed_or_removed(chain: None, statement: str) -> None:
    refused(statement)


@pytest.mark.parametrize(
    "act",
    [
        lambda: Event.objects.update(actor="mallory"),
        lambda: Event.objects.filter(sequence=2).update(detail="{}"),
        lambda: Event.objects.all().delete(),
        lambda: Event.objects.get(sequence=2).delete(),
        lambda: Event.objects.get(sequence=5).save(),
        lambda: Event.objects.bulk_update([Event(sequence=2, actor="mallory")], ["actor"]),
        lambda: Event.objects.all()._raw_delete(DEFAULT_DB_ALIAS),
        lambda: Event.objects.bulk_create(
            [forged()], update_conflicts=True, update_fields=["actor"], unique_fields=["sequence"]
        ),
        lambda: Event.objects.update_or_create(sequence=2, defaults={"actor": "mallory"}),
        lambda: Head.objects.all().delete(),
        lambda: Head.objects.update(sequence=1),
    ],
)
def test_no_way_over_the_models_changes_a_row(chain: None, act: Callable[[], object]) -> None:
    before = list(Event.objects.order_by("sequence").values_list()), list(Head.objects.values_list())
    with pytest.raises(DatabaseError, match=REFUSAL), transaction.atomic():
        act()
    assert (list(Event.objects.order_by("sequence").values_list()), list(Head.objects.values_list())) == before


def forged() -> Event:
    """Another event under a number that is taken."""
    return Event(sequence=2, at=timezone.now(), actor="mallory", act="x", previous_hash="a", hash="b")


def test_a_conflict_that_is_passed_over_changes_nothing(chain: None) -> None:
    before = list(Event.objects.order_by("sequence").values_list())
    # SQLite's guard refuses it, PostgreSQL passes over it as it was told to.
    with contextlib.suppress(DatabaseError), transaction.atomic():
        Event.objects.bulk_create([forged()], ignore_conflicts=True)
    assert list(Event.objects.order_by("sequence").values_list()) == before


def test_events_stay_when_what_they_are_about_goes(person: Callable[..., Person]) -> None:
    gone, host = person("gone", Role.PLANNER), Host.objects.create(name="gone")
    plan = Plan.objects.create(host=host)
    pack = Pack.objects.create(plan=plan, name="weights")
    for subject in (gone, host, plan, pack):
        with transaction.atomic():
            record(act="test.done", actor=Actor.of(gone), subject=subject)
    view = SavedView.objects.create(person=gone, name="mine", query="act=x")
    before = list(Event.objects.order_by("sequence").values_list())
    assert [(event.host, event.pack) for event in Event.objects.order_by("sequence")] == [
        ("", ""), ("gone", ""), ("gone", ""), ("gone", "weights"),
    ]  # fmt: skip
    for row in (pack, plan, host, gone):
        row.delete()
    assert not SavedView.objects.filter(pk=view.pk).exists(), "what is the person's own goes with the person"
    assert list(Event.objects.order_by("sequence").values_list()) == before
    assert verify_chain().whole


def test_nothing_refers_to_an_event_so_that_no_cascade_reaches_one() -> None:
    assert [field for field in Event._meta.get_fields() if field.is_relation] == []
    assert [field for field in Head._meta.get_fields() if field.is_relation] == []


def test_there_is_no_admin_site_that_could_edit_rows() -> None:
    assert "django.contrib.admin" not in settings.INSTALLED_APPS
    assert not [model for app in apps.get_app_configs() if app.name.endswith(".admin") for model in app.get_models()]


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize(
    "statement",
    [
        f"INSERT OR REPLACE INTO audit_event ({COLUMNS}) VALUES ({FORGED})",
        f"REPLACE INTO audit_event ({COLUMNS}) VALUES ({FORGED})",
        f"INSERT OR REPLACE INTO audit_event ({COLUMNS}) SELECT {COLUMNS} FROM audit_event",
        f"INSERT INTO audit_event ({COLUMNS}) VALUES ({FORGED}) ON CONFLICT (sequence) DO UPDATE SET actor = 'mallory'",
        "UPDATE OR REPLACE audit_event SET sequence = 2 WHERE sequence = 3",
        "INSERT OR REPLACE INTO audit_head (id, sequence, hash) VALUES (1, 0, 'x')",
    ],
)
@pytest.mark.parametrize("recursive", ["ON", "OFF"])
def test_sqlite_rows_cannot_be_replaced(chain: None, statement: str, recursive: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA recursive_triggers = {recursive}")
    try:
        refused(statement)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA recursive_triggers = ON")


@pytest.mark.only_on("postgresql")
@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE audit_event",
        "TRUNCATE audit_head",
        "TRUNCATE audit_event, audit_head CASCADE",
        f"INSERT INTO audit_event ({COLUMNS}) VALUES ({FORGED}) ON CONFLICT (sequence) DO UPDATE SET actor = 'mallory'",
        "SET LOCAL session_replication_role = replica; DELETE FROM audit_event",
    ],
)
def test_postgresql_rows_cannot_be_truncated_or_replaced(chain: None, statement: str) -> None:
    refused(statement)


def test_missing_guards_are_named_at_the_start_and_after_a_migration(chain: None) -> None:
    assert guards_missing(connection) == []
    assert not [found for found in run_checks(databases=["default"]) if found.id == "calculet.E007"]
    table = "" if connection.vendor == "sqlite" else " ON audit_head"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER audit_head_no_delete{table}")
    assert guards_missing(connection) == ["audit_head_no_delete"]
    found = [message for message in run_checks(databases=["default"]) if message.id == "calculet.E007"]
    assert ["audit_head_no_delete is missing" in message.msg for message in found] == [True]
    with pytest.raises(GuardsMissing, match="does not protect the audit log: audit_head_no_delete is missing"):
        guards_prove()


def test_guards_that_were_put_back_stand(chain: None) -> None:
    with guards_down():
        assert guards_missing(connection)
    assert guards_missing(connection) == []


@pytest.mark.only_on("sqlite")
def test_a_weakened_guard_of_sqlite_counts_as_missing(chain: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER audit_event_no_delete")
        cursor.execute("CREATE TRIGGER audit_event_no_delete BEFORE DELETE ON audit_event BEGIN SELECT 1; END")
    assert guards_missing(connection) == ["audit_event_no_delete"]
