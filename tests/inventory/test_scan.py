"""Scans, over a real sshd, with GNU find and with BusyBox: every name, every kind, nothing of ours, flat memory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from inventory import scan
from inventory.remote.base import CommandFailed, ConnectionLost, PathMissing, PathRefused, Remote, ToolMissing
from inventory.remote.names import RemoteName
from inventory.remote.pool import SshRemote
from inventory.scan import ScanEntry, scan_resource
from tests.fakes import MemoryRemote, remote_name
from tests.parts import need
from tests.sshd import Sshd, busybox_folder

HOSTILE_NAMES = [
    b"plain",
    b"two  words ",
    b"line\nfeed",
    b"\n",
    b"carriage\rreturn\ttab",
    b"-rf",
    b"*?[a-z]",
    b"'single' \"double\"",
    b"$(id) `id` $HOME",
    b"back\\slash\\n",
    b"bad\xff\xfe\x80",
    "参数".encode(),
    b"x" * 255,
    b"!0",
    b"a|b|c",
    b"name -> target",
    b"\x01\x1b[31m",
]


@dataclass
class Lister:
    """A host to scan and the way that it can be scanned."""

    remote: Remote
    has_find_printf: bool

    def __call__(self, root: Path, *leave_out: Path) -> dict[bytes, ScanEntry]:
        entries = list(self.stream(root, *leave_out))
        found = {entry.name: entry for entry in entries}
        assert len(found) == len(entries), "a name came twice"
        return found

    def stream(self, root: Path, *leave_out: Path) -> Iterator[ScanEntry]:
        return scan_resource(
            self.remote,
            remote_name(root),
            leave_out=[remote_name(path) for path in leave_out],
            has_find_printf=self.has_find_printf,
            timeout_seconds=30,
        )


@pytest.fixture(params=["GNU", "BusyBox", "GNU without printf"])
def listed(request: pytest.FixtureRequest, tmp_path: Path, make_sshd: Callable[..., Sshd]) -> Iterator[Lister]:
    """A real host of each sort."""
    path = None
    if request.param == "BusyBox":
        need("busybox")
        path = str(busybox_folder(tmp_path / "applets"))
    server = make_sshd(path=path)
    server.talk_at_login()
    remote = SshRemote(server.endpoint(), no_data_timeout_seconds=30, connect_timeout_seconds=10)
    yield Lister(remote, request.param == "GNU")
    remote.close()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty folder to scan."""
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


def below(folder: Path, name: bytes) -> Path:
    """A path by the exact bytes of its last part."""
    return folder / os.fsdecode(name)


def lay(folder: Path, name: bytes, content: bytes = b"") -> Path:
    """Write a file by its exact name; returns its path."""
    path = below(folder, name)
    path.write_bytes(content)
    return path


class TestNames:
    def test_hostile_names_of_files_folders_and_links_come_through_unchanged(self, listed: Lister, tree: Path) -> None:
        expected: dict[bytes, str] = {b"": "folder"}
        for number, name in enumerate(HOSTILE_NAMES):
            folder = below(tree, name)
            folder.mkdir()
            lay(folder, name, b"x" * number)
            link = name[:200] + b".link"
            below(folder, link).symlink_to(os.fsdecode(name))
            expected |= {name: "folder", name + b"/" + name: "file", name + b"/" + link: "link"}
        found = listed(tree)
        assert {name: entry.kind for name, entry in found.items()} == expected
        for number, name in enumerate(HOSTILE_NAMES):
            assert found[name + b"/" + name].size_bytes == number
            assert found[name + b"/" + name[:200] + b".link"].link_target == name

    def test_a_root_with_a_hostile_name_is_scanned(self, listed: Lister, tree: Path) -> None:
        for name in (b"-root\n *?[x]'\"\\\xff $(id)", b"!5"):
            root = below(tree, name)
            root.mkdir()
            lay(root, b"a\nb", b"1")
            assert set(listed(root)) == {b"", b"a\nb"}

    def test_deep_trees_are_followed_to_their_end(self, listed: Lister, tree: Path) -> None:
        deep = tree
        for _ in range(40):
            deep = deep / ("d" * 60)
        deep.mkdir(parents=True)
        (deep / "end").touch()
        found = listed(tree)
        assert len(found) == 42
        assert max(found, key=len).endswith(b"/end")


class TestFigures:
    def test_figures_are_those_of_the_file_system(self, listed: Lister, tree: Path) -> None:
        path = lay(tree, b"file", b"12345")
        os.link(path, below(tree, b"file2"))
        path.chmod(0o4751)
        os.utime(path, ns=(0, 1_700_000_000_123_456_789))
        old = lay(tree, b"old")
        os.utime(old, ns=(0, -1_750_000_000))
        far = lay(tree, b"far")
        os.utime(far, ns=(0, 4_000_000_000_000_000_001))
        found = listed(tree)
        for name, entry in found.items():
            real = below(tree, name).lstat()
            assert (entry.mtime_ns, entry.ctime_ns) == (real.st_mtime_ns, real.st_ctime_ns)
            assert (entry.size_bytes, entry.stored_bytes) == (real.st_size, real.st_blocks * 512)
            assert (entry.device, entry.inode, entry.link_count) == (real.st_dev, real.st_ino, real.st_nlink)
            assert entry.mode == real.st_mode & 0o7777
        assert found[b"file"].link_count == 2
        assert found[b"file"].mode == 0o4751
        assert found[b"old"].mtime_ns == -1_750_000_000

    def test_a_sparse_file_has_its_length_and_what_is_stored(self, listed: Lister, tree: Path) -> None:
        with (tree / "sparse").open("wb") as file:
            file.truncate(5 * 2**30)
        entry = listed(tree)[b"sparse"]
        assert entry.size_bytes == 5 * 2**30
        assert entry.stored_bytes < 2**20

    def test_kinds_are_told_apart_and_links_are_not_followed(
        self, listed: Lister, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tree / "folder").mkdir()
        (tree / "folder" / "inside").touch()
        (tree / "to folder").symlink_to("folder")
        (tree / "loop").symlink_to("..")
        (tree / "nowhere").symlink_to("no\nwhere' -> 'x")
        os.mkfifo(tree / "pipe")
        monkeypatch.chdir(tree)  # a socket's path must be short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
        found = listed(tree)
        assert {name: entry.kind for name, entry in found.items()} == {
            b"": "folder",
            b"folder": "folder",
            b"folder/inside": "file",
            b"to folder": "link",
            b"loop": "link",
            b"nowhere": "link",
            b"pipe": "pipe",
            b"socket": "socket",
        }
        assert found[b"loop"].link_target == b".."
        assert found[b"nowhere"].link_target == b"no\nwhere' -> 'x"
        assert found[b"to folder"].size_bytes == 6

    def test_a_device_is_a_device(self, listed: Lister) -> None:
        (entry,) = listed(Path("/dev/null")).values()
        assert (entry.name, entry.kind) == (b"", "device")


class TestRoots:
    def test_a_file_as_root_gives_its_one_entry(self, listed: Lister, tree: Path) -> None:
        (entry,) = listed(lay(tree, b"one\nfile", b"123")).values()
        assert (entry.name, entry.kind, entry.size_bytes, entry.link_count) == (b"", "file", 3, 1)

    def test_an_empty_folder_gives_itself(self, listed: Lister, tree: Path) -> None:
        assert set(listed(tree)) == {b""}

    def test_a_link_as_root_is_refused_and_its_target_named(self, listed: Lister, tree: Path) -> None:
        (tree / "real").mkdir()
        (tree / "link").symlink_to("real")
        (tree / "dangling").symlink_to("/no/such/place/at all")
        with pytest.raises(PathRefused, match=r"symbolic link to “.*tree/real”.*Give the real path"):
            listed(tree / "link")
        with pytest.raises(PathRefused, match="symbolic link"):
            listed(tree / "dangling")

    def test_a_root_below_a_linked_folder_is_scanned(self, listed: Lister, tree: Path) -> None:
        (tree / "real" / "below").mkdir(parents=True)
        (tree / "real" / "below" / "file").touch()
        (tree / "link").symlink_to("real")
        assert set(listed(tree / "link" / "below")) == {b"", b"file"}

    def test_a_root_that_is_not_there_is_missing(self, listed: Lister, tree: Path) -> None:
        with pytest.raises(PathMissing):
            listed(tree / "no such")

    @pytest.mark.parametrize("raw", [b"relative", b"", b"/a/../b", b"/a//b", b"/a/"])
    def test_a_root_that_is_no_canonical_path_is_refused_unseen(self, tmp_path: Path, raw: bytes) -> None:
        remote = MemoryRemote(tmp_path)
        with pytest.raises(PathRefused, match="absolute"):
            next(scan_resource(remote, RemoteName(raw), leave_out=[], has_find_printf=True))
        assert remote.calls == 0


class TestStaging:
    def test_our_staging_is_neither_entered_nor_given(self, listed: Lister, tree: Path) -> None:
        staging = tree / "home" / "*stag[ing]?\\"
        (staging / "inside").mkdir(parents=True)
        for name in ("home/*stag[ing]?\\x", "home/!stagi?z", "home/*stagi?z"):
            (tree / name).mkdir()
        assert set(listed(tree, staging, Path("/elsewhere"), tree / "not there")) == {
            b"",
            b"home",
            b"home/*stag[ing]?\\x",
            b"home/!stagi?z",
            b"home/*stagi?z",
        }

    def test_the_host_itself_does_not_look_into_our_staging(
        self, listed: Lister, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tree / "sta[ging" / "inside").mkdir(parents=True)
        (tree / "other").mkdir()
        printed: list[bytes] = []
        plain = listed.remote.stream

        def spied(script: bytes, *, step: str, timeout_seconds: float) -> Iterator[bytes]:
            for piece in plain(script, step=step, timeout_seconds=timeout_seconds):
                printed.append(piece)
                yield piece

        monkeypatch.setattr(listed.remote, "stream", spied)
        assert set(listed(tree, tree / "sta[ging")) == {b"", b"other"}
        assert b"other" in b"".join(printed)
        assert b"inside" not in b"".join(printed)

    def test_staging_is_found_by_its_real_path(self, listed: Lister, tree: Path) -> None:
        (tree / "real" / "user" / "staging" / "inside").mkdir(parents=True)
        (tree / "home").symlink_to("real")
        expected = {b""}
        assert set(listed(tree / "home" / "user", tree / "real" / "user" / "staging")) == expected
        assert set(listed(tree / "real" / "user", tree / "home" / "user" / "staging")) == expected

    def test_a_root_in_our_staging_is_refused(self, listed: Lister, tree: Path) -> None:
        (tree / "staging" / "below").mkdir(parents=True)
        lay(tree / "staging", b"file")
        for root in (tree / "staging", tree / "staging" / "below", tree / "staging" / "file"):
            with pytest.raises(PathRefused, match="our own staging folder"):
                listed(root, tree / "staging")


@pytest.fixture(params=["GNU", "BusyBox"])
def poor(request: pytest.FixtureRequest) -> Iterator[tuple[Lister, Path]]:
    """A host whose account may not read everything, and an open folder there."""
    folder = Path(tempfile.mkdtemp(prefix="calculet-scan-"))
    folder.chmod(0o755)
    path = None
    shell = "/bin/sh"
    if request.param == "BusyBox":
        need("busybox")
        path = str(busybox_folder(folder / "applets"))
        shell = f"{path}/sh"
    if os.geteuid() == 0:
        need("setpriv")
        shell = f"{shutil.which('setpriv')} --reuid=65534 --regid=65534 --clear-groups {shell}"
    remote = MemoryRemote(folder, path=path, shell=shell)
    (folder / "tree").mkdir()
    yield Lister(remote, request.param == "GNU"), folder / "tree"
    remote.close()
    for found, _, _ in os.walk(folder):
        Path(found).chmod(0o755)
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=True)
    shutil.rmtree(folder)


class TestWhatCannotBeRead:
    def test_barred_folders_are_told_once_each_and_the_rest_is_listed(self, poor: tuple[Lister, Path]) -> None:
        listed, tree = poor
        names = [b"no read\nfind: x", b"no\xffenter", b"'no'", b"plain"]
        for mode, name in zip((0o311, 0o644, 0o000, 0o755), names, strict=True):
            folder = below(tree, name)
            folder.mkdir()
            lay(folder, b"file")
            folder.chmod(mode)
        found = listed(tree)
        kinds = {name: entry.kind for name, entry in found.items()}
        barred = dict.fromkeys(names[:3], "unreadable")
        inside = {name: kind for name, kind in kinds.items() if name.startswith(names[1] + b"/")}
        assert set(inside.values()) <= {"unreadable"}
        assert {name: kind for name, kind in kinds.items() if name not in inside} == {
            b"": "folder",
            **barred,
            b"plain": "folder",
            b"plain/file": "file",
        }
        assert found[b"'no'"].mode == 0
        assert found[b"'no'"].inode != 0

    def test_a_root_that_may_not_be_listed_is_refused(self, poor: tuple[Lister, Path]) -> None:
        listed, tree = poor
        (tree / "closed" / "below").mkdir(parents=True)
        (tree / "closed").chmod(0)
        with pytest.raises(PathRefused, match="permission denied"):
            listed(tree / "closed")
        with pytest.raises(PathRefused):
            listed(tree / "closed" / "below")


class TestComplaints:
    """What find says on standard error, as GNU and BusyBox put it."""

    root = RemoteName(b"/r")

    def told(self, said: bytes, *, is_escaped: bool = True, status: int = 1) -> list[bytes]:
        return list(scan._complained_of(said, self.root, status, "list", is_escaped=is_escaped))

    def test_what_cannot_be_told_about_is_named_exactly(self) -> None:
        said = b"find: '/r/a\\nb\\377 \\'x\\'': Input/output error\nfind: '/r/c': Permission denied"
        assert self.told(said) == [b"a\nb\xff 'x'", b"c"]
        said = b"find: /r/a\nb\xff: Input/output error\nstat: can't stat '/r/c\\n': Permission denied"
        assert self.told(said, is_escaped=False) == [b"a\nb\xff", b"c\\n"]

    def test_what_vanished_is_passed_over_but_not_the_root(self) -> None:
        assert self.told(b"find: '/r/a': No such file or directory") == []
        with pytest.raises(PathMissing):
            self.told(b"find: '/r': No such file or directory")

    @pytest.mark.parametrize(
        "said", [b"find: something else", b"find: '/other': Permission denied", b"Killed", b"find: '/r/a': Per\xc3\xa9"]
    )
    def test_any_other_complaint_fails_the_scan_in_its_words(self, said: bytes) -> None:
        with pytest.raises(CommandFailed) as raised:
            self.told(b"find: '/r/a': No such file or directory\n" + said)
        assert raised.value.message == said.decode("utf-8", "backslashreplace")

    def test_more_complaints_than_are_kept_fail_the_scan(self) -> None:
        line = b"find: '/r/%d': Input/output error\n"
        said = b"".join(line % number for number in range(scan.COMPLAINTS_KEPT_BYTES // 20))
        with pytest.raises(CommandFailed, match="more complaints"):
            self.told(said[: scan.COMPLAINTS_KEPT_BYTES])

    def test_a_bad_status_without_words_fails_the_scan(self) -> None:
        with pytest.raises(CommandFailed, match="status 137"):
            self.told(b"", status=137)


class TestTheWhole:
    def test_ten_thousand_entries_stream_in_flat_memory(self, listed: Lister, tree: Path) -> None:
        for number in range(50):
            folder = tree / f"folder {number:03d}"
            folder.mkdir()
            for file in range(200):
                (folder / f"file {file:03d} {'x' * 60}").touch()
        count, total_name_bytes = 0, 0
        tracemalloc.start()
        for entry in listed.stream(tree):
            count += 1
            total_name_bytes += len(entry.name)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == 10_051
        assert peak < 4 * 2**20
        assert total_name_bytes > 700_000

    def test_a_listing_that_is_cut_raises_and_does_not_look_whole(self, listed: Lister, tree: Path) -> None:
        for number in range(3000):
            (tree / f"{number:05d}{'x' * 200}").touch()
        remote = listed.remote
        assert isinstance(remote, SshRemote)
        stream = listed.stream(tree)
        next(stream)
        remote.close()
        with pytest.raises(ConnectionLost):
            list(stream)

    def test_a_host_without_find_or_stat_says_what_is_missing(self, tmp_path: Path) -> None:
        tools = tmp_path / "tools"
        tools.mkdir()
        (tmp_path / "tree").mkdir()
        for tool in ("cat", "head", "stat"):
            (tools / tool).symlink_to(shutil.which(tool) or "")
        listed = Lister(MemoryRemote(tmp_path, path=str(tools)), has_find_printf=True)
        with pytest.raises(ToolMissing, match="find"):
            listed(tmp_path / "tree")
        (tools / "stat").unlink()
        with pytest.raises(ToolMissing, match="stat"):
            listed(tmp_path / "tree")
