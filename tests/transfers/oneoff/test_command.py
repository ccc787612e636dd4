"""The command line itself: what it loads, and what it refuses before it does anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def _python(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60
    )


def test_a_fetch_starts_without_django_and_other_parts_that_it_does_not_use() -> None:
    told = _python("-X", "importtime", "manage.py", "fetch", "--help")
    assert told.returncode == 0 and "USER@HOST:PATH" in told.stdout
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.stderr.splitlines()}
    assert "paramiko" in loaded and "transfers" in loaded
    assert not loaded & {"django", "celery", "kombu", "redis", "asyncio", "unittest"}


def test_settings_are_refused_as_they_are_everywhere() -> None:
    for variables, word in (
        ({"CALCULET_DEBUGG": "yes"}, "CALCULET_DEBUGG: no such setting"),
        ({"CALCULET_NO_DATA_TIMEOUT_SECONDS": "soon"}, "CALCULET_NO_DATA_TIMEOUT_SECONDS is “soon”"),
    ):
        refused = _python("manage.py", "fetch", "ada@host:/x", "--to", ".", **variables)
        assert refused.returncode == 1 and word in refused.stderr and "Traceback" not in refused.stderr
