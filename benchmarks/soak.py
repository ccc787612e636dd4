"""A long run of the engine over a bad link that falls silent three times, and whether the bars hold.

    python -m benchmarks.soak [--minutes N] [--seed N] [--profile NAME] [--json]

The link is the lossy bed. A quarter, half and three quarters of the way nothing passes for 60 s (a tenth of the run
where that is shorter than ten minutes). Bars: goodput while the link is up; full rate again within ten seconds
of the first packet; bytes fetched again per silence; every chunk right; memory and open files flat. Exit status 0 only
when all of them hold.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.beds import PROFILES, Bed, Profile, lossy, missing_for_lossy

MEBIBYTE = 2**20
SILENCE_SECONDS = 60.0
BACK_SECONDS = 10.0
STARTING_SECONDS = 15.0  # of the run, not judged for goodput
SHARE_OF_WIRE = 0.875  # 17.5 of 20 Mbit/s
MEMORY_BYTES = 200 * MEBIBYTE
MEMORY_GROWTH_BYTES = 32 * MEBIBYTE
AGAIN_A_LANE = 256 * 1024

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing that must hold, what was measured, and what it had to be."""

    name: str
    holds: bool
    measured: str
    wanted: str


@dataclass(frozen=True, slots=True)
class Silence:
    """From when to when nothing passed, in seconds of this machine's steady clock."""

    begun: float
    ended: float


def run(bed: Bed, profile: Profile, minutes: float, folder: Path) -> tuple[list[Row], list[Silence]]:
    """Let a link run over the bed; what it said, and the silences."""
    seconds = minutes * 60
    source = folder / "source"
    _make_source(source, round(profile.rate_megabits * 1e6 / 8 * seconds))
    words = [bed.address, str(bed.port), bed.username, bed.key, bed.known_hosts, source, folder / "landing", seconds]
    command = bed.near([sys.executable, "-m", "benchmarks.soak_link", *map(str, words)])
    silences: list[Silence] = []
    rows: list[Row] = []
    begun = threading.Event()
    process = subprocess.Popen(command, cwd=Path(__file__).resolve().parent.parent, stdout=subprocess.PIPE, text=True)
    wire = threading.Thread(target=_fall_silent, args=(bed.relay, seconds, begun, silences), daemon=True)
    wire.start()
    assert process.stdout is not None
    for line in process.stdout:
        rows.append(json.loads(line))
        begun.set()
    process.wait(30)
    return rows, silences


def _fall_silent(relay: int, seconds: float, begun: threading.Event, silences: list[Silence]) -> None:
    length = min(SILENCE_SECONDS, seconds / 10)
    if not begun.wait(120):
        return
    start = time.monotonic()
    for share in (0.25, 0.5, 0.75):
        time.sleep(max(0.0, start + share * seconds - length / 2 - time.monotonic()))
        os.kill(relay, signal.SIGUSR1)
        at = time.monotonic()
        time.sleep(length)
        os.kill(relay, signal.SIGUSR1)
        silences.append(Silence(at, time.monotonic()))


def _make_source(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // MEBIBYTE):
            file.write(os.urandom(MEBIBYTE))


def judge(rows: Sequence[Row], silences: Sequence[Silence], profile: Profile) -> list[Bar]:
    """Whether the bars hold."""
    samples = [row for row in rows if row["event"] == "sample" and row["seconds"] > 0.2]
    if len(samples) < STARTING_SECONDS:
        return [Bar("the link ran", holds=False, measured=f"{len(samples)} seconds", wanted="more")]
    first = float(samples[0]["at"])
    up = [one for one in samples if one["at"] > first + STARTING_SECONDS and not _is_silent(one["at"], silences)]
    goodput = _rate(up) * 8 / 1e6
    wanted = SHARE_OF_WIRE * profile.rate_megabits
    bars = [
        Bar("goodput while the link is up", goodput >= wanted, f"{goodput:.1f} Mbit/s", f"{wanted:.1f} Mbit/s"),
        *(bar for number, one in enumerate(silences, 1) for bar in _bars_of(number, one, samples, up, profile)),
    ]
    last = samples[-1]
    right = not last["differed"] and last["matched"] > 0
    bars.append(Bar("chunks that differed", right, f"{last['differed']} of {last['matched']}", "none"))
    return [*bars, *_flat(samples, first)]


def _is_silent(at: float, silences: Sequence[Silence]) -> bool:
    return any(one.begun <= at <= one.ended + BACK_SECONDS for one in silences)


def _rate(samples: Sequence[Row]) -> float:
    seconds = sum(one["seconds"] for one in samples)
    return sum(one["new_bytes"] for one in samples) / seconds if seconds else 0.0


def _bars_of(number: int, silence: Silence, samples: Sequence[Row], up: Sequence[Row], profile: Profile) -> list[Bar]:
    before = [one for one in up if one["at"] < silence.begun][-30:]
    back = [one for one in samples if silence.ended + BACK_SECONDS < one["at"] < silence.ended + BACK_SECONDS + 10]
    around = [one for one in samples if silence.begun - 2 < one["at"] < silence.ended + BACK_SECONDS]
    share = _rate(back) / max(1.0, _rate(before))
    again = sum(one["wire_bytes"] - one["new_bytes"] for one in around)
    lanes = max((one["lanes"] for one in around), default=0)
    in_flight = profile.rate_megabits * 1e6 / 8 * (profile.round_trip_ms + profile.queue_ms) / 1000
    allowed = lanes * AGAIN_A_LANE + in_flight
    return [
        Bar(
            f"silence {number}: rate from the tenth second on, of that before",
            share >= 0.9,
            f"{share:.0%}",
            "90 %",
        ),
        Bar(
            f"silence {number}: fetched again",
            again <= allowed,
            f"{again / MEBIBYTE:.1f} MiB",
            f"{allowed / MEBIBYTE:.1f} MiB",
        ),
    ]


def _flat(samples: Sequence[Row], first: float) -> list[Bar]:
    late = [one for one in samples if one["at"] > first + STARTING_SECONDS]
    quarter = max(1, len(late) // 4)
    begin, end = late[:quarter], late[-quarter:]
    most = max(one["resident_bytes"] for one in samples)
    grown = statistics.median(one["resident_bytes"] for one in end) - statistics.median(
        one["resident_bytes"] for one in begin
    )
    handles = statistics.median(one["handles"] for one in end) - statistics.median(one["handles"] for one in begin)
    lanes = max(one["lanes"] for one in end) - min(one["lanes"] for one in begin)
    return [
        Bar("memory", most < MEMORY_BYTES, f"{most / MEBIBYTE:.0f} MiB", f"{MEMORY_BYTES / MEBIBYTE:.0f} MiB"),
        Bar(
            "memory gained from the first quarter to the last",
            grown < MEMORY_GROWTH_BYTES,
            f"{grown / MEBIBYTE:.0f} MiB",
            f"{MEMORY_GROWTH_BYTES / MEBIBYTE:.0f} MiB",
        ),
        Bar(
            "open files gained", handles <= 4 * max(0, lanes) + 4, f"{handles:.0f}", f"4 for each of {lanes} lanes more"
        ),
    ]


def main(words: Sequence[str]) -> int:
    """Run it and print; returns 0 when all bars hold, 2 when the bed cannot stand here."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="vpn")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    missing = missing_for_lossy()
    if missing:
        sys.stderr.write(f"The lossy bed cannot stand here: {missing}\n")
        return 2
    profile = PROFILES[options.profile]
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, lossy(Path(folder), profile, options.seed) as bed:
        rows, silences = run(bed, profile, options.minutes, Path(folder))
        bars = judge(rows, silences, profile)
        load = os.getloadavg()[1]
        if options.json:
            decisions = [row["decision"] for row in rows if row.get("decision")]
            problems = [row["what"] for row in rows if row["event"] == "problem"]
            told = {"bed": bed.description, "load": load, "bars": [asdict(bar) for bar in bars]}
            print(json.dumps({**told, "decisions": decisions, "problems": problems}))
        else:
            print(f"{bed.description}; {options.minutes:g} minutes, {len(silences)} silences; load {load:.1f}")
            for bar in bars:
                print(f"  {'holds' if bar.holds else 'FAILS'}  {bar.name}: {bar.measured} (bar: {bar.wanted})")
    return 0 if all(bar.holds for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
