"""The product as it runs, on this test's own database: `manage.py up` in a process of its own, and a slow SSH host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.models import Host
from inventory.remote.pool import fetch_host_key
from inventory.services.hosts import host_add, host_pin_key
from transfers.demo.ssh_host import HostFolder, prepare_host_folder

STARTED = "is ready at"


def wait_until(what: str, is_so: Callable[[], bool], *, seconds: float, look_seconds: float = 0.1) -> None:
    """Look again and again. Raises AssertionError with `what` when it never came to be so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:g} s still not so: {what}")
        time.sleep(look_seconds)


class Product:
    """`manage.py up` on the data folder and the database of this test. Needs `transactional_db`."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "up.out"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.output.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(settings.BASE_DIR / "manage.py"), "up", "--bind", "127.0.0.1:0"],
                env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
                cwd=settings.BASE_DIR,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while STARTED not in self.output.read_text():
            assert process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text() + self.logs
            time.sleep(0.1)
        return process

    @property
    def address(self) -> str:
        """Where its pages are."""
        return self.output.read_text().split(STARTED)[1].split()[0]

    @property
    def logs(self) -> str:
        """What its programs wrote, for a failing test."""
        return "\n".join(
            f"== {log.name}\n{log.read_text()[-4000:]}" for log in (settings.DATA_DIR / "log").glob("*.log")
        )

    def kill(self) -> None:
        """kill -9 of the supervisor alone."""
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        """After `kill` or `stop`."""
        self.process = self._start()

    def stop(self) -> None:
        """As Ctrl-C does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def processes(self, text: str) -> list[int]:
        """Ids of the processes of this product whose command line holds a text."""
        mark = f"TESTS_DATA_ROOT={os.environ['TESTS_DATA_ROOT']}\0".encode()
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                environment = (entry / "environ").read_bytes() + b"\0"
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            mine = f"PYTEST_XDIST_WORKER={worker}\0".encode() in environment if worker else True
            if mark in environment and mine and text in command:
                found.append(int(entry.name))
        return found

    def kill_workers(self, queue: str) -> int:
        """kill -9 of a queue's worker and its children; returns how many there were."""
        victims = self.processes(f"worker --queues {queue} ")
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        wait_until("the killed are gone", lambda: not set(victims) & set(self.processes("worker")), seconds=10)
        return len(victims)


class SlowHost:
    """A real SSH server (asyncssh) whose rate is limited, in a process of its own."""

    def __init__(self, folder: Path, *, bytes_per_second: float, path: str | None = None) -> None:
        self.folder = HostFolder(folder / "slow host")
        self._rate = bytes_per_second
        self._environment = {**os.environ, "PATH": path or os.environ["PATH"]}
        self.key = settings.KEY_DIR / f"slow-{os.getpid()}-{folder.name}"
        prepare_host_folder(self.folder, self.key)
        self.port = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "transfers.demo.ssh_host", "--folder", str(self.folder.path)]
        command += ["--port", str(self.port), "--bytes-per-second", str(self._rate)]
        process = subprocess.Popen(
            command,
            cwd=settings.BASE_DIR,
            env=self._environment,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        self.port = int(process.stdout.readline().split()[-1])
        return process

    def kill(self) -> None:
        """kill -9 of the server; every connection ends."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def start_again(self) -> None:
        """On the same port, after `kill`."""
        self.process = self._start()

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process.poll() is None:
            self.kill()

    def host_make(self, person: Person, name: str = "slow") -> Host:
        """A host's rows with its key pinned."""
        actor = Actor.of(person)
        host = host_add(
            name=name,
            address="127.0.0.1",
            port=self.port,
            username="anybody",
            key_name=self.key.name,
            staging_path=str(self.folder.path / "staging"),
            actor=actor,
        )
        key = fetch_host_key("127.0.0.1", self.port, 10.0)
        host_pin_key(host=host, key_type=key.key_type, blob=key.blob, fingerprint=key.fingerprint, actor=actor)
        return host
