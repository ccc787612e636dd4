"""A throw-away PostgreSQL: `python -m tests.postgres COMMAND …` gives a command its DATABASE_URL, then removes it.

Without PostgreSQL on the machine the command is left out and that is said; with CI=true that is a failure.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from tests.parts import find

_START_SECONDS = 60.0
_QUICK = ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]  # the data need not outlive the run


class PostgresServer:
    """A server on a Unix socket in a temporary folder; `url` is its DATABASE_URL. Root runs it as another account."""

    def __init__(self) -> None:
        server = find("postgresql")
        if server is None:
            raise FileNotFoundError("postgresql")
        self._programs = Path(server).resolve().parent
        self._account = _account()
        # Not below pytest's folders: those are closed to other accounts.
        self._folder = Path(tempfile.mkdtemp(prefix="calculet-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgres://tests@/{quote(str(self._folder))}/postgres"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._remove()

    def _start(self) -> None:
        if self._account is not None:
            shutil.chown(self._folder, self._account)
        data = self._folder / "data"
        make = [
            str(self._programs / "initdb"),
            "--auth=trust",
            "--username=tests",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]
        subprocess.run(
            [*make, "--no-sync", f"--pgdata={data}"],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._account,
            cwd=self._folder,
        )
        options = [f"-cunix_socket_directories={self._folder}", "-clisten_addresses=", "-cmax_connections=100"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(data), *options, *(f"-c{option}" for option in _QUICK)],
                stdout=log,
                stderr=log,
                user=self._account,
                cwd=self._folder,
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        ask = [str(self._programs / "pg_isready"), "--quiet", f"--host={self._folder}"]
        while subprocess.run(ask, check=False).returncode != 0:
            if time.monotonic() > deadline or (self._process is not None and self._process.poll() is not None):
                raise RuntimeError(f"PostgreSQL did not start:\n{(self._folder / 'log').read_text(errors='replace')}")
            time.sleep(0.1)

    def _remove(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _account() -> str | None:
    """The account to run the server as: ours, but PostgreSQL refuses root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def main(command: list[str]) -> int:
    """Run the command with a server, and return its status."""
    if find("postgresql") is None:
        reason = "missing on this machine: postgresql (make test-deps installs it)"
        refused = os.environ.get("CI") == "true"
        sys.stderr.write(f"{'FAILED' if refused else 'SKIPPED'} all tests on PostgreSQL: {reason}\n")
        return int(refused)
    with PostgresServer() as server:
        return subprocess.run(command, env={**os.environ, "DATABASE_URL": server.url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
