"""What `manage.py fetch` refuses: one sentence on standard error, a bad exit status, nothing changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine.books import MIB, noise
from tests.engine.disks import small_disk
from tests.live.fetching import Ended, Fetching
from tests.sshd import Sshd, make_key

pytestmark = pytest.mark.live


@pytest.fixture
def fetching(
    sshd: Sshd, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Fetching:
    """The command in this process: a refusal needs no process of its own, and starting one takes a second."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return Fetching(sshd, tmp_path, capsys=capsys)


def _source(tmp_path: Path, content: bytes) -> Path:
    folder = tmp_path / "remote"
    folder.mkdir(exist_ok=True)
    (folder / "model.tar").write_bytes(content)
    return folder / "model.tar"


def _refused(fetching: Fetching, ended: Ended, *words: str) -> None:
    assert ended.is_one_sentence_without_traceback(), ended
    for word in words:
        assert word in ended.errors, ended.errors
    assert fetching.names() == []


def test_an_unknown_host_is_told(fetching: Fetching, tmp_path: Path) -> None:
    ended = fetching.run("ada@no-such-host.invalid:/x")
    _refused(fetching, ended, "no-such-host.invalid")


def test_a_host_that_known_hosts_does_not_name_is_told_with_its_fingerprint(fetching: Fetching, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    source = _source(tmp_path, b"abc")
    for known_hosts in (empty, tmp_path / "missing"):
        ended = fetching.run(fetching.place(source), "--known-hosts", str(known_hosts))
        _refused(fetching, ended, fetching.server.pinned.fingerprint, str(known_hosts))


def test_a_changed_host_key_is_told_with_both_fingerprints(fetching: Fetching, tmp_path: Path) -> None:
    before = fetching.server.pinned.fingerprint
    fetching.server.change_host_key()
    fetching.server.restart()
    ended = fetching.run(fetching.place(_source(tmp_path, b"abc")))
    _refused(fetching, ended, before, "expected", "found")
    assert ended.errors.count("SHA256:") == 2


def test_keys_that_do_not_serve_are_told(fetching: Fetching, tmp_path: Path) -> None:
    place = fetching.place(_source(tmp_path, b"abc"))
    stranger = make_key(tmp_path / "stranger")
    _refused(fetching, fetching.run(place, "--key", str(stranger)), "did not let")
    locked = make_key(tmp_path / "locked", passphrase="secret")
    _refused(fetching, fetching.run(place, "--key", str(locked)), "passphrase", str(locked))
    _refused(fetching, fetching.run(place, "--key", str(tmp_path / "none")), "no such file")
    _refused(fetching, fetching.run(place, "--key", f"{stranger}.pub"), "public half")


def test_the_usual_key_files_are_tried_without_a_key_option(
    fetching: Fetching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    source = _source(tmp_path, b"abc")
    options = ["--port", str(fetching.server.port)]
    monkeypatch.setenv("HOME", str(home))
    known_hosts = str(fetching.server.known_hosts_path)
    nothing = fetching.run(fetching.place(source), *options, "--known-hosts", known_hosts, usual=False)
    _refused(fetching, nothing, "no key to sign in with", "--key")
    make_key(home / ".ssh" / "id_ecdsa", "ecdsa", passphrase="secret")
    (home / ".ssh" / "id_ed25519").write_bytes(fetching.server.key_path.read_bytes())
    (home / ".ssh" / "known_hosts").write_bytes(fetching.server.known_hosts_path.read_bytes())
    ended = fetching.run(fetching.place(source), *options, usual=False)
    assert ended.status == 0, ended.errors


def test_paths_that_are_no_readable_file_are_told(fetching: Fetching, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    folder = tmp_path / "remote" / "folder"
    folder.mkdir()
    _refused(fetching, fetching.run(fetching.place(tmp_path / "remote" / "none")), "is not there on the host")
    _refused(fetching, fetching.run(fetching.place(folder)), "a folder")
    (tmp_path / "remote" / "dangling").symlink_to("nowhere")
    _refused(fetching, fetching.run(fetching.place(tmp_path / "remote" / "dangling")), "leads to nothing")
    os.mkfifo(tmp_path / "remote" / "pipe")
    _refused(fetching, fetching.run(fetching.place(tmp_path / "remote" / "pipe")), "a pipe")


def test_a_landing_that_cannot_take_the_file_is_told_before_anything_is_made(
    fetching: Fetching, tmp_path: Path
) -> None:
    place = fetching.place(_source(tmp_path, noise(3 * MIB)))
    missing = fetching.run(place, "--to", str(tmp_path / "missing"))
    _refused(fetching, missing, "is not there")
    assert not (tmp_path / "missing").exists()
    (tmp_path / "file").write_text("")
    _refused(fetching, fetching.run(place, "--to", str(tmp_path / "file")), "is not a folder")
    long = fetching.run(fetching.place("/" + "n" * 250))
    _refused(fetching, long, "up to 255 bytes")
    with small_disk(tmp_path / "disk", MIB) as disk:
        full = fetching.run(place, "--to", str(disk))
        _refused(fetching, full, "bytes free", f"{3 * MIB:,}")
        assert list(disk.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "more", "word"),
    [
        ("host:/x", (), "USER@HOST:PATH"),
        ("ada@host", (), "USER@HOST:PATH"),
        ("ada@::1:/x", (), "USER@HOST:PATH"),
        ("ada@host:", (), "names no path"),
        ("ada@host:/folder/", (), "names a folder"),
        ("ada@host:/x", ("--port", "70000"), "no port"),
        ("ada@host:/x", ("--lanes", "0"), "no number of lanes"),
        ("ada@host:/x", ("--lanes", "many"), "no number of lanes"),
    ],
)
def test_words_that_make_no_sense_are_refused_in_one_sentence(
    fetching: Fetching, place: str, more: tuple[str, ...], word: str
) -> None:
    _refused(fetching, fetching.run(place, *more), word)


def test_nobody_listening_is_told(fetching: Fetching, tmp_path: Path) -> None:
    fetching.server.stop()
    _refused(fetching, fetching.run(fetching.place("/x")), "cannot be reached")
