"""What makes the database itself refuse to change an event: triggers, and the proof that they stand.

Traps that these answer: on SQLite, `INSERT OR REPLACE` passes a delete trigger unless `recursive_triggers` is on, so a
BEFORE INSERT guard refuses a number that is taken; a table rebuild in a migration drops triggers without a word, so
their presence is proved after each migration and at each start; PostgreSQL's TRUNCATE needs a trigger of its own.
"""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

EVENTS = "audit_event"
HEAD = "audit_head"
REFUSAL = "audit events cannot be changed or removed"

_SQLITE = {
    "audit_event_no_update": f"BEFORE UPDATE ON {EVENTS} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END",
    "audit_event_no_delete": f"BEFORE DELETE ON {EVENTS} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END",
    "audit_event_no_replace": (
        f"BEFORE INSERT ON {EVENTS} WHEN EXISTS (SELECT 1 FROM {EVENTS} WHERE sequence = NEW.sequence) "
        f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    ),
    "audit_head_no_delete": f"BEFORE DELETE ON {HEAD} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END",
    "audit_head_no_step_back": (
        f"BEFORE UPDATE ON {HEAD} WHEN NEW.sequence <> OLD.sequence + 1 BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    ),
    "audit_head_no_replace": (
        f"BEFORE INSERT ON {HEAD} WHEN EXISTS (SELECT 1 FROM {HEAD}) BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    ),
}

_POSTGRESQL_FUNCTION = "calculet_audit_refuse"
_POSTGRESQL = {
    "audit_event_no_change": f"BEFORE UPDATE OR DELETE ON {EVENTS} FOR EACH ROW",
    "audit_event_no_truncate": f"BEFORE TRUNCATE ON {EVENTS} FOR EACH STATEMENT",
    "audit_head_no_delete": f"BEFORE DELETE ON {HEAD} FOR EACH ROW",
    "audit_head_no_step_back": f"BEFORE UPDATE ON {HEAD} FOR EACH ROW WHEN (NEW.sequence <> OLD.sequence + 1)",
    "audit_head_no_truncate": f"BEFORE TRUNCATE ON {HEAD} FOR EACH STATEMENT",
}


class GuardsMissing(Exception):
    """The database would let events be changed."""

    def __init__(self, missing: list[str]) -> None:
        super().__init__(missing)
        self.missing = missing

    def __str__(self) -> str:
        return (
            f"The database does not protect the audit log: {', '.join(self.missing)} is missing. Nothing was changed. "
            "Restore the database from a backup, or run `manage.py migrate audit` after finding out who removed it."
        )


def guard_statements(vendor: str) -> list[str]:
    """The SQL that puts the guards up. Raises NotImplementedError for a database that we do not support."""
    if vendor == "sqlite":
        return [f"CREATE TRIGGER {name} {rule}" for name, rule in _SQLITE.items()]
    if vendor == "postgresql":
        function = (
            f"CREATE OR REPLACE FUNCTION {_POSTGRESQL_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$"
        )
        triggers = [
            f"CREATE TRIGGER {name} {rule} EXECUTE FUNCTION {_POSTGRESQL_FUNCTION}()"
            for name, rule in _POSTGRESQL.items()
        ]
        # ALWAYS: also fires where a session calls itself a replica, which switches ordinary triggers off.
        always = [
            f"ALTER TABLE {rule.split(' ON ')[1].split()[0]} ENABLE ALWAYS TRIGGER {name}"
            for name, rule in _POSTGRESQL.items()
        ]
        return [function, *triggers, *always]
    raise NotImplementedError(f"The audit log has no guards for the database “{vendor}”; use SQLite or PostgreSQL.")


def unguard_statements(vendor: str) -> list[str]:
    """The SQL that takes the guards down: for undoing the migration."""
    if vendor == "sqlite":
        return [f"DROP TRIGGER IF EXISTS {name}" for name in _SQLITE]
    return [
        f"DROP TRIGGER IF EXISTS {name} ON {rule.split(' ON ')[1].split()[0]}" for name, rule in _POSTGRESQL.items()
    ]


def guards_missing(connection: BaseDatabaseWrapper) -> list[str]:
    """The names of guards that do not stand, and on SQLite the setting that they need."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            found = dict(cursor.fetchall())
            wanted = {name: f"CREATE TRIGGER {name} {rule}" for name, rule in _SQLITE.items()}
            missing = [name for name, sql in wanted.items() if found.get(name) != sql]
            cursor.execute("PRAGMA recursive_triggers")
            row = cursor.fetchone()
            return missing if row and row[0] else [*missing, "PRAGMA recursive_triggers"]
        cursor.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'A'")
        standing = {name for (name,) in cursor.fetchall()}
        return [name for name in _POSTGRESQL if name not in standing]


def guards_prove(using: str = DEFAULT_DB_ALIAS, **_signal: Any) -> None:
    """Raise GuardsMissing unless every guard stands. Does nothing before the table is there."""
    connection = connections[using]
    if EVENTS not in connection.introspection.table_names():
        return
    if missing := guards_missing(connection):
        raise GuardsMissing(missing)
