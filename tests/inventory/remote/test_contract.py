"""What every `Remote` promises, shown on a real sshd and on the stand-in that other tests use."""

from __future__ import annotations

import os
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.remote.base import (
    CommandFailed,
    ConnectionLost,
    DeadlinePassed,
    PathMissing,
    PathRefused,
    Remote,
    TransientError,
)
from inventory.remote.pool import SshRemote
from tests.fakes import MemoryRemote, drain, remote_name
from tests.parts import need
from tests.sshd import Sshd

HARD_NAMES = [
    b"plain",
    b"two words",
    b"'quoted' \"twice\"",
    b"line\nfeed",
    b"carriage\r",
    b"-n",
    b"--help",
    b"*?[a]",
    b"$HOME `id` $(id)",
    b"back\\slash\\n",
    b"bad\xff\xfe.bin",
    b" lead and trail ",
    "名前".encode(),
    b"x" * 255,
    b"~",
    b"#!",
    b";|&<>(){}!",
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sshd]]:
    """Servers by the sort of host, made when they are first asked for."""
    made: dict[str, Sshd] = {}
    yield made
    for server in made.values():
        server.stop()


@pytest.fixture(params=["ssh", "ssh to BusyBox", "memory", "memory with BusyBox"])
def remote(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    servers: dict[str, Sshd],
) -> Iterator[Remote]:
    """The same promises on each."""
    sort = request.param
    path = request.getfixturevalue("busybox_path") if "BusyBox" in sort else None
    if sort.startswith("memory"):
        home = tmp_path / "home"
        home.mkdir()
        shell = f"{path}/sh" if path else "/bin/sh"
        local = MemoryRemote(home, path=path, shell=shell)
        yield local
        local.close()
        return
    need("sshd")
    if sort not in servers:
        servers[sort] = Sshd(tmp_path_factory.mktemp("sshd"), path=path)
        servers[sort].talk_at_login()
    reached = SshRemote(servers[sort].endpoint(), no_data_timeout_seconds=20, connect_timeout_seconds=10)
    yield reached
    reached.close()


class TestScripts:
    def test_output_errors_and_status_come_back_apart_and_exactly(self, remote: Remote) -> None:
        completed = remote.run(b"printf 'no line feed'; echo oh >&2; exit 7", step="try")
        assert (completed.status, completed.output, completed.errors) == (7, b"no line feed", b"oh\n")

    def test_check_returns_output_and_names_the_step_that_failed(self, remote: Remote) -> None:
        assert remote.check(b"echo well", step="try") == b"well\n"
        with pytest.raises(CommandFailed, match=r"count the stars.*status 3.*too many"):
            remote.check(b"echo too many >&2; exit 3", step="count the stars")

    def test_empty_script_is_a_good_script(self, remote: Remote) -> None:
        assert remote.run(b":", step="nothing").output == b""

    def test_children_read_nothing_of_the_script(self, remote: Remote) -> None:
        assert remote.check(b"cat\nwc -c\necho after\n", step="try").split() == [b"0", b"after"]

    def test_scripts_may_hold_here_documents_and_any_bytes(self, remote: Remote) -> None:
        assert remote.check(b"cat <<'E'\n$x \xff `y`\nE", step="try") == b"$x \xff `y`\n"

    def test_sorting_and_messages_are_those_of_the_plain_locale(self, remote: Remote) -> None:
        assert remote.check(b"printf '%s\\n' b A a B | sort; echo $LC_ALL", step="try") == b"A\nB\na\nb\nC\n"

    def test_all_byte_values_pass_unchanged(self, remote: Remote, tmp_path: Path) -> None:
        content = bytes(range(256)) * 4096
        (tmp_path / "all").write_bytes(content)
        script = b"cat " + os.fsencode(tmp_path / "all")
        assert remote.check(script, step="try") == content
        assert drain(remote.stream(script, step="try")) == content

    def test_floods_of_errors_do_not_hang_and_their_end_is_kept(self, remote: Remote) -> None:
        flood = b"dd if=/dev/zero bs=65536 count=160 2>/dev/null | tr '\\0' e >&2; echo last >&2; echo out; exit 1"
        completed = remote.run(flood, step="try", timeout_seconds=30)
        assert (completed.status, completed.output) == (1, b"out\n")
        assert completed.errors.endswith(b"eeelast\n")
        assert 1000 < len(completed.errors) <= 64 * 1024

    def test_stream_raises_after_its_last_piece_when_the_end_was_bad(self, remote: Remote) -> None:
        got = b""
        with pytest.raises(CommandFailed, match="status 4"):
            for piece in remote.stream(b"echo some; exit 4", step="try"):
                got += piece
        assert got == b"some\n"

    def test_stream_is_flat_in_memory(self, remote: Remote) -> None:
        total, peak_allowed = 0, 16 * 2**20
        tracemalloc.start()
        for piece in remote.stream(b"dd if=/dev/zero bs=65536 count=1024 2>/dev/null", step="try"):
            total += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == 64 * 2**20
        assert peak < peak_allowed

    def test_an_abandoned_stream_does_not_disturb_the_next_script(self, remote: Remote) -> None:
        stream = remote.stream(b"while :; do echo more; done", step="try")
        got = b""
        while len(got) < 5:  # a piece may be as short as one byte
            got += next(stream)
        assert got.startswith(b"more\n")
        stream.close()  # type: ignore[attr-defined]
        assert remote.check(b"echo next", step="try") == b"next\n"

    def test_silence_ends_at_its_deadline_and_the_next_script_works(self, remote: Remote) -> None:
        begun = time.monotonic()
        with pytest.raises(DeadlinePassed, match=r"sleep.*within 1 seconds"):
            remote.run(b"sleep 30", step="sleep", timeout_seconds=1)
        with pytest.raises(DeadlinePassed):
            drain(remote.stream(b"echo a; sleep 30", step="sleep", timeout_seconds=1))
        assert time.monotonic() - begun < 8
        assert remote.check(b"echo next", step="try") == b"next\n"

    def test_output_that_imitates_a_marker_stays_output(self, remote: Remote) -> None:
        line = b"0123456789abcdef0123456789abcdef:0;\n"
        assert remote.check(b"printf '%s\\n' " + line.replace(b";", b"\\;"), step="try") == line

    def test_scripts_side_by_side_do_not_mix(self, remote: Remote) -> None:
        results: dict[int, bytes] = {}

        def work(number: int) -> None:
            results[number] = remote.check(b"sleep 0.2; echo %d" % number, step="try", timeout_seconds=30)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert results == {number: b"%d\n" % number for number in range(6)}


class TestFiles:
    @pytest.mark.parametrize("batch", range(2))
    def test_hard_names_are_written_read_and_looked_at_by_their_exact_bytes(
        self, remote: Remote, tmp_path: Path, batch: int
    ) -> None:
        for name in HARD_NAMES[batch::2]:
            path = remote_name(tmp_path, name)
            assert remote.write_file(path, [b"content of ", name], mode=0o640) == 11 + len(name)
            assert remote.read_file(path, limit_bytes=1000) == b"content of " + name
            seen, real = remote.stat(path), os.lstat(path.raw)
            assert (seen.kind, seen.size_bytes, seen.mode) == ("file", real.st_size, 0o640)
            assert (seen.mtime_ns, seen.ctime_ns) == (real.st_mtime_ns, real.st_ctime_ns)
            assert (seen.inode, seen.device, seen.link_count) == (real.st_ino, real.st_dev, 1)
            assert seen.stored_bytes == real.st_blocks * 512
        assert [name for name in tmp_path.iterdir() if "partial" in name.name] == []

    def test_an_empty_file_is_a_file(self, remote: Remote, tmp_path: Path) -> None:
        path = remote_name(tmp_path, b"empty")
        assert remote.write_file(path, []) == 0
        assert remote.read_file(path, limit_bytes=0) == b""

    def test_a_file_is_private_from_its_first_moment_and_replaces_the_old_one_whole(
        self, remote: Remote, tmp_path: Path
    ) -> None:
        path = remote_name(tmp_path, b"file")
        remote.write_file(path, [b"old"])
        assert remote.stat(path).mode == 0o600

        def half() -> Iterator[bytes]:
            yield b"new"
            raise RuntimeError("the source of the content failed")

        with pytest.raises(RuntimeError):
            remote.write_file(path, half())
        assert remote.read_file(path, limit_bytes=10) == b"old"

    def test_big_lists_go_up_in_flat_memory(self, remote: Remote, tmp_path: Path) -> None:
        path = remote_name(tmp_path, b"list")
        tracemalloc.start()
        size = remote.write_file(path, (bytes([number % 251]) * 2**18 for number in range(256)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert size == 64 * 2**20 == (tmp_path / "list").stat().st_size
        assert peak < 16 * 2**20

    def test_kinds_are_told_apart_and_links_are_not_followed(
        self, remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to("nowhere\n")
        os.mkfifo(tmp_path / "pipe")
        with socket.socket(socket.AF_UNIX) as listener:
            monkeypatch.chdir(tmp_path)  # a socket's path must be short
            listener.bind("socket")
        kinds: dict[str, str] = {path.name: remote.stat(remote_name(path)).kind for path in tmp_path.iterdir()}
        assert {name: kinds[name] for name in ("folder", "link", "pipe", "socket")} == {
            name: name for name in ("folder", "link", "pipe", "socket")
        }
        assert remote.stat(remote_name(Path("/dev/null"))).kind == "device"

    def test_what_is_not_there_is_missing(self, remote: Remote, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for path in (remote_name(tmp_path, b"no\n"), remote_name(tmp_path, b"file", b"below")):
            with pytest.raises(PathMissing):
                remote.stat(path)
            with pytest.raises(PathMissing):
                remote.read_file(path, limit_bytes=10)
        with pytest.raises(PathMissing):
            remote.write_file(remote_name(tmp_path, b"no folder", b"x"), [b"x" * 100_000] * 30)

    def test_what_is_no_file_or_too_large_is_refused(self, remote: Remote, tmp_path: Path) -> None:
        (tmp_path / "big").write_bytes(b"12345")
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(PathRefused, match="larger than 4"):
            remote.read_file(remote_name(tmp_path, b"big"), limit_bytes=4)
        for name in (b"folder", b"pipe"):
            with pytest.raises(PathRefused, match="no regular file"):
                remote.read_file(remote_name(tmp_path, name), limit_bytes=10)
        with pytest.raises(PathRefused):
            remote.write_file(remote_name(tmp_path, b"folder"), [b"x"])
        assert list((tmp_path / "folder").iterdir()) == []


class TestLanes:
    def test_one_shell_answers_many_scripts_and_no_greeting_comes_through(self, remote: Remote) -> None:
        shell = remote.open_shell()
        for number in range(50):
            shell.send(b"echo %d; echo complaint >&2\n" % number)
        wanted = b"".join(b"%d\n" % number for number in range(50))
        got = b""
        while len(got) < len(wanted):
            got += shell.receive(7, timeout_seconds=10)
        assert got == wanted
        shell.close()

    def test_pieces_come_as_soon_as_there_are_any(self, remote: Remote) -> None:
        shell = remote.open_shell()
        shell.send(b"echo now; sleep 5; echo later\n")
        begun = time.monotonic()
        assert shell.receive(2**18, timeout_seconds=4) == b"now\n"
        assert time.monotonic() - begun < 3
        shell.close()

    def test_silence_raises_at_the_deadline_and_the_lane_lives_on(self, remote: Remote) -> None:
        shell = remote.open_shell()
        with pytest.raises(DeadlinePassed):
            shell.receive(10, timeout_seconds=0.2)
        shell.send(b"echo still\n")
        assert shell.receive(10, timeout_seconds=10) == b"still\n"
        shell.close()

    def test_close_from_another_thread_wakes_a_waiting_receive(self, remote: Remote) -> None:
        shell = remote.open_shell()
        ended: list[float] = []
        closer = threading.Timer(0.3, shell.close)
        closer.start()
        begun = time.monotonic()
        with pytest.raises(ConnectionLost):
            shell.receive(10, timeout_seconds=20)
        ended.append(time.monotonic() - begun)
        closer.join()
        shell.close()
        assert ended[0] < 3
        with pytest.raises(ConnectionLost):
            shell.send(b"echo\n")

    def test_a_shell_that_exits_is_a_lost_connection(self, remote: Remote) -> None:
        shell = remote.open_shell()
        shell.send(b"echo bye; exit\n")
        assert shell.receive(10, timeout_seconds=10) == b"bye\n"
        with pytest.raises(ConnectionLost):
            shell.receive(10, timeout_seconds=10)
        shell.close()

    def test_closing_the_remote_ends_its_lanes_and_refuses_more(self, remote: Remote) -> None:
        shell = remote.open_shell()
        remote.run(b":", step="try")
        remote.close()
        remote.close()
        with pytest.raises(ConnectionLost):
            shell.receive(10, timeout_seconds=10)
        shell.close()
        for act in (lambda: remote.run(b":", step="try"), remote.open_shell):
            with pytest.raises(TransientError):
                act()
