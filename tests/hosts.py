"""Rows for a real sshd: its key in the key directory, a host with a pinned key, and resources on it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from django.conf import settings

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host, Resource
from inventory.services import hosts, resources
from tests.sshd import Sshd


def key_put(path: Path, name: str) -> str:
    """Copy a private key into the key directory; returns its name there."""
    settings.KEY_DIR.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, settings.KEY_DIR / name)
    return name


def host_make(sshd: Sshd, person: Person, *, name: str = "far", pin: bool = True, **values: Any) -> Host:
    """A host whose channel leads to this sshd. `person` needs the operator's role."""
    actor = Actor.of(person)
    made = {
        "address": "127.0.0.1",
        "port": sshd.port,
        "username": sshd.username,
        "key_name": key_put(sshd.key_path, f"{name}-{sshd.port}"),
        "staging_path": str(sshd.home / "staging"),
        **values,
    }
    host = hosts.host_add(name=name, actor=actor, **made)
    if pin:
        key = sshd.pinned
        hosts.host_pin_key(host=host, key_type=key.key_type, blob=key.blob, fingerprint=key.fingerprint, actor=actor)
    return host


def resource_make(host: Host, person: Person, path: Path | str, *, name: str = "tree", **values: Any) -> Resource:
    """A resource of a host. `person` needs the planner's role."""
    made = {"kind": "folder", **values}
    return resources.resource_add(host=host, name=name, path=str(path), actor=Actor.of(person), **made)
