"""How fast the one-off command is beside scp and rsync: the same file, the same link, in the same run, checked.

    python -m benchmarks.fetch_against_peers [--json] [--repeats N] [--size-mib N] [--profile NAME] [--loopback]
                                             [--lanes N|auto] [--limit-seconds N]

On the lossy bed where this machine and user can have one, on plain loopback otherwise; the output says which. Tools
take turns, the first one another at each repeat, each on a fresh bed with the repeat's own seed. Time is that of the
whole command, from start to exit: for the one-off command with signing in, digests at the source, reading back from
the disk and comparing; the peers verify nothing. A copy counts only when its SHA-256 is the file's. A tool that is cut
off at the limit is told as slower than that. Ratios are time of the peer over time of the one-off command, paired by
repeat; the mean is geometric, the interval is Student's 95 % on the logarithms.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.beds import PROFILES, Bed, find, loopback, lossy, missing_for_lossy

OURS = "fetch"
ROOT = Path(__file__).resolve().parent.parent
# Student's t, two-sided 95 %, by degrees of freedom.
_STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


@dataclass(frozen=True, slots=True)
class Run:
    """One copy. `megabits_per_second` counts the file's bytes only, over the whole command's time.

    `processor_seconds` are those of the command and all that it started at the near end.
    """

    tool: str
    repeat: int
    seconds: float
    megabits_per_second: float
    sha256_matches: bool
    cut_off: bool
    detail: dict[str, Any]
    processor_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """Time of the peer over time of the one-off command. `at_least`: a run of the peer was cut off at the limit."""

    peer: str
    mean: float
    low: float | None
    high: float | None
    pairs: tuple[float, ...]
    at_least: bool


def command_of(tool: str, bed: Bed, source: Path, landing: Path, lanes: str) -> list[str]:
    """The command line of a tool that copies `source` from the far end into the folder `landing`."""
    ssh = ["-i", str(bed.key), "-o", f"UserKnownHostsFile={bed.known_hosts}", "-o", "BatchMode=yes"]
    place = f"{bed.username}@{bed.address}:{source}"
    if tool == "scp":
        return ["scp", "-q", "-P", str(bed.port), *ssh, place, str(landing)]
    if tool == "rsync":
        shell = " ".join(["ssh", "-p", str(bed.port), *ssh])
        return ["rsync", "-e", shell, place, f"{landing}/"]
    manage = [sys.executable, str(ROOT / "manage.py"), "fetch", place, "--to", str(landing)]
    access = ["--port", str(bed.port), "--key", str(bed.key), "--known-hosts", str(bed.known_hosts)]
    return [*manage, *access, "--lanes", lanes, "--json"]


def run_once(
    tool: str, repeat: int, bed: Bed, source: Path, sha256: str, *, lanes: str, limit_seconds: float, folder: Path
) -> Run:
    """Copy the file once, and check the copy."""
    landing = folder / "landing"
    shutil.rmtree(landing, ignore_errors=True)
    landing.mkdir()
    command = bed.near(command_of(tool, bed, source, landing, lanes))
    environment = {**os.environ, "CALCULET_DATA_DIR": str(folder / "data")}
    worked = _processor_seconds()
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    cut_off = False
    try:
        out, errors = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        cut_off = True
        process.kill()
        out, errors = process.communicate()
    seconds, worked = time.monotonic() - started, _processor_seconds() - worked
    copy = landing / source.name
    matches = not cut_off and copy.is_file() and digest_of(copy) == sha256
    if not cut_off and (process.returncode or not matches):
        raise RuntimeError(f"{tool} ended with {process.returncode}: {errors.decode(errors='replace')[-500:]}")
    detail = json.loads(out.splitlines()[-1]) if tool == OURS and not cut_off else {}
    megabits = 0.0 if cut_off else source.stat().st_size * 8 / 1e6 / seconds
    return Run(
        tool,
        repeat,
        round(seconds, 2),
        round(megabits, 2),
        matches,
        cut_off,
        detail,
        processor_seconds=round(worked, 2),
    )


def _processor_seconds() -> float:
    """Of all children that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def digest_of(path: Path) -> str:
    """A file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ratio(runs: Sequence[Run], peer: str) -> Ratio:
    """Compare a peer with the one-off command, repeat by repeat."""
    ours = {run.repeat: run.seconds for run in runs if run.tool == OURS and run.sha256_matches}
    theirs = {run.repeat: run for run in runs if run.tool == peer}
    pairs = tuple(theirs[repeat].seconds / ours[repeat] for repeat in sorted(ours.keys() & theirs.keys()))
    logarithms = [math.log(pair) for pair in pairs]
    mean = statistics.fmean(logarithms)
    low = high = None
    if len(pairs) > 1:
        half = _STUDENT.get(len(pairs) - 1, 2.0) * statistics.stdev(logarithms) / math.sqrt(len(pairs))
        low, high = round(math.exp(mean - half), 2), round(math.exp(mean + half), 2)
    at_least = any(run.cut_off for run in theirs.values())
    return Ratio(peer, round(math.exp(mean), 2), low, high, tuple(round(pair, 2) for pair in pairs), at_least)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All repeats of all tools."""
    why_loopback = "asked for" if options.loopback else missing_for_lossy()
    tools = [OURS, *(tool for tool in ("scp", "rsync") if find(tool) is not None)]
    size_bytes = int(options.size_mib * 2**20)
    source = folder / "file.bin"
    source.write_bytes(os.urandom(size_bytes))
    sha256 = digest_of(source)
    runs: list[Run] = []
    description = ""
    for repeat in range(options.repeats):
        turn = repeat % len(tools)
        for tool in tools[turn:] + tools[:turn]:
            with _bed(options, folder, repeat, loopback_only=bool(why_loopback)) as bed:
                description = bed.description
                run = run_once(
                    tool,
                    repeat,
                    bed,
                    source,
                    sha256,
                    lanes=options.lanes,
                    limit_seconds=options.limit_seconds,
                    folder=folder,
                )
            runs.append(run)
            outcome = "cut off" if run.cut_off else f"{run.megabits_per_second} Mbit/s"
            print(f"repeat {repeat + 1}: {tool} {run.seconds} s, {outcome}", file=sys.stderr)
    return {
        "question": "one-off fetch against peers: seconds for one file, over the whole command",
        "bed": description,
        "bed_is_lossy": not why_loopback,
        "why_not_lossy": why_loopback,
        "bytes": size_bytes,
        "lanes": options.lanes,
        "repeats": options.repeats,
        "runs": [asdict(run) for run in runs],
        "median_megabits_per_second": {
            tool: statistics.median(run.megabits_per_second for run in runs if run.tool == tool) for tool in tools
        },
        "peer_time_over_ours": [asdict(ratio(runs, peer)) for peer in tools[1:]],
    }


def _bed(options: argparse.Namespace, folder: Path, repeat: int, *, loopback_only: bool) -> AbstractContextManager[Bed]:
    if loopback_only:
        return loopback(folder / "bed")
    return lossy(folder / "bed", PROFILES[options.profile], repeat + 1)


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description="The one-off command beside scp and rsync on one link.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--size-mib", type=float, default=8)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="vpn")
    parser.add_argument("--loopback", action="store_true", help="measure on loopback whatever this machine can")
    parser.add_argument("--lanes", default="auto")
    parser.add_argument("--limit-seconds", type=float, default=300.0, help="cut a tool off after that long")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        found = measure(options, Path(name))
    if options.json:
        print(json.dumps(found))
        return
    print(f"{found['bed']}, {found['bytes']:,} bytes, {found['repeats']} repeats")
    for tool, rate in found["median_megabits_per_second"].items():
        print(f"  {tool:6} {rate:8.2f} Mbit/s (median)")
    for one in found["peer_time_over_ours"]:
        interval = f" [{one['low']}, {one['high']}]" if one["low"] is not None else ""
        bound = "at least " if one["at_least"] else ""
        print(f"  {one['peer']} takes {bound}{one['mean']} times as long{interval}")


if __name__ == "__main__":
    main()
