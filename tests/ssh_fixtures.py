"""Fixtures around a real sshd; loaded as a plugin by tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inventory.remote.pool import SshRemote
from tests.parts import need
from tests.sshd import Sshd


@pytest.fixture
def make_sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Start servers with options of one's own: `make_sshd(config=["MaxSessions 1"])`. All are stopped afterwards."""
    need("sshd")
    servers: list[Sshd] = []

    def make(**options: Any) -> Sshd:
        server = Sshd(tmp_path / f"sshd{len(servers)}", **options)
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def sshd(make_sshd: Callable[..., Sshd]) -> Sshd:
    """A server with the usual settings."""
    return make_sshd()


@pytest.fixture
def ssh_remote(sshd: Sshd) -> Iterator[SshRemote]:
    """A `Remote` on that server, closed afterwards."""
    remote = SshRemote(sshd.endpoint(), no_data_timeout_seconds=30, connect_timeout_seconds=10)
    yield remote
    remote.close()
