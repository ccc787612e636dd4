"""Start-up refusals: what must hold before anything runs. Each has an id; docs/operations.md says what to do.

They run with every management command, and those that look at the database with `up`, `worker` and
`manage.py check --database default`.
"""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections

from calculet.audit.guards import EVENTS, guards_missing

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1", ".localhost", "testserver"})
# SQLite's locks and its shared memory do not hold over these.
_NETWORK_FILE_SYSTEMS = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs",
     "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs"}
)  # fmt: skip

_Apps = Sequence[AppConfig] | None


@register(Tags.security)
def debug_stays_at_home(app_configs: _Apps = None, **_options: Any) -> list[CheckMessage]:
    """E001: error pages with settings in them are for this machine only."""
    others = [host for host in settings.ALLOWED_HOSTS if host not in _LOOPBACK]
    if not settings.DEBUG or not others:
        return []
    return [
        Error(
            f"CALCULET_DEBUG is on while others may reach this installation as {', '.join(others)}: its error pages "
            "show settings.",
            hint="Turn CALCULET_DEBUG off, or leave only localhost in CALCULET_ALLOWED_HOSTS.",
            id="calculet.E001",
        )
    ]


@register(Tags.files)
def data_folder_takes_files(app_configs: _Apps = None, **_options: Any) -> list[CheckMessage]:
    """E002: the data folder."""
    reason = _refuses_files(settings.DATA_DIR)
    if not reason:
        return []
    return [
        Error(
            f"The data folder “{settings.DATA_DIR}” takes no files ({reason}).",
            hint="Give this account the right to write there, or set CALCULET_DATA_DIR to another folder.",
            id="calculet.E002",
        )
    ]


@register(Tags.files)
def landing_takes_files(app_configs: _Apps = None, **_options: Any) -> list[CheckMessage]:
    """E003 and E004: the landing is there and takes files. One inside the data folder is made by `up`."""
    folder: Path = settings.LANDING_DIR
    if not folder.is_dir():
        if folder.is_relative_to(settings.DATA_DIR) and not folder.exists():
            return []
        return [
            Error(
                f"The landing “{folder}” is not a folder that is there. It is not made, since its disk may only not be "
                "mounted.",
                hint="Mount its disk, make the folder, or correct CALCULET_LANDING_DIR.",
                id="calculet.E003",
            )
        ]
    reason = _refuses_files(folder)
    if not reason:
        return []
    return [
        Error(
            f"The landing “{folder}” takes no files ({reason}).",
            hint="Give this account the right to write there, free some room, or correct CALCULET_LANDING_DIR.",
            id="calculet.E004",
        )
    ]


@register(Tags.security)
def keys_are_private(app_configs: _Apps = None, **_options: Any) -> list[CheckMessage]:
    """E005: SSH keys that other accounts can read."""
    folder: Path = settings.KEY_DIR
    if not folder.is_dir():
        return []
    open_keys = sorted(path for path in folder.iterdir() if path.suffix != ".pub" and _is_open(path))
    return [
        Error(
            f"The SSH key “{path}” can be read by other accounts.",
            hint=f"Run: chmod 600 '{path}'. If somebody may have copied it, make a new key.",
            id="calculet.E005",
        )
        for path in open_keys
    ]


@register(Tags.database)
def sqlite_is_on_a_local_disk(app_configs: _Apps = None, **_options: Any) -> list[CheckMessage]:
    """E006: SQLite over a network file system loses writes."""
    database = settings.DATABASES["default"]
    if database["ENGINE"] != "django.db.backends.sqlite3":
        return []
    path = Path(database["NAME"]).absolute()
    kind = file_system_of(path, Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
    if kind not in _NETWORK_FILE_SYSTEMS:
        return []
    return [
        Error(
            f"The SQLite database “{path}” lies on a network file system ({kind}), where its locks do not hold.",
            hint="Set CALCULET_DATA_DIR to a folder on a local disk, or DATABASE_URL to a PostgreSQL.",
            id="calculet.E006",
        )
    ]


@register(Tags.database)
def audit_guards_stand(
    app_configs: _Apps = None, databases: Sequence[str] | None = None, **_options: Any
) -> list[CheckMessage]:
    """E007: the database itself refuses to change events. Asked only of databases that are named."""
    found: list[CheckMessage] = []
    for alias in databases or ():
        connection = connections[alias]
        if EVENTS not in connection.introspection.table_names():
            continue  # nothing to protect before the first migration
        if missing := guards_missing(connection):
            found.append(
                Error(
                    f"The database does not protect the audit log: {', '.join(missing)} is missing.",
                    hint="Find out who removed it, restore a backup, and run manage.py verify_audit.",
                    id="calculet.E007",
                )
            )
    return found


def file_system_of(path: Path, mountinfo: str) -> str:
    """The kind of file system that a path lies on, by the text of /proc/self/mountinfo; empty when it does not say."""
    best, kind = Path("/"), ""
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if "-" not in fields[6:]:
            continue
        # Blanks and the like stand there as octal escapes.
        place = Path(fields[4].encode("latin-1", "backslashreplace").decode("unicode_escape"))
        if path.is_relative_to(place) and place.is_relative_to(best):
            best, kind = place, fields[fields.index("-", 6) + 1]
    return kind


def _refuses_files(folder: Path) -> str:
    """Why a folder takes no files; empty when it takes them. Tried, since rights alone do not tell."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def _is_open(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:  # a dangling link: whoever uses the key is told so
        return False
    return stat.S_ISREG(found.st_mode) and bool(found.st_mode & (stat.S_IRWXG | stat.S_IRWXO))
