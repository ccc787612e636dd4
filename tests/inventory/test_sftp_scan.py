"""Hosts without a shell: listed over SFTP, over a real sshd, against what find sees there, and against bad servers."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory import sftp_scan
from inventory.remote.base import (
    CommandFailed,
    ConnectionLost,
    DeadlinePassed,
    PathMissing,
    PathRefused,
    SftpUnusable,
    ShellUnusable,
)
from inventory.remote.names import RemoteName
from inventory.remote.pool import SshRemote
from inventory.remote.probe import probe
from inventory.remote.sftp import Attributes, SftpClient
from inventory.scan import ScanEntry, scan_resource
from inventory.sftp_scan import scan_over_sftp
from tests.fakes import MemoryRemote, SftpOnlyRemote, remote_name
from tests.inventory.test_scan import HOSTILE_NAMES, below, lay
from tests.parts import need, need_root
from tests.sshd import Sshd

SFTP_ONLY = ["ForceCommand internal-sftp"]


@pytest.fixture
def reach() -> Iterator[Callable[[Sshd], SshRemote]]:
    """Connect to a server: `reach(server)`. Closed afterwards."""
    remotes: list[SshRemote] = []

    def connect(server: Sshd) -> SshRemote:
        remotes.append(SshRemote(server.endpoint(), no_data_timeout_seconds=20, connect_timeout_seconds=10))
        return remotes[-1]

    yield connect
    for remote in remotes:
        remote.close()


@pytest.fixture
def bare(make_sshd: Callable[..., Sshd], reach: Callable[[Sshd], SshRemote]) -> SshRemote:
    """A host that forces SFTP on the account."""
    return reach(make_sshd(config=SFTP_ONLY))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


def found_by(remote: SshRemote, root: Path, *leave_out: Path) -> dict[bytes, ScanEntry]:
    left_out = [remote_name(path) for path in leave_out]
    entries = list(scan_over_sftp(remote, remote_name(root), leave_out=left_out, timeout_seconds=20))
    found = {entry.name: entry for entry in entries}
    assert len(found) == len(entries), "a name came twice"
    return found


def as_sftp_tells(entry: ScanEntry) -> ScanEntry:
    """What is left of an entry without all that SFTP does not tell."""
    known = replace(entry, stored_bytes=0, ctime_ns=0, device=0, inode=0, link_count=0)
    return replace(known, mtime_ns=entry.mtime_ns // 10**9 * 10**9)


class TestListing:
    def test_it_finds_what_find_finds_by_every_name_and_kind(
        self, bare: SshRemote, sshd: Sshd, reach: Callable[[Sshd], SshRemote], tree: Path
    ) -> None:
        for number, name in enumerate(HOSTILE_NAMES):
            below(tree, name).mkdir()
            lay(below(tree, name), name, b"x" * number)
            below(below(tree, name), name[:200] + b".link").symlink_to(os.fsdecode(name))
        lay(tree, b"five", b"12345").chmod(0o640)
        (tree / "twin").hardlink_to(tree / "five")
        os.mkfifo(tree / "pipe")
        with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"{short}/s")
            Path(f"{short}/s").rename(tree / "socket")
            for number in range(250):  # more than one answer holds
                (tree / f"many{number}").touch()
            expected = scan_resource(
                reach(sshd), remote_name(tree), leave_out=[], has_find_printf=True, timeout_seconds=20
            )
            found = found_by(bare, tree)
            assert found == {entry.name: as_sftp_tells(entry) for entry in expected}
        assert {entry.kind for entry in found.values()} == {"file", "folder", "link", "pipe", "socket"}

    def test_deep_trees_and_wide_ones_are_followed_to_their_end(self, bare: SshRemote, tree: Path) -> None:
        deep = tree
        for _ in range(40):
            deep = deep / ("d" * 60)
        deep.mkdir(parents=True)
        (deep / "end").touch()
        for number in range(300):
            (tree / f"side{number}").mkdir()
            (tree / f"side{number}" / "file").touch()
        found = found_by(bare, tree)
        assert len(found) == 42 + 600
        assert max(found, key=len).endswith(b"/end")

    def test_our_staging_is_neither_entered_nor_given_by_whatever_path(self, bare: SshRemote, tree: Path) -> None:
        (tree / "staging").mkdir()
        (tree / "staging" / "ours").touch()
        (tree / "theirs").touch()
        (tree.parent / "way").symlink_to(tree)
        assert set(found_by(bare, tree, tree / "staging")) == {b"", b"theirs"}
        assert set(found_by(bare, tree, tree.parent / "way" / "staging")) == {b"", b"theirs"}
        with pytest.raises(PathRefused, match="our own staging"):
            found_by(bare, tree / "staging", tree / "staging")

    def test_roots_that_cannot_be_listed_are_told_as_over_a_shell(self, bare: SshRemote, tree: Path) -> None:
        (tree / "way").symlink_to(tree)
        with pytest.raises(PathRefused, match="symbolic link to “" + str(RemoteName(os.fsencode(tree.resolve())))):
            found_by(bare, tree / "way")
        with pytest.raises(PathMissing):
            found_by(bare, tree / "not there")
        with pytest.raises(PathRefused, match="absolute"):
            list(scan_over_sftp(bare, RemoteName(b"/a/../b"), leave_out=[]))
        one = found_by(bare, lay(tree, b"one\xff", b"12"))
        assert [(entry.name, entry.kind, entry.size_bytes) for entry in one.values()] == [(b"", "file", 2)]

    def test_folders_that_are_barred_are_told_and_the_rest_is_listed(self, tmp_path: Path) -> None:
        need("sshd", "setpriv")
        need_root("another account's listing")
        open_to_all = Path(tempfile.mkdtemp(dir="/tmp"))
        open_to_all.chmod(0o755)
        remote = SftpOnlyRemote(tmp_path, account=65534)
        try:
            for name, mode in (("shut", 0), ("no entry", 0o644), ("no list", 0o711), ("open", 0o755)):
                (open_to_all / name).mkdir()
                (open_to_all / name / "inside").touch()
                (open_to_all / name).chmod(mode)
            kinds = {
                entry.name: entry.kind
                for entry in scan_over_sftp(remote, remote_name(open_to_all), leave_out=[], timeout_seconds=20)
            }
            barred = dict.fromkeys((b"shut", b"no entry", b"no list"), "unreadable")
            assert kinds == {b"": "folder", b"open": "folder", b"open/inside": "file", **barred}
            with pytest.raises(PathRefused, match="may not list it"):
                list(scan_over_sftp(remote, remote_name(open_to_all / "shut"), leave_out=[], timeout_seconds=20))
        finally:
            for path in open_to_all.iterdir():
                path.chmod(0o755)
                (path / "inside").unlink()
                path.rmdir()
            open_to_all.rmdir()

    def test_a_cut_in_the_middle_raises_and_does_not_look_whole(
        self, make_sshd: Callable[..., Sshd], reach: Callable[[Sshd], SshRemote], tree: Path
    ) -> None:
        for number in range(3000):
            (tree / f"file{number}").touch()
        server = make_sshd(config=SFTP_ONLY)
        entries = scan_over_sftp(reach(server), remote_name(tree), leave_out=[], timeout_seconds=20)
        next(entries)
        server.kill_children()
        with pytest.raises(ConnectionLost):
            list(entries)

    def test_a_server_that_hangs_is_given_up_in_time(
        self, make_sshd: Callable[..., Sshd], reach: Callable[[Sshd], SshRemote], tree: Path
    ) -> None:
        for number in range(3000):
            (tree / f"file{number}").touch()
        server = make_sshd(config=SFTP_ONLY)
        entries = scan_over_sftp(reach(server), remote_name(tree), leave_out=[], timeout_seconds=1)
        next(entries)
        server.stop_children()
        with pytest.raises(DeadlinePassed):
            list(entries)

    def test_thousands_of_entries_stream_in_flat_memory(
        self, bare: SshRemote, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sftp_scan, "FOLDERS_A_BLOCK", 50)  # so that folders lie on the disk as well
        for outer in range(250):
            (tree / f"folder{outer}").mkdir()
            for inner in range(20):
                (tree / f"folder{outer}" / f"file{inner}").touch()
        count = 0
        tracemalloc.start()
        for _ in scan_over_sftp(bare, remote_name(tree), leave_out=[], timeout_seconds=20):
            count += 1
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == 5_251
        assert peak < 3 * 2**20, peak


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=60), max_size=60), st.integers(2, 7))
def test_folders_come_back_last_first_from_memory_and_disk(names: list[bytes], block: int) -> None:
    before, sftp_scan.FOLDERS_A_BLOCK = sftp_scan.FOLDERS_A_BLOCK, block
    stack = sftp_scan._FolderStack()
    try:
        for number, name in enumerate(names):
            stack.push(name, Attributes(number, 0o40755, 2**32 - 1))
        for number, name in reversed(list(enumerate(names))):
            assert stack and stack.pop() == (name, Attributes(number, 0o40755, 2**32 - 1))
        assert not stack
    finally:
        stack.close()
        sftp_scan.FOLDERS_A_BLOCK = before


class TestProbe:
    def test_forced_sftp_is_recognised_and_what_cannot_be_done_is_said(self, bare: SshRemote) -> None:
        report = probe(bare, RemoteName(b"/tmp/not/there"))
        assert (report.has_shell, report.has_sftp, report.has_sha256, report.has_find_printf) == (
            False,
            True,
            False,
            False,
        )
        assert report.home.startswith("/") and report.staging_parent == "/tmp" and report.free_bytes
        said = report.missing_steps()
        assert said[0].startswith("No shell answers here") and len(said) == 4
        for part in ("Packs can't be made", "Digests at the source", "Scans go over SFTP", "can't be noticed"):
            assert part in " ".join(said)

    @pytest.mark.parametrize(
        "refusal",
        [
            "echo This account is currently not available.; exit 1",  # as nologin
            "exit 0",
            "cat",
            "echo 'fatal: unrecognized command'; exit 128",  # as git-shell
        ],
    )
    def test_a_command_in_the_shells_place_is_no_shell_and_without_sftp_all_of_it_is_told(
        self, make_sshd: Callable[..., Sshd], reach: Callable[[Sshd], SshRemote], refusal: str
    ) -> None:
        remote = reach(make_sshd(config=[f'ForceCommand sh -c "{refusal}"']))
        with pytest.raises(ShellUnusable, match="nor does SFTP answer"):
            probe(remote)

    @pytest.mark.parametrize("config", [[], SFTP_ONLY], ids=["shell", "SFTP"])
    def test_a_banner_before_the_login_changes_nothing(
        self,
        make_sshd: Callable[..., Sshd],
        reach: Callable[[Sshd], SshRemote],
        tree: Path,
        tmp_path: Path,
        config: list[str],
    ) -> None:
        (tmp_path / "banner").write_bytes(b"ERROR: no such file\nPermission denied \xff\n" * 50)
        (tree / "file").touch()
        remote = reach(make_sshd(config=[f"Banner {tmp_path / 'banner'}", *config]))
        assert probe(remote).has_shell == (not config)
        assert set(found_by(remote, tree)) == {b"", b"file"}

    def test_a_server_without_sftp_is_told(
        self, make_sshd: Callable[..., Sshd], reach: Callable[[Sshd], SshRemote], tree: Path
    ) -> None:
        remote = reach(make_sshd(sftp=None))
        with pytest.raises(SftpUnusable, match="offers none"):
            found_by(remote, tree)

    def test_start_up_files_that_print_are_named_as_the_reason(
        self, make_sshd: Callable[..., Sshd], reach: Callable[[Sshd], SshRemote], tree: Path
    ) -> None:
        """A subsystem that is a program is started by the login shell, whose start-up files may print first."""
        need("sshd")
        server = make_sshd(sftp="/usr/lib/openssh/sftp-server")
        (tree / "file").touch()
        assert set(found_by(reach(server), tree)) == {b"", b"file"}
        server.talk_at_login("echo 'Welcome to the host'\n")
        with pytest.raises(SftpUnusable, match=r"prints text for logins.*Welcome to the host"):
            found_by(reach(server), tree)
        server.talk_at_login("echo 'only complained' >&2\n")
        assert set(found_by(reach(server), tree)) == {b"", b"file"}


# -- servers that answer otherwise than they should ------------------------------------------------------------------


class _Canned:
    """A server's whole side of a conversation, given in pieces of any size."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.sent = b""

    def send(self, data: bytes, *, timeout_seconds: float) -> None:
        self.sent += data

    def receive(self, *, timeout_seconds: float) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    def lost(self, reason: str) -> ConnectionLost:
        return ConnectionLost("canned", 22, reason)

    def close(self) -> None:
        self.pieces.clear()


class _CannedRemote(MemoryRemote):
    def __init__(self, home: Path, stream: _Canned) -> None:
        super().__init__(home)
        self.canned = stream

    def open_sftp(self, *, timeout_seconds: float = 60.0) -> _Canned:
        return self.canned


def packet(kind: int, body: bytes) -> bytes:
    return struct.pack(">IB", len(body) + 1, kind) + body


def text(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def told(number: int, kind: int, body: bytes) -> bytes:
    return packet(kind, struct.pack(">I", number) + body)


LINE = b"-rw-r--r-- 1 Andr\xe9 gr\xffup 12 Jan 1 1970 x"  # for people, and of no fixed form or letters
VERSION = packet(2, struct.pack(">I", 3))
FOLDER = struct.pack(">II", 4, 0o40755)  # attributes: the mode alone


def begun(*answers: bytes) -> list[bytes]:
    """A conversation up to the root's handle: look, real path, open."""
    name = struct.pack(">I", 1) + text(b"/r") + text(b"") + struct.pack(">I", 0)
    return [VERSION, told(1, 105, FOLDER), told(2, 104, name), told(3, 102, text(b"h")), *answers]


def names(*found: tuple[bytes, bytes]) -> bytes:
    return struct.pack(">I", len(found)) + b"".join(text(name) + text(LINE) + told_of for name, told_of in found)


class TestBadServers:
    @pytest.mark.parametrize("name", [b"", b"a/b", b"../../etc/passwd", b"nul\0"])
    def test_a_name_that_no_file_has_ends_the_scan(self, tmp_path: Path, name: bytes) -> None:
        remote = _CannedRemote(tmp_path, _Canned(*begun(told(4, 104, names((name, FOLDER))))))
        with pytest.raises(CommandFailed, match="tells of a file called"):
            list(scan_over_sftp(remote, RemoteName(b"/r"), leave_out=[]))

    def test_a_name_without_its_kind_is_asked_for_and_one_that_vanished_is_passed_over(self, tmp_path: Path) -> None:
        nothing = struct.pack(">I", 0)
        answers = begun(
            told(4, 104, names((b"bare", nothing), (b"gone", nothing))),
            told(5, 105, struct.pack(">IQI", 5, 7, 0o100644)),
            told(6, 101, struct.pack(">I", 2) + text(b"no such file")),
            told(7, 101, struct.pack(">I", 1)),
            told(8, 101, struct.pack(">I", 0)),
        )
        remote = _CannedRemote(tmp_path, _Canned(*answers))
        found = list(scan_over_sftp(remote, RemoteName(b"/r"), leave_out=[]))
        assert [(entry.name, entry.kind, entry.size_bytes) for entry in found] == [
            (b"", "folder", 0),
            (b"bare", "file", 7),
        ]

    @pytest.mark.parametrize(
        "answer",
        [
            told(99, 101, struct.pack(">I", 1)),  # to a question that was not asked
            told(4, 104, struct.pack(">I", 5)),  # five names, none there
            told(4, 77, b""),
            packet(101, b"\0"),
        ],
    )
    def test_an_answer_that_means_nothing_ends_the_scan(self, tmp_path: Path, answer: bytes) -> None:
        with pytest.raises(CommandFailed):
            list(scan_over_sftp(_CannedRemote(tmp_path, _Canned(*begun(answer))), RemoteName(b"/r"), leave_out=[]))

    def test_an_end_in_the_middle_of_a_packet_is_a_lost_connection(self, tmp_path: Path) -> None:
        remote = _CannedRemote(tmp_path, _Canned(*begun(told(4, 104, names((b"a", FOLDER)))[:-3])))
        with pytest.raises(ConnectionLost):
            list(scan_over_sftp(remote, RemoteName(b"/r"), leave_out=[]))

    @settings(deadline=None)
    @given(st.binary(max_size=200))
    def test_whatever_stands_before_the_first_packet_is_a_sentence(self, noise: bytes) -> None:
        try:
            SftpClient(_Canned(noise), timeout_seconds=1)
        except SftpUnusable as error:
            assert str(error).startswith("The host's SFTP cannot be used")
        except CommandFailed as error:
            assert "cut off" in str(error)
        else:
            assert noise[4:5] == b"\2"

    @settings(deadline=None)
    @given(st.lists(st.binary(min_size=1, max_size=200).filter(lambda raw: b"/" not in raw and b"\0" not in raw)))
    def test_names_come_through_whatever_pieces_their_bytes_come_in(self, found: list[bytes]) -> None:
        whole = VERSION + told(1, 104, names(*((name, FOLDER) for name in found)))
        stream = _Canned(*[whole[at : at + 7] for at in range(0, len(whole), 7)])
        client = SftpClient(stream, timeout_seconds=1)
        number, answer = client.answer()
        assert number == 1 and isinstance(answer, tuple)
        assert [name for name, _ in answer] == found
