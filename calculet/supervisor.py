"""Runs several programs as one: starts them, starts one that died again, and leaves no process behind. Plain Python.

Each program leads a process group of its own and is tied to this process (`calculet/tether.py`), so that nothing is
left even after `kill -9` of the supervisor. One thread starts and watches all of them; the kernel ties a program to the
thread that started it, so that thread lives as long as the programs do.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

_TETHER = Path(__file__).with_name("tether.py")
_LOOK_SECONDS = 0.1
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_STEADY_SECONDS = 60.0  # a program that lived this long starts again after the shortest pause
_GATE_SECONDS = 15.0
_LOG_LIMIT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Program:
    """One program to keep running. Those with the same `stop_order` are stopped together, lower numbers first."""

    name: str
    command: Sequence[str]
    stop_order: int = 0
    stop_seconds: float = 3.0  # then its process group is killed
    is_ready: Callable[[], bool] | None = None  # asked by wait_ready; None: ready when it runs
    is_gate: bool = False  # what follows is started once this one is ready
    environment: Mapping[str, str] = field(default_factory=dict)


class NotReady(Exception):
    """Programs did not become ready in time. `names` are those that were waited for."""

    def __init__(self, names: Sequence[str], seconds: float, log_folder: Path | None) -> None:
        super().__init__(names)
        self.names, self.seconds, self.log_folder = tuple(names), seconds, log_folder

    def __str__(self) -> str:
        where = f" Their logs lie in “{self.log_folder}”." if self.log_folder else ""
        return (
            f"Not ready after {self.seconds:.0f} s: {', '.join(self.names)}. Everything that was started is stopped "
            f"again; no data was changed.{where}"
        )


@dataclass
class _Child:
    """A program as it stands now."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0  # when to start it again
    pause_seconds: float = _FIRST_PAUSE_SECONDS
    was_ready: bool = False


class Supervisor:
    """Keeps programs running until `stop`. Use it as a context manager, or call `start` and `stop`.

    `tell` gets one line for each thing worth knowing. `log_folder` takes each program's output (NAME.log, cut at 16 MiB
    with one older file kept); without it output goes where ours goes. `while_stopping` is called once, in a thread,
    when stopping begins; it gets an event that is set when the programs of the first order have ended.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        tell: Callable[[str], None],
        log_folder: Path | None = None,
        while_stopping: Callable[[threading.Event], None] | None = None,
        inherit: Sequence[int] = (),
    ) -> None:
        self._children = [_Child(program) for program in programs]
        self._tell, self._log_folder, self._while_stopping = tell, log_folder, while_stopping
        self._inherit = tuple(inherit)  # descriptors that the watcher keeps open until the last process is gone
        self._stop_wanted = threading.Event()
        self._first_round_done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._watcher: subprocess.Popen[str] | None = None
        self.has_failed = False  # the supervisor itself went wrong; everything was stopped

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start all programs, in the background. Raises OSError when the log folder cannot be made."""
        if self._log_folder is not None:
            self._log_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._thread.start()

    def wait_ready(self, *, timeout_seconds: float = 60.0) -> bool:
        """Wait until every program is ready; False when a stop was asked for meanwhile. Raises NotReady."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            if self._stop_wanted.is_set():
                return False
            waiting = [child.program.name for child in self._children if not self._look_ready(child)]
            if not waiting and self._first_round_done.is_set():
                return True
            if time.monotonic() > deadline:
                raise NotReady(waiting, timeout_seconds, self._log_folder)
            self._stop_wanted.wait(_LOOK_SECONDS)

    def request_stop(self) -> None:
        """Ask for a stop; may be called by a signal handler."""
        self._stop_wanted.set()

    def wait(self) -> None:
        """Wait until a stop is asked for."""
        while not self._stop_wanted.wait(3600.0):  # a bound, so that signals are seen on every platform
            continue

    def stop(self) -> None:
        """Stop all programs in order and wait until the last process of theirs is gone."""
        self._stop_wanted.set()
        if self._thread.ident is not None:
            self._thread.join()

    # ---- in the supervisor's thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        self._watcher_start()
        try:
            for child in self._children:
                if self._stop_wanted.is_set():
                    break
                self._start_child(child)
                self._pass_gate(child)
            self._first_round_done.set()
            while not self._stop_wanted.wait(_LOOK_SECONDS):
                self._look_after_all()
        except BaseException:
            self.has_failed = True
            raise
        finally:
            self._stop_wanted.set()
            self._stop_all()

    def _look_after_all(self) -> None:
        if self._watcher is not None and self._watcher.poll() is not None:
            self._watcher_start()
        for child in self._children:
            if child.process is None and time.monotonic() >= child.start_at:
                self._start_child(child)
            elif child.process is not None and _has_ended(child.process):
                self._bury(child)
        self._cut_logs()

    def _start_child(self, child: _Child) -> None:
        program = child.program
        tied = [sys.executable, "-I", "-S", str(_TETHER), "hold", str(os.getpid()), *program.command]
        log: IO[bytes] | None = None
        try:
            if self._log_folder is not None:
                log = (self._log_folder / f"{program.name}.log").open("ab")
            child.process = subprocess.Popen(
                tied,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **program.environment},
                start_new_session=True,
            )
        except OSError as error:
            self._pause(child, f"cannot be started ({error.strerror})")
            return
        finally:
            if log is not None:
                log.close()
        child.started_at = time.monotonic()
        self._watcher_tell(child.process.pid)

    def _pass_gate(self, child: _Child) -> None:
        deadline = time.monotonic() + _GATE_SECONDS
        while child.program.is_gate and not self._look_ready(child) and time.monotonic() < deadline:
            if self._stop_wanted.wait(_LOOK_SECONDS):
                return

    def _look_ready(self, child: _Child) -> bool:
        if not child.was_ready and child.process is not None:
            ask = child.program.is_ready
            child.was_ready = ask is None or ask()
        return child.was_ready

    def _bury(self, child: _Child) -> None:
        """A program ended by itself: end what it left, and start it again after a pause."""
        process = child.process
        if process is None:
            return
        status = self._end_group(process)
        child.process = None
        if time.monotonic() - child.started_at >= _STEADY_SECONDS:
            child.pause_seconds = _FIRST_PAUSE_SECONDS
        self._pause(child, f"ended by signal {-status}" if status < 0 else f"ended with status {status}")

    def _pause(self, child: _Child, why: str) -> None:
        child.start_at = time.monotonic() + child.pause_seconds
        self._tell(f"{child.program.name} {why}; it is started again in {child.pause_seconds:g} s.")
        child.pause_seconds = min(child.pause_seconds * 2, _LONGEST_PAUSE_SECONDS)

    def _end_group(self, process: subprocess.Popen[bytes]) -> int:
        """Kill what is left of a program's group, then collect its leader, which keeps the number taken."""
        _kill_group(process.pid)
        self._watcher_tell(-process.pid)
        return process.wait()

    def _stop_all(self) -> None:
        ended = threading.Event()
        if self._while_stopping is not None:
            threading.Thread(target=self._while_stopping, args=(ended,), name="stopping", daemon=True).start()
        for order in sorted({child.program.stop_order for child in self._children}):
            self._stop_some([child for child in self._children if child.program.stop_order == order])
            ended.set()
        if self._watcher is not None and self._watcher.stdin is not None:
            self._watcher.stdin.close()
            self._watcher.wait()

    def _stop_some(self, children: list[_Child]) -> None:
        running = [(child, child.process) for child in children if child.process is not None]
        begun = time.monotonic()
        for _child, process in running:
            os.kill(process.pid, signal.SIGTERM)  # not collected yet, so the number is still its own
        while running:
            for child, process in list(running):
                late = time.monotonic() - begun > child.program.stop_seconds
                if late and not _has_ended(process):
                    self._tell(f"{child.program.name} did not end in {child.program.stop_seconds:g} s; it is killed.")
                if late or _has_ended(process):
                    self._end_group(process)
                    child.process = None
                    running.remove((child, process))
            time.sleep(_LOOK_SECONDS / 2)

    # ---- the watcher and the logs ------------------------------------------------------------------------------

    def _watcher_start(self) -> None:
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_TETHER), "watch"],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=self._inherit,
        )
        for child in self._children:
            if child.process is not None:
                self._watcher_tell(child.process.pid)

    def _watcher_tell(self, group: int) -> None:
        if self._watcher is None or self._watcher.stdin is None:
            return
        try:
            self._watcher.stdin.write(f"{group}\n")
            self._watcher.stdin.flush()
        except BrokenPipeError:  # it was killed; the next look starts another, which is told everything
            return

    def _cut_logs(self) -> None:
        """Cut a log that grew too long; its writer appends, so it goes on at the new end."""
        if self._log_folder is None:
            return
        for child in self._children:
            log = self._log_folder / f"{child.program.name}.log"
            if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
                shutil.copyfile(log, log.with_suffix(".log.1"))
                os.truncate(log, 0)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """True when the process has ended; it is not collected yet, so that its number stays taken."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
