"""What a probe finds out about a host, and what it says can't be done there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.remote import probe as probe_module
from inventory.remote.base import CommandFailed, ConnectionLost
from inventory.remote.names import RemoteName
from inventory.remote.pool import SshRemote
from inventory.remote.probe import ProbeReport, probe
from tests.fakes import MemoryRemote, remote_name
from tests.parts import need
from tests.sshd import Sshd, login_shell


@pytest.fixture
def reach() -> Iterator[Callable[[Sshd], SshRemote]]:
    """Connect to a server: `reach(server)`. Closed afterwards."""
    remotes: list[SshRemote] = []

    def connect(server: Sshd) -> SshRemote:
        remote = SshRemote(server.endpoint(), no_data_timeout_seconds=20, connect_timeout_seconds=10)
        remotes.append(remote)
        return remote

    yield connect
    for remote in remotes:
        remote.close()


class TestHosts:
    def test_a_usual_host_has_every_means(self, sshd: Sshd, ssh_remote: SshRemote) -> None:
        need("zstd")
        report = probe(ssh_remote)
        assert report.find.startswith("find (GNU findutils)")
        assert report.tar.startswith("tar (GNU tar)")
        assert (report.system.split()[0], report.machine) == (os.uname().sysname, os.uname().machine)
        assert "Python 3." in report.python3
        for means in (
            report.has_find_printf,
            report.has_tar_list,
            report.has_dd_bytes,
            report.has_sha256,
            report.has_sha256_z,
            report.has_xargs_0,
            report.has_stat_format,
            report.has_zstd,
            report.has_python3,
            report.has_setsid,
            report.has_nohup,
        ):
            assert means
        assert report.cores == os.cpu_count()
        assert report.home == str(sshd.home)
        assert report.shell.startswith("/")
        assert not report.login_noise
        assert report.missing_steps() == ()

    def test_a_busybox_host_has_the_portable_means_and_says_what_is_missing(
        self, make_sshd: Callable[..., Sshd], reach: Callable[[Sshd], SshRemote], busybox_path: str
    ) -> None:
        report = probe(reach(make_sshd(path=busybox_path)))
        for program in (report.find, report.stat, report.dd, report.sha256sum, report.xargs):
            assert "BusyBox v1." in program
        assert report.tar == "tar (busybox) " + report.find.split()[1].removeprefix("v")
        assert (report.zstd, report.python3) == ("", "")
        assert (report.has_zstd, report.has_python3, report.has_find_printf, report.has_tar_list) == (False,) * 4
        assert (report.has_sha256, report.has_stat_format, report.has_xargs_0, report.has_setsid) == (True,) * 4
        sentences = " ".join(report.missing_steps())
        for part in ("No zstd", "no -printf", "exact lists"):
            assert part in sentences
        assert "nothing can be scanned" not in sentences

    def test_a_login_shell_that_prints_is_noticed_and_changes_nothing_else(
        self, make_sshd: Callable[..., Sshd], reach: Callable[[Sshd], SshRemote]
    ) -> None:
        if login_shell() != "bash":
            pytest.skip("missing on this machine: bash as the login shell of the user that runs the tests")
        server = make_sshd()
        remote = reach(server)
        quiet = probe(remote)
        server.talk_at_login()
        loud = probe(remote)
        assert (quiet.login_noise, loud.login_noise) == (False, True)
        assert "login shell prints" in loud.missing_steps()[-1]
        same = {"login_noise": False, "clock_offset_seconds": None, "free_bytes": None}
        assert replace(loud, **same) == replace(quiet, **same)  # type: ignore[arg-type]

    def test_a_host_with_nothing_but_a_shell_is_told_worst_first(self, tmp_path: Path) -> None:
        (tmp_path / "nothing").mkdir()
        report = probe(MemoryRemote(tmp_path, path=str(tmp_path / "nothing")))
        assert report.missing_steps()[0].startswith("No usable stat")
        assert (report.find, report.has_sha256, report.cores, report.clock_offset_seconds) == ("", False, None, None)
        assert report.free_bytes is None

    def test_a_program_that_is_there_and_broken_does_not_count(self, tmp_path: Path) -> None:
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in ("stat", "date", "cat", "tail", "tr", "wc", "readlink", "cut"):
            (tools / name).symlink_to(shutil.which(name) or "")
        for name in ("zstd", "sha256sum", "find"):
            (tools / name).write_text("#!/bin/sh\necho 'it is broken 1.0'\nexit 1\n")
            (tools / name).chmod(0o755)
        report = probe(MemoryRemote(tmp_path, path=str(tools)))
        assert report.zstd == "it is broken 1.0"
        assert (report.has_zstd, report.has_sha256, report.has_find_printf) == (False, False, False)
        assert report.has_stat_format


class TestStagingPlace:
    def test_the_nearest_folder_that_is_there_is_looked_at(self, ssh_remote: SshRemote, tmp_path: Path) -> None:
        parent = remote_name(tmp_path, b"it's\nhere \xff")
        Path(os.fsdecode(parent.raw)).mkdir()
        report = probe(ssh_remote, parent.join(b"not", b"yet"))
        assert report.staging_parent == str(parent)
        assert report.staging_writable
        status = os.statvfs(tmp_path)
        assert report.free_bytes is not None
        assert abs(report.free_bytes - status.f_bavail * status.f_frsize) < 2**30

    def test_free_space_is_that_of_the_places_own_file_system(self, ssh_remote: SshRemote) -> None:
        if not Path("/dev/shm").is_dir():
            pytest.skip("missing on this machine: /dev/shm")
        status = os.statvfs("/dev/shm")
        found = probe(ssh_remote, RemoteName(b"/dev/shm/none/at/all"))
        assert found.staging_parent == "/dev/shm"
        assert found.free_bytes is not None
        assert abs(found.free_bytes - status.f_bavail * status.f_frsize) < 2**26

    def test_without_stat_df_tells_the_free_space(self, tmp_path: Path) -> None:
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in ("df", "tail"):
            (tools / name).symlink_to(shutil.which(name) or "")
        status = os.statvfs(tmp_path)
        report = probe(MemoryRemote(tmp_path, path=str(tools)), remote_name(tmp_path))
        assert report.free_bytes is not None
        assert abs(report.free_bytes - status.f_bavail * status.f_frsize) < 2**30

    def test_a_place_that_cannot_be_written_is_told(self, ssh_remote: SshRemote) -> None:
        report = probe(ssh_remote, RemoteName(b"/proc/staging"))
        assert (report.staging_parent, report.staging_writable) == ("/proc", os.access("/proc", os.W_OK))
        sentences = replace(report, staging_writable=False).missing_steps()
        assert "/proc can't be written: choose another staging path." in sentences

    def test_nothing_is_written_there(self, ssh_remote: SshRemote, tmp_path: Path) -> None:
        folder = tmp_path / "place"
        folder.mkdir()
        probe(ssh_remote, remote_name(folder, b"staging"))
        assert list(folder.iterdir()) == []


class TestClock:
    def test_a_clock_that_agrees_is_less_than_a_second_off(self, ssh_remote: SshRemote) -> None:
        offset = probe(ssh_remote).clock_offset_seconds
        assert offset is not None
        assert abs(offset) < 1.0

    @pytest.mark.parametrize(("off", "word"), [(7200, "ahead of"), (-7200, "behind")])
    def test_a_clock_that_is_off_is_told_with_its_direction(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: int, word: str
    ) -> None:
        true_seconds = probe_module._wall_seconds
        monkeypatch.setattr(probe_module, "_wall_seconds", lambda: true_seconds() - off)
        report = probe(MemoryRemote(tmp_path))
        assert report.clock_offset_seconds == pytest.approx(off, abs=1.5)
        assert any(f"7200 seconds {word} ours" in sentence for sentence in report.missing_steps())

    def test_the_way_there_and_back_is_taken_off(self) -> None:
        answers = {b"clock": b"1002.500000000", b"end": b"1003.500000000"}
        # Sent at 1000, answered after 5 seconds of which the host took 1: it looked 2 seconds after we sent.
        assert probe_module._clock_offset(answers, 1000.0, 5.0) == 0.5
        assert probe_module._clock_offset({b"clock": b"1002.%N", b"end": b"1002.%N"}, 1000.0, 4.0) == 0.5
        assert probe_module._clock_offset({b"clock": b"", b"end": b"1"}, 1000.0, 4.0) is None


class TestReports:
    def test_a_report_is_kept_as_plain_values_and_read_back(self, tmp_path: Path) -> None:
        report = probe(MemoryRemote(tmp_path))
        stored = report.as_json()
        assert ProbeReport.from_json(stored | {"of a later version": 1}) == report
        stored.pop("has_zstd")
        with pytest.raises(TypeError):
            ProbeReport.from_json(stored)

    def test_an_answer_that_is_cut_off_is_an_error_and_no_report(self, tmp_path: Path) -> None:
        remote = MemoryRemote(tmp_path)
        remote.faults.fail_call(1, ConnectionLost("memory", 22, "cut"))
        with pytest.raises(ConnectionLost):
            probe(remote)
        remote = MemoryRemote(tmp_path, path=str(tmp_path))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(probe_module, "_SCRIPT", b"printf 'clock\\0'; echo it broke >&2; exit 9")
            with pytest.raises(CommandFailed, match=r"status 9: it broke"):
                probe(remote)
