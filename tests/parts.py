"""System parts that some tests need. A missing one is a skip with its reason, and with CI=true a failure."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

_PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/sbin"])


def find(name: str) -> str | None:
    """The path of a system part's program, or None: sshd, busybox, zstd, fish, chromium, postgresql, …"""
    if name == "postgresql":
        servers = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
        return str(servers[-1]) if servers else shutil.which("postgres", path=_PLACES)
    return shutil.which(name, path=_PLACES)


def _version(server: Path) -> tuple[int, str]:
    text = server.parent.parent.name
    return (int(text) if text.isdigit() else 0, text)


def need(*names: str) -> None:
    """Call in a fixture or test: skips when a part is missing and names it; with CI=true the test fails instead."""
    missing = [name for name in names if find(name) is None]
    if not missing:
        return
    reason = f"missing on this machine: {', '.join(missing)} (make test-deps installs it)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def need_root(what: str) -> None:
    """Like `need`, for what only root may do."""
    if os.geteuid() == 0:
        return
    reason = f"{what} needs root"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
