"""How long it takes to measure what two resources share, by the number of their entries together.

    python -m benchmarks.overlap_of_two [--json] [--sizes N,N,…] [--postgres]

Two listings of half the size each, every file with a digest, half of the contents in both. The product's own run: rows
from the database, sums of each pair both ways, and the rows of the result.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice

from django.db import connection, transaction

from benchmarks import inventory_bed as bed
from benchmarks.listings import digest_of, listing
from calculet.actors import Actor
from inventory.models import Entry, Overlap, Scan
from inventory.remote.names import RemoteName
from inventory.services import overlaps

_PIECE = 5000


def measure(_given: argparse.Namespace, size: int, actor: Actor) -> list[bed.Figure]:
    """Store two listings with digests, then measure."""
    half = size // 2
    for name, first in (("one", 0), ("other", half // 2)):
        scan = bed.scan_recorded(name, RemoteName(b"/srv/" + name.encode()), lambda: listing(half), actor)
        give_digests(scan, first)
    row = overlaps.overlaps_request(actor=actor)
    clock, processor = time.perf_counter(), time.process_time()
    overlaps.overlaps_run(row.pk)
    took, worked = time.perf_counter() - clock, time.process_time() - processor
    if not Overlap.objects.filter(files__gt=half // 4).exists():
        raise RuntimeError("what they share was not found")
    return [
        bed.Figure("overlap of two", size, took, "s", 10),
        bed.Figure("of it on the processor", size, worked, "s"),
        bed.Figure("memory of the worker at most", size, bed.peak_mebibytes(), "MiB"),
    ]


def give_digests(scan: Scan, first: int) -> None:
    """A digest to each file, from a number on: what two listings number alike is the same content."""
    files = scan.entries.filter(kind=Entry.Kind.FILE).order_by("position").values_list("pk", flat=True)
    numbered = enumerate(files.iterator(chunk_size=_PIECE), first)
    table = connection.ops.quote_name(Entry._meta.db_table)
    while piece := [(digest_of(number), pk) for number, pk in islice(numbered, _PIECE)]:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(f"UPDATE {table} SET sha256 = %s WHERE id = %s", piece)


if __name__ == "__main__":
    sys.exit(bed.run("Overlap of two resources", "benchmarks.overlap_of_two", measure))
