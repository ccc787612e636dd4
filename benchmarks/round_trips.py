"""How many round trips a fetch of one small file takes, besides what the program itself needs.

    python -m benchmarks.round_trips [--json] [--round-trip-ms N] [--repeats N]

On a link without loss, long enough that nothing else counts. Needs what the lossy bed needs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.beds import Profile, lossy, missing_for_lossy
from benchmarks.fetch_against_peers import OURS, digest_of, run_once

SIZE_BYTES = 70_000


def measure(round_trip_ms: int, repeats: int, folder: Path) -> list[float]:
    """Round trips of each repeat."""
    source = folder / "file.bin"
    source.write_bytes(os.urandom(SIZE_BYTES))
    profile = Profile("far", round_trip_ms, 0, 1, 100)
    found: list[float] = []
    for repeat in range(repeats):
        with lossy(folder / "bed", profile, repeat + 1) as bed:
            run = run_once(
                OURS, repeat, bed, source, digest_of(source), lanes="auto", limit_seconds=120.0, folder=folder
            )
        found.append(round(run.detail["seconds"] * 1000 / round_trip_ms, 1))
    return found


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description="Round trips of a fetch of one small file.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--round-trip-ms", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if why := missing_for_lossy():
        sys.exit(f"Not measured: {why}.")
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        found = measure(options.round_trip_ms, options.repeats, Path(name))
    if options.json:
        print(json.dumps({"bytes": SIZE_BYTES, "round_trip_ms": options.round_trip_ms, "round_trips": found}))
    else:
        print(f"{SIZE_BYTES:,} bytes over {options.round_trip_ms} ms: {', '.join(map(str, found))} round trips")


if __name__ == "__main__":
    main()
