"""How long an audit log takes to be verified, shown, filtered and exported, by its number of events.

    python -m benchmarks.audit_chain [--events N] [--repeats N] [--postgres]

Writes events of a plausible mix into a database of its own, walks the chain as *Verify now* does, asks for pages as the
log does (the count and fifty rows), and exports everything. Milliseconds by the clock are those in the middle; those of
the processor tell more where others use the machine. Peak memory is that of an export.
"""

from __future__ import annotations

import argparse
import random
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial

from django.core.management import call_command
from django.core.paginator import Paginator
from django.db import connection

from benchmarks import inventory_bed as bed  # sets Django up
from calculet.audit import exports, filters, walks
from calculet.audit.chain import GENESIS, Link, canonical_json, link_hash
from calculet.audit.filters import Filter
from calculet.audit.guards import guard_statements, unguard_statements
from calculet.audit.models import Event, Head

ACTS = ("pack.pause", "pack.resume", "build.fetch", "build.received", "build.verified", "build.opened", "scan.asked")
RARE = ("plan.approve", "person.created", "role.given", "audit.exported")
DAY = date(2026, 1, 20)
PAGES = {
    "everything, page 1": (Filter(), 1),
    "everything, page 1000": (Filter(), 1000),
    "a common act": (Filter(act="build.fetch"), 1),
    "all acts of a noun": (Filter(act="build.*"), 1),
    "rare acts": (Filter(act="plan.approve*,role.*"), 1),
    "acts that never were": (Filter(act="clearing.*"), 1),
    "a person": (Filter(person="alice"), 1),
    "a host": (Filter(host="host-3"), 1),
    "a pack": (Filter(pack="pack-77"), 1),
    "a day": (Filter(begin=DAY, end=DAY), 1),
    "person, host, act and day": (Filter(person="alice", host="host-3", act="build.fetch", begin=DAY), 1),
    "pack and person": (Filter(pack="pack-77", person="bob"), 1),
}


def links(count: int) -> list[Link]:
    """`count` links of a chain, the same each time."""
    draw, head, found = random.Random(1), GENESIS, []
    began = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(1, count + 1):
        pack = f"pack-{draw.randrange(900)}"
        bare = Link(
            sequence=number,
            at=began + timedelta(seconds=number * 60),
            actor=draw.choice(("alice", "bob", "dan", "system", "system", "system")),
            user_id=draw.choice((1, 2, None)),
            origin="192.0.2.7",
            act=draw.choice(RARE) if number % 400 == 0 else draw.choice(ACTS),
            host=f"host-{draw.randrange(6)}",
            pack=pack,
            subject_kind="transfers.build",
            subject_id=str(draw.randrange(9000)),
            subject_label=f"{pack} build {draw.randrange(1, 4)}",
            detail=canonical_json(
                {"from": "packed", "to": "fetching", "bytes": draw.randrange(10**12), "note": "x" * 40}
            ),
            previous_hash=head,
            hash="",
        )
        head = link_hash(bare)
        found.append(bare._replace(hash=head))
    return found


def store(chain: list[Link]) -> None:
    """Write a chain in pieces, and its head in one step, which the guards would refuse."""
    Event.objects.bulk_create([Event(**link._asdict()) for link in chain], batch_size=1000)
    with connection.cursor() as cursor:
        for statement in unguard_statements(connection.vendor):
            cursor.execute(statement)
        Head.objects.create(pk=1, sequence=chain[-1].sequence, hash=chain[-1].hash)
        for statement in guard_statements(connection.vendor):
            cursor.execute(statement)


def page(wanted: Filter, number: int) -> None:
    """What a page of the log asks of the database."""
    list(Paginator(filters.events_found(wanted), 50).get_page(number).object_list)


def export(form: exports.Form, last: int) -> int:
    """Export everything to nowhere; returns the characters."""
    return sum(map(len, exports.pieces(last, form=form)))


def tell(what: str, act: Callable[[], object], repeats: int) -> None:
    """Measure, and print a line."""
    middle, _most, processor = bed.percentiles(act, repeats)
    print(f"{what:28} {middle:10.1f} ms {processor:10.1f} ms of the processor")


def main() -> int:
    """Write, measure, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--postgres", action="store_true", help="on a throw-away PostgreSQL")
    given = parser.parse_args()
    if given.postgres and connection.vendor == "sqlite":
        status = bed.elsewhere("benchmarks.audit_chain", sys.argv[1:])
        return 1 if status is None else status
    call_command("migrate", verbosity=0)
    store(links(given.events))
    print(f"{given.events:,} events on {bed.database_words()}, {bed.load_words()}")
    tell("verify the whole chain", walks.verdict_now, 1)
    for what, (wanted, number) in PAGES.items():
        tell(what, partial(page, wanted, number), given.repeats)
    for field in ("act", "actor", "host", "pack"):
        tell(f"choices of {field}", partial(filters.values_known, field), given.repeats)
    for form in exports.Form:
        tell(f"export as {form}", partial(export, form, given.events), 1)
    for events in (given.events // 10, given.events // 5):
        tracemalloc.start()
        export(exports.Form.CSV, events)
        print(f"peak memory of an export of {events:,}: {tracemalloc.get_traced_memory()[1] / 1e6:.1f} MB")
        tracemalloc.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
