"""Does the link doctor measure what the link is? Round trip, loss and one connection on beds whose truth is known.

    python -m benchmarks.link_doctor_on_bed [--json] [--profile NAME] [--seconds N]

Needs the lossy bed (root, a C compiler, iproute2, sshd). The relay drops packets at the stated rate in both
directions; what the host sends again is counted by its kernel.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.beds import PROFILES, lossy, missing_for_lossy
from inventory.remote.names import RemoteName
from transfers.doctor.advice import advise
from transfers.doctor.examine import Places, examine
from transfers.doctor.facts import LinkHistory
from transfers.engine.clock import SystemClock
from transfers.oneoff.access import sign_in
from transfers.oneoff.request import FetchRequest, Place

ROOT = Path(__file__).resolve().parent.parent


def inside(options: argparse.Namespace) -> None:
    """At the near end: examine the far one, and print what was found."""
    place = Place(options.user, options.address, RemoteName(b"/etc/hostname"))
    request = FetchRequest(place, Path.cwd(), Path(options.known_hosts), options.port, Path(options.key))
    remote, _path, _identity = sign_in(request, lambda _remote: None, lanes=lambda _seconds: 1)
    try:
        facts = examine(
            remote,
            SystemClock(),
            Places(),
            processor_seconds=time.process_time,
            wall_seconds=lambda: time.time_ns() / 1e9,
            seconds=options.seconds,
        )
    finally:
        remote.close()
    advice = [one.sentence for one in advise(facts, LinkHistory())]
    sys.stdout.write(json.dumps({"facts": facts.as_json(), "advice": advice}) + "\n")


def main() -> int:
    """Examine the link of one bed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="vpn")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    for name in ("user", "address", "known-hosts", "key"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options)
        return 0
    if why := missing_for_lossy():
        sys.stderr.write(f"No lossy bed here: {why}\n")
        return 1
    profile = PROFILES[options.profile]
    with tempfile.TemporaryDirectory(prefix="doctor-") as folder, lossy(Path(folder), profile, 1) as bed:
        command = [sys.executable, "-m", "benchmarks.link_doctor_on_bed", "--inside", "--seconds", str(options.seconds)]
        command += ["--user", bed.username, "--address", bed.address, "--port", str(bed.port)]
        command += ["--known-hosts", str(bed.known_hosts), "--key", str(bed.key)]
        done = subprocess.run(bed.near(command), cwd=ROOT, check=True, capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout)
    if options.json:
        sys.stdout.write(json.dumps({"profile": profile.name, **found}) + "\n")
        return 0
    truth = f"{profile.round_trip_ms} ms, {profile.loss_percent:g} % in runs of {profile.burst}"
    sys.stdout.write("\n".join([f"The bed: {truth}, {profile.rate_megabits:g} Mbit/s.", *found["advice"], ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
