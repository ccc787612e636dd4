"""A database of its own with listings of any size, stored by the product's own scan from a made listing.

Importing this module sets Django up on an empty SQLite database in a temporary folder, or on the database that
BENCH_DATABASE_URL names (`elsewhere` sets it). It never touches the product's own data.
"""

from __future__ import annotations

import atexit
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

FOLDER = Path(tempfile.mkdtemp(prefix="calculet-bench-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
os.environ.update(CALCULET_DATA_DIR=str(FOLDER), DJANGO_SETTINGS_MODULE="calculet.settings")
os.environ["DATABASE_URL"] = os.environ.get("BENCH_DATABASE_URL", "")
os.environ["CALCULET_LOG_LEVEL"] = "WARNING"

import django  # noqa: E402  (the settings read the environment)

django.setup()

from django.contrib.auth.models import Group  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from calculet.actors import Actor  # noqa: E402
from calculet.people.models import Person  # noqa: E402
from calculet.people.roles import Role  # noqa: E402
from inventory.models import Channel, Host, Resource, Scan, Tier  # noqa: E402
from inventory.remote.names import RemoteName  # noqa: E402
from inventory.scan import ScanEntry  # noqa: E402
from inventory.services import scans  # noqa: E402
from tests.parts import find  # noqa: E402
from tests.postgres import PostgresServer  # noqa: E402

PIECE = 1000


class RecordedListing:
    """Stands where a host's listing stands, and gives pieces of a recorded one."""

    entries: Callable[[], Iterator[ScanEntry]]

    def __init__(self, _remote: object, **_options: object) -> None:
        self.report = None

    def pieces(self) -> Iterator[list[ScanEntry]]:
        """The entries, a thousand at a time."""
        piece: list[ScanEntry] = []
        for entry in type(self).entries():
            piece.append(entry)
            if len(piece) == PIECE:
                yield piece
                piece = []
        yield piece

    def close(self) -> None:
        """Nothing is open."""


def ready() -> Actor:
    """Make the tables, a planner who may do everything that is measured, and a host; returns the planner."""
    call_command("migrate", verbosity=0)
    person = Person.objects.create_user("planner", password="not used by anybody")
    for role in (Role.PLANNER, Role.OPERATOR):
        person.groups.add(Group.objects.get_or_create(name=role.value)[0])
    host = Host.objects.create(name="far", staging_path=RemoteName(b"/var/tmp/staging"))
    Channel.objects.create(host=host, address="192.0.2.1", username="user")
    return Actor.of(person)


def scan_recorded(name: str, root: RemoteName, entries: Callable[[], Iterator[ScanEntry]], actor: Actor) -> Scan:
    """Store a listing as a scan of a new resource, by the product's own run."""
    tier = Tier.objects.get_or_create(position=1, defaults={"name": "first"})[0]
    resource = Resource.objects.create(host=Host.objects.get(name="far"), name=name, path=root, tier=tier)
    scan = scans.scan_request(resource=resource, actor=actor)
    RecordedListing.entries = staticmethod(entries)
    with mock.patch.multiple("inventory.services.scans", Listing=RecordedListing, open_remote=lambda _host: None):
        scans.scan_run(scan.pk)
    scan.refresh_from_db()
    if scan.state != "finished":
        raise RuntimeError(f"the scan ended as {scan.state}: {scan.problem}")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")  # what the server's own housekeeping does within a minute
    return scan


def percentiles(act: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Milliseconds of an act: in the middle, and at the 95th percentile; after one run that is not counted."""
    act()
    taken = []
    for _repeat in range(repeats):
        begun = time.perf_counter()
        act()
        taken.append((time.perf_counter() - begun) * 1000)
    taken.sort()
    return statistics.median(taken), taken[min(len(taken) - 1, round(0.95 * (len(taken) - 1)))]


def peak_mebibytes() -> float:
    """The most memory that this process ever held, as the kernel counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def elsewhere(module: str, arguments: Sequence[str]) -> int | None:
    """Run a benchmark again on a throw-away PostgreSQL; None when there is none on this machine."""
    if find("postgresql") is None:
        return None
    with PostgresServer() as server:
        environment = {**os.environ, "BENCH_DATABASE_URL": server.url}
        return subprocess.run([sys.executable, "-m", module, *arguments], env=environment, check=False).returncode


def database_words() -> str:
    """Which database it was measured on."""
    return {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[connection.vendor]


def load_words() -> str:
    """How busy the machine was, beside its number of processors."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
