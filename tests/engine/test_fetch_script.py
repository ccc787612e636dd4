"""The script that goes on without the product: with real ssh, in two small shells, and with every kind of trouble."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import random
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.remote.names import RemoteName
from tests.parts import find, need
from tests.sshd import Sshd
from transfers.engine.fetch_script import Reach, ScriptBuild, ScriptRefused, fetch_script
from transfers.engine.geometry import build_of_files, build_of_one_file, build_of_parts
from transfers.engine.landing import NameRefused
from transfers.engine.types import BuildSpec, ChunkSpec

MEBIBYTE = 2**20
NASTY = (
    b"with space",
    b"qu'ote\"s",
    b"line\nfeed",
    b"-rf",
    b"caf\xe9",
    b"back\\slash",
    b"*",
    b"$(id)`id`",
    b"%s\\n",
)
SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"]}


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> list[str]:
    """Two small POSIX shells."""
    program, *words = SHELLS[request.param]
    need(program)
    return [str(find(program)), *words]


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """Where builds land, with a name that must be quoted."""
    folder = tmp_path / "the landing's $HOME"
    folder.mkdir()
    return folder


def written(folder: Path, name: bytes, size: int, seed: int = 1) -> tuple[RemoteName, bytes]:
    content = random.Random(seed).randbytes(size)
    folder.mkdir(exist_ok=True)
    path = os.fsencode(folder) + b"/" + name
    with open(path, "wb") as file:
        file.write(content)
    return RemoteName(path), content


def digested(spec: BuildSpec, content: bytes) -> BuildSpec:
    chunks = tuple(
        replace(one, sha256=hashlib.sha256(content[one.offset : one.offset + one.length]).digest())
        for one in spec.chunks
    )
    return replace(spec, chunks=chunks)


def single(folder: Path, source: RemoteName, content: bytes, name: bytes = b"one.tar") -> ScriptBuild:
    spec = build_of_one_file(
        key="k", source=source, size_bytes=len(content), folder=folder / "far/one/1", name=name, chunk_bytes=MEBIBYTE
    )
    return ScriptBuild("far/one/1", "far/one/1", digested(spec, content), hashlib.sha256(content).hexdigest())


def run(
    sshd: Sshd, shell: Sequence[str], landing: Path, builds: Sequence[ScriptBuild], *words: str, **others: str
) -> subprocess.CompletedProcess[bytes]:
    """Make the script and run it with nothing but what it needs."""
    key = sshd.pinned
    reach = Reach("127.0.0.1", sshd.port, sshd.username, key.key_type, base64.b64encode(key.blob).decode())
    text = fetch_script(reach=reach, landing=str(landing), builds=builds, jobs=3, notes=["a note"])
    script = landing.parent / "go on.sh"
    script.write_bytes(text)
    environment = {"PATH": os.environ["PATH"], "KEY": str(sshd.key_path), "TRIES": "2", **others}
    return subprocess.run(
        [*shell, str(script), *words], env=environment, capture_output=True, timeout=100, stdin=subprocess.DEVNULL
    )


def test_it_brings_files_with_hostile_names_and_runs_twice(
    sshd: Sshd, shell: list[str], landing: Path, tmp_path: Path
) -> None:
    made = [written(tmp_path / "far", name, 300_001 + at, at) for at, name in enumerate(NASTY)]
    rows = [(source, b"deep folder/" + name, len(data)) for (source, data), name in zip(made, NASTY, strict=True)]
    rows.append((RemoteName(b"/none"), b"empty/of bytes", 0))
    content = b"".join(data for _source, data in made)
    spec = build_of_files(key="k", files=rows, folder=landing / "far/loose/1", chunk_bytes=MEBIBYTE)
    build = ScriptBuild("far/loose/1", "far/loose/1", digested(spec, content), "")
    done = run(sshd, shell, landing, [build])
    assert done.returncode == 0, done.stderr
    top = os.fsencode(landing / "far/loose/1/files.incoming")
    for (_source, data), name in zip(made, NASTY, strict=True):
        with open(top + b"/deep folder/" + name, "rb") as file:
            assert file.read() == data
    assert (landing / "far/loose/1/files.incoming/empty/of bytes").read_bytes() == b""
    again = run(sshd, shell, landing, [build], PATH=os.environ["PATH"])
    assert again.returncode == 0 and b"came and is right" not in again.stdout
    assert [path.name for path in (landing / "far/loose/1").iterdir()] == ["files.incoming"]


def test_it_keeps_what_is_right_and_replaces_what_is_wrong(
    sshd: Sshd, shell: list[str], landing: Path, tmp_path: Path
) -> None:
    source, content = written(tmp_path / "far", b"archive", 5 * MEBIBYTE + 77)
    build = single(landing, source, content)
    folder = landing / "far/one/1"
    folder.mkdir(parents=True)
    # Chunks 0 and 2 are right, 1 is damaged by one bit, the rest is missing; the map claims that everything is here.
    damaged = bytearray(content[: 3 * MEBIBYTE])
    damaged[MEBIBYTE + 5] ^= 1
    (folder / "one.tar.incoming").write_bytes(damaged)
    (folder / "one.tar.ledger").write_bytes(b"a map")
    checked = run(sshd, shell, landing, [build], "check")
    assert checked.returncode == 1 and checked.stderr.count(b"is not here, or not right") == 4
    assert (folder / "one.tar.incoming").read_bytes() == damaged and (folder / "one.tar.ledger").exists()
    done = run(sshd, shell, landing, [build])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"is here\n") == 2 and done.stdout.count(b"came and is right") == 4
    assert (folder / "one.tar.incoming").read_bytes() == content
    assert (folder / "one.tar.ledger.set-aside").read_bytes() == b"a map" and not (folder / "one.tar.ledger").exists()
    subprocess.run(["sha256sum", "-c", "--strict", "one.tar.incoming.sha256"], cwd=folder, check=True)
    last = run(sshd, shell, landing, [build], "finish")
    assert last.returncode == 0 and (folder / "one.tar").read_bytes() == content
    subprocess.run(["sha256sum", "-c", "--strict", "one.tar.sha256"], cwd=folder, check=True)


def test_parts_are_joined_at_any_offset(sshd: Sshd, shell: list[str], landing: Path, tmp_path: Path) -> None:
    made = [
        written(tmp_path / "far", b"part'%d" % at, size, at) for at, size in enumerate((100_003, 1, 65_536, 70_001))
    ]
    content = b"".join(data for _source, data in made)
    parts = [(source, len(data)) for source, data in made]
    spec = build_of_parts(key="k", parts=parts, folder=landing / "far/set/1", name=b"joined")
    build = ScriptBuild("far/set/1", "far/set/1", digested(spec, content), hashlib.sha256(content).hexdigest())
    done = run(sshd, shell, landing, [build])
    assert done.returncode == 0, done.stderr
    assert (landing / "far/set/1/joined.incoming").read_bytes() == content


def test_it_goes_on_in_the_middle_of_a_chunk_when_the_connection_breaks(
    make_sshd: Callable[..., Sshd], shell: list[str], landing: Path, tmp_path: Path
) -> None:
    sshd = make_sshd()
    sshd.talk_at_login()  # a greeting is never taken for content
    source, content = written(tmp_path / "far", b"archive", 2 * MEBIBYTE)
    build = single(landing, source, content)
    half = landing / "far/one/1/one.tar.script"
    half.mkdir(parents=True)
    (half / "0.77").write_bytes(content[:700_000])  # an earlier run came so far, and the source has lost it since:
    with open(source.raw, "r+b") as file:
        file.write(bytes(700_000))
    (half / "1.77").write_bytes(b"x" * 900_000)  # and here the disk lost what it was told
    done = run(sshd, shell, landing, [build])
    assert done.returncode == 0, done.stderr
    assert (landing / "far/one/1/one.tar.incoming").read_bytes() == content
    assert not half.exists()


def test_a_source_that_changed_and_a_host_with_another_key_are_told_and_nothing_wrong_is_kept(
    sshd: Sshd, landing: Path, tmp_path: Path
) -> None:
    shell = [str(find("dash"))]
    source, content = written(tmp_path / "far", b"archive", 2 * MEBIBYTE)
    build = single(landing, source, content)
    with open(source.raw, "r+b") as file:
        file.seek(MEBIBYTE + 9)
        file.write(b"changed")
    done = run(sshd, shell, landing, [build])
    assert done.returncode == 1
    assert b"chunk 1 came three times and never gave its digest: the source has changed" in done.stderr
    incoming = landing / "far/one/1/one.tar.incoming"
    assert incoming.read_bytes() == content[:MEBIBYTE]
    incoming.unlink()
    sshd.change_host_key()
    other = replace_key(sshd, landing, build, shell)
    assert other.returncode == 1 and b"times nothing came" in other.stderr
    assert not incoming.exists()


def replace_key(sshd: Sshd, landing: Path, build: ScriptBuild, shell: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run with a key in the script that the host does not have."""
    blob = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(32)).decode()
    reach = Reach("127.0.0.1", sshd.port, sshd.username, "ssh-ed25519", blob)
    script = landing.parent / "wrong key.sh"
    script.write_bytes(fetch_script(reach=reach, landing=str(landing), builds=[build], jobs=2))
    environment = {"PATH": os.environ["PATH"], "KEY": str(sshd.key_path), "TRIES": "1"}
    return subprocess.run([*shell, str(script)], env=environment, capture_output=True, timeout=60)


def test_two_runs_at_once_are_refused(sshd: Sshd, landing: Path, tmp_path: Path) -> None:
    source, content = written(tmp_path / "far", b"archive", 1000)
    (landing / ".fetch-script.running").mkdir()
    done = run(sshd, [str(find("dash"))], landing, [single(landing, source, content)])
    assert done.returncode == 2 and b"this script runs already" in done.stderr
    assert (landing / ".fetch-script.running").exists() and not (landing / "far").exists()


def test_what_cannot_be_written_safely_is_refused_when_the_script_is_made(tmp_path: Path) -> None:
    reach = Reach("127.0.0.1", 22, "guest", "ssh-ed25519", "AAAA")
    outside = build_of_files(key="k", files=[(RemoteName(b"/a"), b"../a", 1)], folder=tmp_path)
    undigested = build_of_one_file(key="k", source=RemoteName(b"/a"), size_bytes=9, folder=tmp_path, name=b"a")
    right = replace(undigested, chunks=(ChunkSpec(0, 0, 9, b"\1" * 32),))
    for spec, error in ((outside, NameRefused), (undigested, ScriptRefused)):
        with pytest.raises(error):
            fetch_script(reach=reach, landing="/l", builds=[ScriptBuild("t", "f", spec, "")], jobs=1)
    for wrong in (replace(reach, address="-oProxyCommand=x"), replace(reach, username="a b")):
        with pytest.raises(ScriptRefused):
            fetch_script(reach=wrong, landing="/l", builds=[ScriptBuild("t", "f", right, "")], jobs=1)


def test_a_plain_dd_will_do(sshd: Sshd, shell: list[str], landing: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    plain = tools / "dd"
    plain.write_text(f'#!/bin/sh\ncase "$*" in *flag=*) exit 1 ;; esac\nexec {find("dd")} "$@"\n')
    plain.chmod(0o755)
    made = [written(tmp_path / "far", b"part%d" % at, size, at) for at, size in enumerate((70_003, 20_001))]
    content = b"".join(data for _source, data in made)
    parts = [(source, len(data)) for source, data in made]
    spec = build_of_parts(key="k", parts=parts, folder=landing / "far/set/1", name=b"joined")
    build = ScriptBuild("far/set/1", "far/set/1", digested(spec, content), hashlib.sha256(content).hexdigest())
    done = run(sshd, shell, landing, [build], PATH=f"{tools}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert (landing / "far/set/1/joined.incoming").read_bytes() == content


def test_it_leaves_alone_what_the_product_fetches_at_the_moment(sshd: Sshd, landing: Path, tmp_path: Path) -> None:
    need("flock")
    source, content = written(tmp_path / "far", b"archive", 1000)
    folder = landing / "far/one/1"
    folder.mkdir(parents=True)
    with (folder / "one.tar.ledger").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run(sshd, [str(find("dash"))], landing, [single(landing, source, content)])
    assert done.returncode == 1 and b"the product fetches into this at the moment" in done.stderr
    assert (folder / "one.tar.ledger").exists() and not (folder / "one.tar.incoming").exists()
