"""The one folder that we may write in on a host: made, marked, and refused where it is not ours."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inventory.remote.base import PathRefused, Remote
from inventory.remote.names import RemoteName
from inventory.remote.pool import SshRemote
from inventory.remote.staging import MARKER_NAME, ensure_staging
from tests.fakes import MemoryRemote, remote_name
from tests.parts import need
from tests.sshd import Sshd

MARKER = b"installation 7f3a"


@pytest.fixture(params=["GNU", "BusyBox"])
def host(
    request: pytest.FixtureRequest, tmp_path: Path, make_sshd: Callable[..., Sshd]
) -> Iterator[tuple[Remote, Sshd]]:
    """A real host of each sort."""
    path = None
    if request.param == "BusyBox":
        path = request.getfixturevalue("busybox_path")
    server = make_sshd(path=path)
    remote = SshRemote(server.endpoint(), no_data_timeout_seconds=20, connect_timeout_seconds=10)
    yield remote, server
    remote.close()


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder, to see that nothing was changed."""
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
        for path in sorted(folder.rglob("*"))
    }


def test_it_is_made_private_with_our_marker_and_found_again(host: tuple[Remote, Sshd], tmp_path: Path) -> None:
    remote, _ = host
    folder = tmp_path / "a b" / "it's\nstaging"
    ensure_staging(remote, remote_name(folder), MARKER)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / MARKER_NAME.decode()).read_bytes() == MARKER + b"\n"
    (folder / "work").write_bytes(b"kept")
    before = listing(folder)
    ensure_staging(remote, remote_name(folder), MARKER)
    assert listing(folder) == before
    assert len(before) == 2


def test_an_empty_folder_is_taken_and_closed_to_others(host: tuple[Remote, Sshd], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o755)
    ensure_staging(host[0], remote_name(tmp_path, b"empty"), MARKER)
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o700


def test_a_marking_that_was_cut_off_is_finished(host: tuple[Remote, Sshd], tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / f"{MARKER_NAME.decode()}.4711").write_bytes(b"inst")
    ensure_staging(host[0], remote_name(tmp_path, b"s"), MARKER)
    assert (tmp_path / "s" / MARKER_NAME.decode()).read_bytes() == MARKER + b"\n"


@pytest.mark.parametrize("name", ["file", ".hidden", "..odd", "link"])
def test_a_folder_in_use_by_others_is_refused_and_left_alone(
    host: tuple[Remote, Sshd], tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o755)
    if name == "link":
        (folder / name).symlink_to("nowhere")
    else:
        (folder / name).write_bytes(b"theirs")
    before = listing(tmp_path / "theirs")
    with pytest.raises(PathRefused, match="not empty and does not carry our marker"):
        ensure_staging(host[0], remote_name(folder), MARKER)
    assert listing(folder) == before
    assert folder.stat().st_mode & 0o777 == 0o755


def test_another_installations_folder_is_refused(host: tuple[Remote, Sshd], tmp_path: Path) -> None:
    ensure_staging(host[0], remote_name(tmp_path, b"s"), MARKER)
    for marker in (b"installation 7f3b", b"installation", b"*"):
        with pytest.raises(PathRefused, match="another installation"):
            ensure_staging(host[0], remote_name(tmp_path, b"s"), marker)
    assert (tmp_path / "s" / MARKER_NAME.decode()).read_bytes() == MARKER + b"\n"


def test_a_link_and_what_is_no_folder_are_refused(host: tuple[Remote, Sshd], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (
        (b"link", "symbolic link"),
        (b"dangling", "symbolic link"),
        (b"file", "no folder lies there"),
        (b"pipe", "no folder lies there"),
    ):
        with pytest.raises(PathRefused, match=reason):
            ensure_staging(host[0], remote_name(tmp_path, name), MARKER)
    assert list((tmp_path / "empty").iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


def test_a_marker_that_is_a_link_is_not_ours(host: tuple[Remote, Sshd], tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    (tmp_path / "elsewhere").write_bytes(MARKER + b"\n")
    (folder / MARKER_NAME.decode()).symlink_to(tmp_path / "elsewhere")
    (folder / "theirs").write_bytes(b"x")
    with pytest.raises(PathRefused):
        ensure_staging(host[0], remote_name(folder), MARKER)


def test_the_home_folder_is_refused_by_whatever_path(host: tuple[Remote, Sshd], tmp_path: Path) -> None:
    remote, server = host
    (tmp_path / "alias").symlink_to(server.home.parent)
    before = listing(server.home)
    for path in (server.home, tmp_path / "alias" / server.home.name):
        with pytest.raises(PathRefused, match="home folder itself"):
            ensure_staging(remote, remote_name(path), MARKER)
    assert listing(server.home) == before
    ensure_staging(remote, remote_name(server.home, b".staging"), MARKER)


@pytest.mark.parametrize("raw", [b"", b" ", b"/", b"//", b"relative", b"~/x", b"/a/../b", b"/a/./b", b"/a//b", b"/a/"])
def test_paths_that_are_no_folder_of_their_own_are_refused_unseen(tmp_path: Path, raw: bytes) -> None:
    remote = MemoryRemote(tmp_path)
    with pytest.raises(PathRefused, match="staging path"):
        ensure_staging(remote, RemoteName(raw), MARKER)
    assert remote.calls == 0


def test_where_the_account_may_not_write_it_says_so() -> None:
    folder = Path(tempfile.mkdtemp(prefix="calculet-staging-"))
    shell = "/bin/sh"
    if os.geteuid() == 0:
        need("setpriv")
        shell = f"{shutil.which('setpriv')} --reuid=65534 --regid=65534 --clear-groups {shell}"
    folder.chmod(0o555)
    remote = MemoryRemote(folder, shell=shell)
    try:
        with pytest.raises(PathRefused, match="may not write there"):
            ensure_staging(remote, remote_name(folder, b"new"), MARKER)
        assert list(folder.iterdir()) == []
    finally:
        remote.close()
        folder.chmod(0o755)
        folder.rmdir()
