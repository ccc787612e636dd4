"""`manage.py up`, as a person starts it: everything runs, everything ends, and a second one is refused."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.settings import BASE_DIR

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

READY = re.compile(r"is ready at (http://\S+)")
LINK = re.compile(r"(http://\S+/people/link/\S+)")


class Up:
    """One `up`, or another command, in a data folder."""

    def __init__(self, folder: Path, *arguments: str, command: str = "up") -> None:
        self.folder, self.output = folder, folder.with_name(f"{command}-{len(list(folder.parent.iterdir()))}.out")
        names = {"DATABASE_URL", "BROKER_URL", "DJANGO_SETTINGS_MODULE"}
        environment = {name: value for name, value in os.environ.items() if name not in names}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(BASE_DIR / "manage.py"), command, *arguments],
                env={**environment, "CALCULET_DATA_DIR": str(folder)},
                stdout=output,
                stderr=output,
                cwd=folder.parent,
                start_new_session=True,
            )

    @property
    def told(self) -> str:
        return self.output.read_text()

    def wait_for(self, pattern: re.Pattern[str], *, seconds: float = 100) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := pattern.search(self.told):
                return found.group(1) if found.groups() else found.group()
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.told}"
            time.sleep(0.1)
        raise AssertionError(f"“{pattern.pattern}” was not told:\n{self.told}{self.logs}")

    @property
    def logs(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in (self.folder / "log").glob("*.log"))

    def processes(self) -> dict[int, str]:
        """What runs in its data folder, by the environment that each process was started with."""
        mark, found = f"CALCULET_DATA_DIR={self.folder}\0", {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if mark in (entry / "environ").read_text(errors="replace") + "\0":
                    found[int(entry.name)] = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
            except OSError:  # it ended meanwhile, or is a zombie
                continue
        return {pid: command for pid, command in found.items() if command}

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def fetch(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def gone(up: Up, *, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while up.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    return not up.processes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data with a blank"


@pytest.fixture
def up(folder: Path) -> Iterator[Up]:
    started = Up(folder, "--bind", "127.0.0.1:0", "--links", "1", "--crunches", "1")
    yield started
    started.end()


def test_up_serves_pages_restarts_what_dies_refuses_a_second_one_and_stops(up: Up, folder: Path) -> None:
    address = up.wait_for(READY)
    assert fetch(f"{address}healthz") == (200, "ok\n")
    status, page = fetch(address)
    assert status == 200
    assert "<h1>Sign in</h1>" in page
    assert fetch(f"{address}static/css/app.css")[0] == 200

    link = up.wait_for(LINK)
    assert link.startswith(address)
    assert "The first admin" in fetch(link)[1]

    second = Up(folder, "--bind", "127.0.0.1:0")
    assert second.process.wait(60) == 1
    assert "The product runs already on the data folder" in second.told

    worker = next(pid for pid, command in up.processes().items() if "worker --queues control" in command)
    os.kill(worker, signal.SIGKILL)
    up.wait_for(re.compile(r"worker-control ended by signal 9; it is started again in 0.5 s\."))
    deadline = time.monotonic() + 20
    while not any("worker --queues control" in command for command in up.processes().values()):
        assert time.monotonic() < deadline, up.told
        time.sleep(0.1)

    more = Up(folder, "--queues", "crunch", "--concurrency", "1", command="worker")
    more.wait_for(re.compile(r"crunch-\d+@\S+ ready\."))
    more.process.send_signal(signal.SIGTERM)
    assert more.process.wait(20) == 0, more.told

    begun = time.monotonic()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(30) == 0, up.told
    assert time.monotonic() - begun < 18, up.told  # work 10, pages 3, broker 2, and a busy machine
    assert up.told.endswith("Stopping …\nStopped.\n")
    assert gone(up, seconds=2), up.processes()


def test_killing_up_leaves_no_process_and_the_next_one_starts(up: Up, folder: Path) -> None:
    up.wait_for(READY)
    assert len(up.processes()) >= 8
    up.process.kill()
    up.process.wait()
    assert gone(up, seconds=5), up.processes()
    again = Up(folder, "--bind", "127.0.0.1:0", "--links", "1", "--crunches", "1")
    try:
        assert fetch(f"{again.wait_for(READY)}healthz") == (200, "ok\n")
    finally:
        again.end()
        assert gone(again, seconds=5), again.processes()


def test_a_port_in_use_is_told_and_nothing_is_started(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        up = Up(folder, "--bind", f"127.0.0.1:{taken.getsockname()[1]}")
        assert up.process.wait(60) == 1
    assert "cannot listen at 127.0.0.1:" in up.told
    assert "Nothing was started." in up.told
    assert not up.processes()


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.0.0.1:99999", "127.0.0.1:http", ""])
def test_an_address_that_is_none_is_told(folder: Path, bind: str) -> None:
    up = Up(folder, "--bind", bind)
    assert up.process.wait(60) == 1
    assert "is not an address to listen at" in up.told
