"""Programs that are kept running, and of which nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from calculet.supervisor import NotReady, Program, Supervisor

ROOT = Path(__file__).resolve().parents[2]
SLEEPER = ["sh", "-c", 'echo $$ > "$0"; sleep 600 & echo $! > "$0.child"; wait', "{}"]
STUBBORN = ["sh", "-c", 'trap "" TERM; echo $$ > "$0"; while :; do sleep 600; done', "{}"]


def within(seconds: float, check: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.05)
    return check()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def number(path: Path) -> int:
    assert within(5, lambda: path.exists() and path.read_text().strip() != ""), f"{path} was not written"
    return int(path.read_text())


def program(folder: Path, name: str, command: list[str], **options: object) -> Program:
    return Program(name, [part.format(folder / name) for part in command], **options)  # type: ignore[arg-type]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def supervise(told: list[str]) -> Iterator[Callable[..., Supervisor]]:
    started: list[Supervisor] = []

    def make(*programs: Program, **options: object) -> Supervisor:
        supervisor = Supervisor(programs, tell=told.append, **options)  # type: ignore[arg-type]
        started.append(supervisor)
        supervisor.start()
        return supervisor

    yield make
    for supervisor in started:
        supervisor.stop()


def test_stopping_leaves_no_process_not_even_a_programs_child(
    supervise: Callable[..., Supervisor], tmp_path: Path
) -> None:
    supervisor = supervise(program(tmp_path, "a", SLEEPER), program(tmp_path, "b", SLEEPER))
    assert supervisor.wait_ready(timeout_seconds=10)
    ids = [number(tmp_path / name) for name in ("a", "a.child", "b", "b.child")]
    assert all(lives(pid) for pid in ids)
    supervisor.stop()
    assert within(2, lambda: not any(lives(pid) for pid in ids))


def test_a_program_that_was_killed_is_started_again_and_its_children_are_gone(
    supervise: Callable[..., Supervisor], told: list[str], tmp_path: Path
) -> None:
    supervise(program(tmp_path, "a", SLEEPER))
    first, child = number(tmp_path / "a"), number(tmp_path / "a.child")
    os.kill(first, signal.SIGKILL)
    assert within(5, lambda: number(tmp_path / "a") != first)
    assert lives(number(tmp_path / "a"))
    assert within(2, lambda: not lives(child))
    assert told == ["a ended by signal 9; it is started again in 0.5 s."]


def test_the_pause_before_the_next_start_grows(
    supervise: Callable[..., Supervisor], told: list[str], tmp_path: Path
) -> None:
    supervise(Program("a", ["false"]))
    assert within(10, lambda: len(told) >= 3)
    assert told[:3] == [
        "a ended with status 1; it is started again in 0.5 s.",
        "a ended with status 1; it is started again in 1 s.",
        "a ended with status 1; it is started again in 2 s.",
    ]


def test_a_program_that_is_not_there_is_told_in_its_log(supervise: Callable[..., Supervisor], tmp_path: Path) -> None:
    supervise(Program("a", ["no-such-program"]), log_folder=tmp_path / "log")
    log = tmp_path / "log" / "a.log"
    assert within(5, lambda: log.exists() and "“no-such-program” cannot be started: No such file" in log.read_text())


def test_programs_stop_in_order_and_a_stubborn_one_is_killed_in_time(
    supervise: Callable[..., Supervisor], told: list[str], tmp_path: Path
) -> None:
    note = (
        "trap 'echo $(basename $0) >> $(dirname $0)/ended; exit' TERM; echo $$ > \"$0\"; while :; do sleep 0.05; done"
    )
    polite = ["sh", "-c", note, "{}"]
    supervisor = supervise(
        program(tmp_path, "broker", polite, stop_order=2),
        program(tmp_path, "worker", polite, stop_order=0),
        program(tmp_path, "web", polite, stop_order=1),
        program(tmp_path, "stubborn", STUBBORN, stop_order=0, stop_seconds=0.7),
    )
    stubborn = [number(tmp_path / name) for name in ("broker", "worker", "web", "stubborn")][-1]
    begun = time.monotonic()
    supervisor.stop()
    assert 0.6 < time.monotonic() - begun < 5
    assert (tmp_path / "ended").read_text().split() == ["worker", "web", "broker"]
    assert told == ["stubborn did not end in 0.7 s; it is killed."]
    assert within(2, lambda: not lives(stubborn))


def test_what_is_asked_while_stopping_ends_with_the_programs_of_the_first_order(
    supervise: Callable[..., Supervisor], tmp_path: Path
) -> None:
    seen: list[bool] = []
    supervisor = supervise(
        program(tmp_path, "a", STUBBORN, stop_seconds=0.5),
        while_stopping=lambda ended: seen.extend([ended.is_set(), ended.wait(5)]),
    )
    number(tmp_path / "a")
    supervisor.stop()
    assert within(2, lambda: seen == [False, True])


def test_a_gate_is_ready_before_the_next_is_started(supervise: Callable[..., Supervisor], tmp_path: Path) -> None:
    late = ["sh", "-c", 'sleep 0.6; touch "$0.ready"; sleep 600', "{}"]
    first = program(tmp_path, "a", late, is_gate=True, is_ready=(tmp_path / "a.ready").exists)
    follows = program(tmp_path, "b", ["sh", "-c", 'ls "$(dirname "$0")" > "$0"; sleep 600', "{}"])
    assert supervise(first, follows).wait_ready(timeout_seconds=10)
    assert within(5, lambda: (tmp_path / "b").exists() and "a.ready" in (tmp_path / "b").read_text())


def test_what_is_not_ready_in_time_is_named(supervise: Callable[..., Supervisor], tmp_path: Path) -> None:
    supervisor = supervise(
        program(tmp_path, "a", SLEEPER),
        program(tmp_path, "b", SLEEPER, is_ready=lambda: False),
        log_folder=tmp_path / "log",
    )
    with pytest.raises(NotReady, match=r"Not ready after 1 s: b\..*Their logs lie in") as caught:
        supervisor.wait_ready(timeout_seconds=1)
    assert caught.value.names == ("b",)


def test_waiting_ends_when_a_stop_is_asked_for(supervise: Callable[..., Supervisor], tmp_path: Path) -> None:
    supervisor = supervise(program(tmp_path, "a", SLEEPER, is_ready=lambda: False))
    supervisor.request_stop()
    assert supervisor.wait_ready(timeout_seconds=30) is False


def test_output_goes_to_a_log_of_its_own_and_a_long_log_is_cut(
    supervise: Callable[..., Supervisor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calculet.supervisor._LOG_LIMIT_BYTES", 1000)
    loud = ["sh", "-c", "echo begin; head -c 2000 /dev/zero | tr '\\0' x; sleep 0.5; echo end >&2; sleep 600"]
    supervise(Program("a", loud), log_folder=tmp_path)
    older = tmp_path / "a.log.1"
    assert within(5, older.exists)
    assert older.read_text().startswith("begin\nxxx")
    assert within(5, lambda: (tmp_path / "a.log").read_text() == "end\n")


def test_a_watcher_that_was_killed_is_replaced_and_knows_everything(tmp_path: Path) -> None:
    with supervisor_process(tmp_path) as (supervisor, ids):
        watcher = next(pid for pid in children(supervisor.pid) if "watch" in command_line(pid))
        os.kill(watcher, signal.SIGKILL)
        assert within(
            5, lambda: any("watch" in command_line(pid) for pid in children(supervisor.pid) if pid != watcher)
        )
        time.sleep(0.5)  # it is told of the groups right after it was started
        supervisor.kill()
        assert within(3, lambda: not any(lives(pid) for pid in ids))


def test_killing_the_supervisor_leaves_no_process(tmp_path: Path) -> None:
    with supervisor_process(tmp_path) as (supervisor, ids):
        everything = [*ids, *children(supervisor.pid)]
        assert all(lives(pid) for pid in everything)
        supervisor.kill()
        assert within(3, lambda: not any(lives(pid) for pid in everything)), [
            command_line(pid) for pid in everything if lives(pid)
        ]


@contextmanager
def supervisor_process(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A supervisor in a process of its own, with two programs that each have a child; gives it and their numbers."""
    code = f"""
    import time
    from calculet.supervisor import Program, Supervisor
    programs = [Program(name, {SLEEPER[:3]!r} + [{str(folder)!r} + "/" + name]) for name in ("a", "b")]
    Supervisor(programs, tell=lambda line: None).start()
    time.sleep(600)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT)
    try:
        yield process, [number(folder / name) for name in ("a", "a.child", "b", "b.child")]
    finally:
        process.kill()
        process.wait()


def children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()] + [
        int(pid)
        for task in Path(f"/proc/{parent}/task").iterdir()
        if task.name != str(parent)
        for pid in (task / "children").read_text().split()
    ]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
