"""Detached work: it outlives the connection, is started once, found again, and ended with all that it started."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inventory.remote.base import CommandFailed, ConnectionLost, PathMissing, TransientError
from inventory.remote.jobs import LOG_TAIL_BYTES, JobState, poll_job, remove_job, start_job, stop_job
from inventory.remote.names import RemoteName
from inventory.remote.pool import SshRemote
from tests.fakes import MemoryRemote, remote_name
from tests.sshd import Sshd

_WAIT_SECONDS = 15.0


@pytest.fixture(params=["GNU", "BusyBox", "without setsid"])
def host(
    request: pytest.FixtureRequest, tmp_path: Path, make_sshd: Callable[..., Sshd]
) -> Iterator[tuple[SshRemote, Sshd]]:
    """A real host of each sort."""
    path = None
    if request.param == "BusyBox":
        path = request.getfixturevalue("busybox_path")
    elif request.param == "without setsid":
        path = str(tools_without(tmp_path / "tools", "setsid"))
    server = make_sshd(path=path)
    remote = SshRemote(server.endpoint(), no_data_timeout_seconds=20, connect_timeout_seconds=10)
    yield remote, server
    remote.close()


def tools_without(folder: Path, *missing: str) -> Path:
    """A PATH with this machine's usual tools but for some."""
    folder.mkdir()
    tools = (
        "sh",
        "cat",
        "head",
        "tail",
        "wc",
        "mkdir",
        "mv",
        "rm",
        "rmdir",
        "sleep",
        "nohup",
        "chmod",
        "sync",
        "find",
        "setsid",
    )
    for tool in tools:
        if tool not in missing and (found := shutil.which(tool)):
            (folder / tool).symlink_to(found)
    return folder


@pytest.fixture
def job(host: tuple[SshRemote, Sshd], tmp_path: Path) -> Iterator[RemoteName]:
    """Where a job may be started; what still runs is stopped afterwards."""
    folder = remote_name(tmp_path, b"it's a\njob \xff")
    yield folder
    here = MemoryRemote(tmp_path)
    stop_job(here, folder)
    here.close()


def local(folder: RemoteName, *parts: str) -> Path:
    return Path(os.fsdecode(folder.raw)).joinpath(*parts)


def wait_for(remote: SshRemote, folder: RemoteName, *phases: str) -> JobState:
    deadline = time.monotonic() + _WAIT_SECONDS
    while (state := poll_job(remote, folder)).phase not in phases:
        assert time.monotonic() < deadline, state
        time.sleep(0.05)
    return state


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class TestRunning:
    def test_a_job_runs_in_its_folder_and_tells_how_it_ended(
        self, host: tuple[SshRemote, Sshd], job: RemoteName
    ) -> None:
        remote, _ = host
        script = b"pwd; echo $LC_ALL; cat; echo oh >&2; echo 42 >progress; exit 3"
        assert not start_job(remote, job, script).was_there
        state = wait_for(remote, job, "failed")
        assert (state.status, state.progress) == (3, b"42\n")
        assert state.log == job.raw + b"\nC\noh\n"

    def test_a_job_that_ends_well_is_done_and_can_be_removed(
        self, host: tuple[SshRemote, Sshd], job: RemoteName
    ) -> None:
        remote, _ = host
        start_job(remote, job, b"echo well")
        assert wait_for(remote, job, "done") == JobState("done", 0, b"well\n", b"")
        stop_job(remote, job)
        assert poll_job(remote, job).phase == "done"
        remove_job(remote, job)
        assert not local(job).exists()
        remove_job(remote, job)
        with pytest.raises(PathMissing):
            poll_job(remote, job)

    def test_it_survives_the_death_of_its_connection(self, host: tuple[SshRemote, Sshd], job: RemoteName) -> None:
        remote, server = host
        start_job(remote, job, b"while [ ! -f go ]; do sleep 0.1; done; echo survived")
        server.restart()
        assert poll_job(remote, job).phase == "running"
        remote.close()
        again = SshRemote(server.endpoint(), connect_timeout_seconds=10)
        local(job, "go").touch()
        assert wait_for(again, job, "done").log == b"survived\n"
        again.close()

    def test_only_the_end_of_a_long_log_is_brought(self, host: tuple[SshRemote, Sshd], job: RemoteName) -> None:
        start_job(host[0], job, b"n=0; while [ $n -lt 3000 ]; do echo line $n; n=$((n + 1)); done")
        log = wait_for(host[0], job, "done").log
        assert len(log) == LOG_TAIL_BYTES
        assert log.endswith(b"line 2999\n")


class TestStarting:
    def test_two_starters_start_one_job(self, host: tuple[SshRemote, Sshd], job: RemoteName) -> None:
        remote, server = host
        remotes = [remote, SshRemote(server.endpoint(), connect_timeout_seconds=10)]
        script = b"echo run >>runs; while [ ! -f go ]; do sleep 0.1; done"
        with ThreadPoolExecutor(6) as pool:
            jobs = list(pool.map(lambda n: start_job(remotes[n % 2], job, script), range(6)))
        assert sorted(found.was_there for found in jobs) == [False] + [True] * 5
        wait_until(local(job, "runs").exists)
        local(job, "go").touch()
        wait_for(remote, job, "done")
        assert start_job(remote, job, script).was_there
        assert local(job, "runs").read_text() == "run\n"
        remotes[1].close()

    def test_a_start_that_was_cut_off_at_any_step_is_finished_by_the_next(self, tmp_path: Path) -> None:
        calls = 6
        for number in range(1, calls + 1):
            remote = MemoryRemote(tmp_path)
            folder = remote_name(tmp_path, b"job%d" % number)
            remote.faults.fail_call(number, ConnectionLost("memory", 22, "cut"))
            try:
                start_job(remote, folder, b"echo run >>runs")
            except TransientError:
                start_job(remote, folder, b"echo run >>runs")
            wait_until(local(folder, "status").exists)
            assert local(folder, "runs").read_text() == "run\n"
            remote.close()

    def test_a_missing_parent_and_a_job_that_never_was_are_told(
        self, host: tuple[SshRemote, Sshd], tmp_path: Path
    ) -> None:
        remote, _ = host
        with pytest.raises(PathMissing, match="no such parent"):
            start_job(remote, remote_name(tmp_path, b"no such parent", b"job"), b":")
        with pytest.raises(PathMissing):
            poll_job(remote, remote_name(tmp_path, b"never"))
        stop_job(remote, remote_name(tmp_path, b"never"))
        (tmp_path / "file").touch()
        with pytest.raises(CommandFailed):
            start_job(remote, remote_name(tmp_path, b"file"), b":")


class TestEnding:
    def tree(self, remote: SshRemote, job: RemoteName) -> list[int]:
        """Start a job with children and grandchildren; their process ids."""
        script = (
            b"echo $$ >>pids\n"
            b"sh -c 'echo $$ >>pids; trap \"\" TERM; while :; do sleep 0.2; done' &\n"
            b"(sh -c 'echo $$ >>pids; sleep 600; :' | cat) &\n"
            b"if command -v setsid; then setsid sh -c 'echo $$ >>pids; sleep 600; :' & else echo 0 >>pids; fi\n"
            b"sleep 600; echo not reached\n"
        )
        start_job(remote, job, script)
        wait_until(lambda: local(job, "pids").exists() and len(local(job, "pids").read_text().split()) == 4)
        return [int(word) for word in local(job, "pids").read_text().split() if word != "0"]

    def test_stopping_ends_the_whole_tree(self, host: tuple[SshRemote, Sshd], job: RemoteName) -> None:
        remote, _ = host
        pids = self.tree(remote, job)
        assert all(map(is_running, pids))
        with pytest.raises(CommandFailed, match="still runs"):
            remove_job(remote, job)
        begun = time.monotonic()
        stop_job(remote, job)
        wait_until(lambda: not any(map(is_running, pids)))
        assert time.monotonic() - begun < 20
        state = poll_job(remote, job)
        assert state.phase in ("lost", "failed")
        assert b"not reached" not in state.log
        stop_job(remote, job)
        local(job, "pids").unlink()
        remove_job(remote, job)

    def test_a_job_that_was_killed_is_lost_and_its_orphans_can_be_ended(
        self, host: tuple[SshRemote, Sshd], job: RemoteName
    ) -> None:
        remote, _ = host
        start_job(remote, job, b"sleep 600 & echo $$ $! >own.new; mv own.new own; wait")
        wait_until(local(job, "own").exists)
        script, orphan = map(int, local(job, "own").read_text().split())
        runner, _, _, kind = local(job, "pid").read_text().split()
        os.kill(int(runner), signal.SIGKILL)
        os.kill(script, signal.SIGKILL)
        assert wait_for(remote, job, "lost").status is None
        assert is_running(orphan)
        stop_job(remote, job)
        if kind == "single":  # without a session of its own nothing tells whose it was
            os.kill(orphan, signal.SIGKILL)
        wait_until(lambda: not is_running(orphan))

    def test_another_process_with_the_same_number_is_not_taken_for_the_job(
        self, host: tuple[SshRemote, Sshd], job: RemoteName
    ) -> None:
        remote, _ = host
        local(job, "started").mkdir(parents=True)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        for pid in (f"{os.getpid()} 1 {boot} group", f"{os.getpid()} - {boot} single", f"{os.getpid()} 1 other group"):
            local(job, "pid").write_text(pid + "\n")
            assert poll_job(remote, job).phase == "lost"
            stop_job(remote, job)  # must not end this very test

    def test_a_start_that_broke_off_is_lost_after_a_while_and_not_running_for_ever(
        self, host: tuple[SshRemote, Sshd], job: RemoteName
    ) -> None:
        remote, _ = host
        local(job, "started").mkdir(parents=True)
        assert poll_job(remote, job).phase == "running"
        long_ago = time.time() - 300  # noqa: TID251  (the file system's clock)
        os.utime(local(job, "started"), (long_ago, long_ago))
        assert poll_job(remote, job).phase == "lost"

    def test_files_of_others_in_its_folder_keep_it_from_being_removed(
        self, host: tuple[SshRemote, Sshd], job: RemoteName
    ) -> None:
        remote, _ = host
        start_job(remote, job, b":")
        wait_for(remote, job, "done")
        local(job, "precious").write_text("kept")
        with pytest.raises(CommandFailed):
            remove_job(remote, job)
        assert local(job, "precious").read_text() == "kept"
