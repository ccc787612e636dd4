"""A database of its own with listings of any size, stored by the product's own scan from a made listing.

Importing this module sets Django up on an empty SQLite database in a temporary folder, or on the database that
BENCH_DATABASE_URL names (`elsewhere` sets it). It never touches the product's own data.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured of one thing at one size. `limit` is what is promised at a million, in the same unit."""

    what: str
    size: int
    value: float
    unit: str
    limit: float | None = None


def options(about: str) -> argparse.Namespace:
    """The options that benchmarks on listings share."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", action="store_true", help="machine-readable, on standard output")
    parser.add_argument("--sizes", default="10000,100000,1000000", help="numbers of entries, with commas")
    parser.add_argument("--repeats", type=int, default=20, help="requests of each page, acts of each kind")
    parser.add_argument("--postgres", action="store_true", help="on a throw-away PostgreSQL instead of SQLite")
    return parser.parse_args()


def run(about: str, module: str, measure: Callable[[argparse.Namespace, int, Actor], list[Figure]]) -> int:
    """Measure at each size and tell how it grows, each size in a process of its own so that memory is its own too."""
    given = options(about)
    if given.postgres and "BENCH_DATABASE_URL" not in os.environ:
        status = elsewhere(module, sys.argv[1:])
        if status is None:
            sys.stderr.write(
                "No PostgreSQL is on this machine, so nothing was measured (make test-deps installs it).\n"
            )
        return 1 if status is None else status
    sizes = [int(text) for text in given.sizes.split(",")]
    if len(sizes) == 1:
        figures = measure(given, sizes[0], ready())
    else:
        figures = [figure for size in sizes for figure in _apart(module, size)]
    head = {"database": database_words(), "machine": load_words(), "python": sys.version.split()[0]}
    if given.json:
        print(json.dumps({**head, "figures": [asdict(figure) for figure in figures]}, indent=1))
    else:
        print(f"# {about}\n{head['database']}, {head['machine']}, Python {head['python']}\n\n{table(figures)}")
    return 0


def _apart(module: str, size: int) -> list[Figure]:
    rest = [word for word in sys.argv[1:] if word != "--json"]
    at = rest.index("--sizes") if "--sizes" in rest else len(rest)
    command = [sys.executable, "-m", module, "--json", *rest[:at], *rest[at + 2 :], "--sizes", str(size)]
    environment = dict(os.environ)
    if "BENCH_DATABASE_URL" in environment:
        with PostgresServer() as server:
            done = subprocess.run(
                command, env={**environment, "BENCH_DATABASE_URL": server.url}, stdout=subprocess.PIPE, check=True
            )
    else:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return [Figure(**row) for row in json.loads(done.stdout)["figures"]]


def table(figures: Sequence[Figure]) -> str:
    """A line for each thing, a column for each size, and what is promised at a million."""
    sizes = sorted({figure.size for figure in figures})
    lines = ["| | unit | " + " | ".join(f"{size:,}" for size in sizes) + " | promised |"]
    lines.append("|---|---|" + "--:|" * (len(sizes) + 1))
    for what, unit in dict.fromkeys((figure.what, figure.unit) for figure in figures):
        row = {figure.size: figure for figure in figures if (figure.what, figure.unit) == (what, unit)}
        limit = next((figure.limit for figure in row.values() if figure.limit is not None), None)
        cells = [f"{row[size].value:,.{1 if row[size].value < 100 else 0}f}" if size in row else "" for size in sizes]
        lines.append(f"| {what} | {unit} | {' | '.join(cells)} | {'' if limit is None else f'{limit:,.0f}'} |")
    return "\n".join(lines)


def percentiles(act: Callable[[], object], repeats: int) -> tuple[float, float, float]:
    """Milliseconds of an act: by the clock in the middle and at the 95th percentile, and of the processor at the 95th
    percentile, which tells more where others use the machine; after one run that is not counted."""
    act()
    clock, processor = [], []
    for _repeat in range(repeats):
        begun, worked = time.perf_counter(), time.process_time()
        act()
        clock.append((time.perf_counter() - begun) * 1000)
        processor.append((time.process_time() - worked) * 1000)
    late = round(0.95 * (repeats - 1))
    return statistics.median(clock), sorted(clock)[late], sorted(processor)[late]


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
