"""How long a scan takes to store, and how much memory its worker holds, by the number of entries.

    python -m benchmarks.scan_store [--json] [--sizes N,N,…] [--postgres]

The product's own run of a scan, from a recorded listing instead of a host: sorting, storing, comparing, and writing the
columns that searches read. Reading the listing itself is counted apart, since a host's speed is its own matter. Memory
is the most that the process ever held, the program itself included.
"""

from __future__ import annotations

import argparse
import sys
import time

from benchmarks import inventory_bed as bed
from benchmarks.listings import ROOT, listing
from calculet.actors import Actor


def measure(_given: argparse.Namespace, size: int, actor: Actor) -> list[bed.Figure]:
    """Store one listing."""
    began = time.perf_counter()
    count = sum(1 for _entry in listing(size))
    made = time.perf_counter() - began
    before = bed.peak_mebibytes()
    clock, processor = time.perf_counter(), time.process_time()
    scan = bed.scan_recorded("project", ROOT, lambda: listing(size), actor)
    took, worked = time.perf_counter() - clock, time.process_time() - processor
    if scan.files + scan.folders + scan.links != count:
        raise RuntimeError("not everything was stored")
    return [
        bed.Figure("store a scan", size, took - made, "s"),
        bed.Figure("of it on the processor", size, worked - made, "s"),
        bed.Figure("entries a second", size, size / (took - made), "1/s"),
        bed.Figure("memory of the worker at most", size, bed.peak_mebibytes(), "MiB", 300),
        bed.Figure("memory before the scan", size, before, "MiB"),
    ]


if __name__ == "__main__":
    sys.exit(bed.run("Storing a scan", "benchmarks.scan_store", measure))
