"""The groups that stand for roles, made after each migration."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS

from calculet.people.roles import Role


def groups_ensure(using: str = DEFAULT_DB_ALIAS, **_signal: Any) -> None:
    """Make the group of each role that has none yet."""
    groups = apps.get_model("auth", "Group")._default_manager.using(using)
    for role in Role:
        groups.get_or_create(name=role.value)
