"""Private keys: from one directory or the agent, and a sentence for each reason why one cannot be used."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.remote.base import KeyUnusable
from inventory.remote.keys import KeySource, allowed_key_path, load_key_file, usable_keys
from inventory.remote.pool import Endpoint, SshRemote
from tests.parts import need
from tests.sshd import Sshd, make_key


class TestTheDirectory:
    def test_a_file_in_it_is_allowed_by_its_name(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "key").touch()
        assert allowed_key_path(tmp_path, "key") == tmp_path / "key"
        assert allowed_key_path(tmp_path, "sub/../key") == tmp_path / "key"
        assert allowed_key_path(tmp_path, "sub/not yet") == tmp_path / "sub" / "not yet"

    @pytest.mark.parametrize(
        "name", ["../key", "/etc/passwd", "sub/../../key", "link", "linked/key", ".", "sub/..", "~/k/../.."]
    )
    def test_what_lies_outside_is_refused_links_included(self, tmp_path: Path, name: str) -> None:
        directory = tmp_path / "keys"
        (directory / "sub").mkdir(parents=True)
        (tmp_path / "key").touch()
        (directory / "link").symlink_to(tmp_path / "key")
        (directory / "linked").symlink_to(tmp_path)
        with pytest.raises(KeyUnusable, match="outside the key directory"):
            allowed_key_path(directory, name)

    def test_a_neighbour_with_a_longer_name_is_outside(self, tmp_path: Path) -> None:
        (tmp_path / "keys").mkdir()
        (tmp_path / "keys-of-others").mkdir()
        with pytest.raises(KeyUnusable, match="outside"):
            allowed_key_path(tmp_path / "keys", "../keys-of-others/key")

    @pytest.mark.parametrize("name", ["", "  ", "a\0b"])
    def test_what_is_no_name_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(KeyUnusable, match="no file name"):
            allowed_key_path(tmp_path, name)

    def test_a_loop_of_links_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(KeyUnusable):
            load_key_file(allowed_key_path(tmp_path, "a"))


class TestFiles:
    @pytest.mark.parametrize(
        "options",
        [("ed25519",), ("ecdsa",), ("rsa", "-b", "2048"), ("rsa", "-b", "2048", "-m", "PEM"), ("ecdsa", "-m", "PEM")],
    )
    def test_usual_formats_are_read(self, tmp_path: Path, options: tuple[str, ...]) -> None:
        need("ssh-keygen")
        key = load_key_file(make_key(tmp_path / "key", *options))
        assert key.get_base64() == (tmp_path / "key.pub").read_text().split()[1]

    @pytest.mark.parametrize(
        "options", [("ed25519",), ("rsa", "-b", "2048", "-m", "PEM"), ("rsa", "-b", "2048", "-m", "PKCS8")]
    )
    def test_a_key_that_needs_a_passphrase_says_so_and_what_to_do(
        self, tmp_path: Path, options: tuple[str, ...]
    ) -> None:
        need("ssh-keygen")
        path = make_key(tmp_path / "key", *options, passphrase="secret words")
        with pytest.raises(KeyUnusable, match=r"locked by a passphrase.*ssh-add") as raised:
            load_key_file(path)
        assert str(path) in str(raised.value)
        assert "secret words" not in str(raised.value)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("", "format or of a type that is not read"),
            ("hello\n", "format or of a type that is not read"),
            ("PuTTY-User-Key-File-3: ssh-ed25519\n", "puttygen"),
            ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA== me\n", "public half"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "PKCS#8"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "not read"),
            ("-----BEGIN RSA PRIVATE KEY-----\n\n-----END RSA PRIVATE KEY-----\n", "not read"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "not read"),
            ("x" * 70_000, "too large"),
            ("\xff\xfe\x00", "not read"),
        ],
    )
    def test_other_files_are_told_apart(self, tmp_path: Path, content: str, reason: str) -> None:
        (tmp_path / "key").write_text(content, encoding="latin-1")
        with pytest.raises(KeyUnusable, match=reason):
            load_key_file(tmp_path / "key")

    def test_a_file_that_is_not_there_or_a_folder_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(KeyUnusable, match="no such file"):
            load_key_file(tmp_path / "key")
        with pytest.raises(KeyUnusable, match="cannot be read"):
            load_key_file(tmp_path)

    def test_a_source_is_a_file_or_the_agent(self) -> None:
        for wrong in ({"path": None, "agent": False}, {"path": Path("x"), "agent": True}):
            with pytest.raises(ValueError, match="either"):
                KeySource(**wrong)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A real ssh-agent that SSH_AUTH_SOCK points to; gives its socket."""
    need("ssh-agent", "ssh-add")
    address = tmp_path / "a"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(address)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 5
    while not address.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(address))
    yield address
    process.terminate()
    process.wait(5)


class TestTheAgent:
    def test_a_key_in_the_agent_signs_in(self, sshd: Sshd, agent: Path) -> None:
        locked_out = sshd.endpoint()
        endpoint = Endpoint(locked_out.address, locked_out.port, sshd.username, KeySource(agent=True), sshd.pinned)
        remote = SshRemote(endpoint, connect_timeout_seconds=10)
        with pytest.raises(KeyUnusable, match="holds no key"):
            remote.run(b":", step="try")
        subprocess.run(["ssh-add", "-q", str(sshd.key_path)], check=True, capture_output=True, env=dict(os.environ))
        assert remote.check(b"echo in", step="try") == b"in\n"
        remote.close()

    def test_no_agent_and_a_dead_one_are_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source = KeySource(agent=True)
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        with pytest.raises(KeyUnusable, match="SSH_AUTH_SOCK is not set"), usable_keys(source, timeout_seconds=1):
            pass
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "none"))
        with pytest.raises(KeyUnusable, match="does not answer"), usable_keys(source, timeout_seconds=1):
            pass

    def test_an_agent_that_hangs_is_given_up_in_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        address = str(tmp_path / "a")
        done = threading.Event()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen()
            monkeypatch.setenv("SSH_AUTH_SOCK", address)
            begun = time.monotonic()
            source = KeySource(agent=True)
            with pytest.raises(KeyUnusable, match="does not answer"), usable_keys(source, timeout_seconds=0.5):
                pass
            assert time.monotonic() - begun < 5
        done.set()
