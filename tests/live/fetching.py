"""The one-off command in a process of its own, against a real sshd, without a database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.management import ManagementUtility

from tests.parts import find
from tests.sshd import Sshd

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """How a run of the command ended."""

    status: int
    out: str
    errors: str

    @property
    def figures(self) -> dict[str, Any]:
        """The object in the last line of standard output."""
        found = json.loads(self.out.splitlines()[-1])
        assert isinstance(found, dict)
        return found

    def is_one_sentence_without_traceback(self) -> bool:
        """One line on standard error, nothing on standard output, a bad status."""
        lines = self.errors.strip().splitlines()
        return self.status not in (0, None) and len(lines) == 1 and "Traceback" not in self.errors and not self.out


class Fetching:
    """Starts `manage.py fetch` for files of one server. The database address leads nowhere on purpose."""

    def __init__(self, server: Sshd, folder: Path, *, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        """With `capsys`, `run` runs the command in this process."""
        self._capsys = capsys
        self._started: list[subprocess.Popen[str]] = []
        self.server, self.landing = server, folder / "landing"
        self.landing.mkdir()
        self._home = folder / "no-home"
        self._home.mkdir()
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"},
            "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
            "CALCULET_DATA_DIR": str(folder / "data"),
            "HOME": str(self._home),
            "PYTHONWARNINGS": "error",
        }
        self._environment.pop("DJANGO_SETTINGS_MODULE", None)

    def place(self, path: Path | bytes | str) -> str:
        """USER@HOST:PATH."""
        return f"{self.server.username}@127.0.0.1:{os.fsdecode(path)}"

    def command(self, place: str, *more: str, usual: bool = True) -> list[str]:
        """The command line; `usual`: with this server's port, key and known hosts, and --json."""
        given = ["--to", str(self.landing)] if "--to" not in more else []
        if usual:
            for option, value in (
                ("--port", str(self.server.port)),
                ("--key", str(self.server.key_path)),
                ("--known-hosts", str(self.server.known_hosts_path)),
            ):
                given += [option, value] if option not in more else []
            given.append("--json")
        return [sys.executable, str(ROOT / "manage.py"), "fetch", place, *given, *more]

    def start(self, place: str, *more: str, usual: bool = True) -> subprocess.Popen[str]:
        """Start it and do not wait."""
        process = subprocess.Popen(
            self.command(place, *more, usual=usual),
            cwd=self._home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """End what a failed test left running."""
        for process in self._started:
            process.kill()
            process.communicate()

    def run(self, place: str, *more: str, usual: bool = True) -> Ended:
        """Run it to its end."""
        if self._capsys is not None:
            return self._run_here(self._capsys, self.command(place, *more, usual=usual))
        done = subprocess.run(
            self.command(place, *more, usual=usual),
            cwd=self._home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=90,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def _run_here(self, capsys: pytest.CaptureFixture[str], command: list[str]) -> Ended:
        capsys.readouterr()
        try:
            ManagementUtility(command[1:]).execute()
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        out, errors = capsys.readouterr()
        return Ended(status, out, errors)

    def names(self) -> Sequence[str]:
        """What lies in the landing folder."""
        return sorted(path.name for path in self.landing.iterdir())


def slow_dd(folder: Path, kibibytes: int) -> str:
    """A PATH whose dd brings that many KiB in each tenth of a second, so that a fetch can be met in its middle."""
    folder.mkdir()
    dd = find("dd")
    (folder / "dd").write_text(
        "#!/bin/sh\n"
        f'[ "$1" = bs=4 ] && exec {dd} "$@"\n'
        f'{dd} "$@" | while :; do {dd} bs=1024 count={kibibytes} iflag=fullblock 2>/dev/null >{folder}/$$\n'
        f"[ -s {folder}/$$ ] || break; cat {folder}/$$; sleep 0.1; done; rm -f {folder}/$$\n"
    )
    (folder / "dd").chmod(0o755)
    return f"{folder}:/usr/bin:/bin"
