"""The measurement itself: ratios with honest intervals, and a run on loopback whose copies are checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.beds import PROFILES, loopback
from benchmarks.fetch_against_peers import OURS, Run, command_of, ratio
from tests.parts import need

ROOT = Path(__file__).resolve().parents[2]


def _run(tool: str, repeat: int, seconds: float, *, cut_off: bool = False) -> Run:
    return Run(tool, repeat, seconds, 1.0, not cut_off, cut_off, {})


def test_a_ratio_pairs_repeats_and_has_a_students_interval() -> None:
    runs = [_run(OURS, 0, 10.0), _run("scp", 0, 20.0), _run(OURS, 1, 10.0), _run("scp", 1, 80.0)]
    found = ratio(runs, "scp")
    assert found.mean == 4.0 and found.pairs == (2.0, 8.0) and not found.at_least
    assert found.low is not None and found.high is not None
    assert found.low < 0.01 and found.high > 1000  # two pairs that far apart say next to nothing


def test_one_repeat_has_no_interval_and_a_cut_off_peer_is_told() -> None:
    found = ratio([_run(OURS, 0, 10.0), _run("scp", 0, 300.0, cut_off=True)], "scp")
    assert found.mean == 30.0 and found.low is None and found.at_least


def test_a_steady_ratio_has_a_narrow_interval() -> None:
    runs = [_run(OURS, n, 10.0 + n) for n in range(3)] + [_run("rsync", n, 2 * (10.0 + n)) for n in range(3)]
    found = ratio(runs, "rsync")
    assert (found.low, found.mean, found.high) == (2.0, 2.0, 2.0)


def test_every_profile_says_what_it_is() -> None:
    assert {profile.name for profile in PROFILES.values()} == set(PROFILES)


def test_tools_get_the_same_key_and_known_hosts(tmp_path: Path) -> None:
    need("sshd", "ssh-keygen")
    with loopback(tmp_path / "bed") as bed:
        for tool in (OURS, "scp", "rsync"):
            words = " ".join(command_of(tool, bed, tmp_path / "f", tmp_path, "8"))
            assert str(bed.key) in words and str(bed.known_hosts) in words and str(bed.port) in words


@pytest.mark.live
def test_the_measurement_runs_on_loopback_and_says_so(tmp_path: Path) -> None:
    need("sshd", "scp")
    command = [sys.executable, "-m", "benchmarks.fetch_against_peers", "--json", "--loopback"]
    done = subprocess.run(
        [*command, "--size-mib", "2", "--repeats", "1"], cwd=ROOT, capture_output=True, timeout=100, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["bed"] == "plain loopback" and found["bed_is_lossy"] is False and found["why_not_lossy"] == "asked for"
    assert all(run["sha256_matches"] for run in found["runs"])
    assert {one["peer"] for one in found["peer_time_over_ours"]} <= {"scp", "rsync"}
