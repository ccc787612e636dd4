"""`manage.py fetch` as a person runs it: what it brings, and how it goes on after kills, cuts and changes."""

from __future__ import annotations

import hashlib
import os
import pwd
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.books import MIB, noise
from tests.live.fetching import Ended, Fetching, slow_dd
from tests.parts import need
from tests.relay import slow_wire
from tests.sshd import Sshd
from transfers.engine.types import CELL_BYTES

pytestmark = pytest.mark.live


@pytest.fixture
def fetching(sshd: Sshd, tmp_path: Path) -> Iterator[Fetching]:
    started = Fetching(sshd, tmp_path)
    yield started
    started.end()


@pytest.fixture
def fetching_here(sshd: Sshd, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fetching:
    """The command in this process, for what needs no process of its own: starting one takes a second."""
    return Fetching(sshd, tmp_path, capsys=capsys)


@pytest.fixture
def slowly(make_sshd: Callable[..., Sshd], tmp_path: Path) -> Iterator[Fetching]:
    """The same on a host whose lanes bring about 640 KiB a second each."""
    started = Fetching(make_sshd(path=slow_dd(tmp_path / "slow", 64)), tmp_path)
    yield started
    started.end()


def _source(tmp_path: Path, content: bytes, name: bytes = b"model.tar") -> Path:
    folder = tmp_path / "remote"
    folder.mkdir(exist_ok=True)
    path = Path(os.fsdecode(bytes(folder) + b"/" + name))
    path.write_bytes(content)
    return path


def _incoming(fetching: Fetching, source: Path) -> Path:
    return fetching.landing / f"{source.name}.incoming"


def _wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _cells(fetching: Fetching, source: Path) -> int:
    """Cells marked as here in the ledger file (its header is 76 bytes long)."""
    path = fetching.landing / f"{source.name}.ledger"
    size = source.stat().st_size
    bitmap = path.read_bytes()[76 : 76 + -(-size // CELL_BYTES // 8)] if path.exists() else b""
    return sum(value.bit_count() for value in bitmap)


def test_a_file_lands_verified_under_its_own_name_with_its_figures(fetching: Fetching, tmp_path: Path) -> None:
    content = noise(20 * MIB + 3)
    source = _source(tmp_path, content)
    fetching.server.talk_at_login()
    ended = fetching.run(fetching.place(source), "--lanes", "4")
    assert ended.status == 0, ended.errors
    assert fetching.names() == ["model.tar"]
    assert (fetching.landing / "model.tar").read_bytes() == content
    assert set(ended.figures) == {"bytes", "sha256", "verified", "seconds", "lanes", "reconnects", "refetched_bytes"}
    assert ended.figures["bytes"] == len(content) and ended.figures["verified"] is True
    assert ended.figures["sha256"] == hashlib.sha256(content).hexdigest()
    assert ended.figures["lanes"] == 4 and ended.figures["reconnects"] == 0


def test_a_small_file_from_far_away_takes_few_round_trips(fetching: Fetching, tmp_path: Path) -> None:
    source, round_trip_seconds = _source(tmp_path, noise(70_000)), 0.3
    with slow_wire(fetching.server.port, round_trip_seconds / 2) as wire:
        known_hosts = tmp_path / "known"
        text = fetching.server.known_hosts_path.read_text()
        known_hosts.write_text(text.replace(f":{fetching.server.port} ", f":{wire.port} "))
        place = fetching.place(source)
        ended = fetching.run(place, "--port", str(wire.port), "--known-hosts", str(known_hosts))
    assert ended.status == 0, ended.errors
    assert ended.figures["seconds"] / round_trip_seconds < 14  # ten or eleven; twice as many when each step waited


@pytest.mark.parametrize("name", [b"-rf", b"with 'quotes' \"and\" space", b"two\nlines", b"\xff\xfe.tar", b"a:b@c"])
def test_names_that_tools_trip_over_land_as_they_are(fetching_here: Fetching, tmp_path: Path, name: bytes) -> None:
    content = noise(100_001)
    ended = fetching_here.run(fetching_here.place(_source(tmp_path, content, name)))
    assert ended.status == 0, ended.errors
    assert [os.fsencode(one) for one in fetching_here.names()] == [name]
    assert (fetching_here.landing / os.fsdecode(name)).read_bytes() == content


def test_an_empty_file_and_a_path_relative_to_home(fetching_here: Fetching, tmp_path: Path) -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir  # sessions begin there, whatever HOME says
    relative = os.path.relpath(_source(tmp_path, b"", b"empty"), home)
    ended = fetching_here.run(fetching_here.place(relative))
    assert ended.status == 0, ended.errors
    assert (fetching_here.landing / "empty").read_bytes() == b""
    assert ended.figures["sha256"] == hashlib.sha256(b"").hexdigest()


def test_without_json_a_checksum_line_is_printed(fetching_here: Fetching, tmp_path: Path) -> None:
    source = _source(tmp_path, b"abc")
    options = ["--port", str(fetching_here.server.port), "--key", str(fetching_here.server.key_path)]
    ended = fetching_here.run(
        fetching_here.place(source), *options, "--known-hosts", str(fetching_here.server.known_hosts_path), usual=False
    )
    assert ended.status == 0, ended.errors
    assert ended.out == f"{hashlib.sha256(b'abc').hexdigest()}  {fetching_here.landing}/model.tar\n"


def test_a_second_run_compares_digests_and_fetches_nothing(fetching_here: Fetching, tmp_path: Path) -> None:
    source = _source(tmp_path, noise(MIB), b":smile: [red]x[bold]")
    assert fetching_here.run(fetching_here.place(source)).status == 0
    ended = fetching_here.run(fetching_here.place(source))
    assert ended.status == 0 and "its SHA-256 is the source's. Nothing was fetched" in ended.errors
    assert "/:smile: [red]x[bold]”" in ended.errors
    assert ended.figures["verified"] is True and ended.figures["refetched_bytes"] == 0


def test_a_partial_file_that_lies_here_is_taken_over(fetching_here: Fetching, tmp_path: Path) -> None:
    content = noise(6 * MIB)
    left = tmp_path / "model.tar.part"
    left.write_bytes(content[: 4 * MIB] + b"x")
    place = fetching_here.place(_source(tmp_path, content))
    ended = fetching_here.run(place, "--adopt", str(left))
    assert ended.status == 0, ended.errors
    assert "4,194,304 were copied and are not fetched" in ended.errors
    assert (fetching_here.landing / "model.tar").read_bytes() == content and left.stat().st_size == 4 * MIB + 1
    refused = fetching_here.run(place, "--adopt", str(tmp_path / "nothing"), "--to", str(tmp_path))
    assert refused.status == 1 and "cannot be taken over" in refused.errors and "Traceback" not in refused.errors


def test_an_address_of_ip_version_six_stands_in_brackets(
    make_sshd: Callable[..., Sshd], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = make_sshd(config=["ListenAddress ::1"])
    known_hosts = server.known_hosts_path.read_text().replace("[127.0.0.1]", "[::1]")
    server.known_hosts_path.write_text(known_hosts)
    fetching = Fetching(server, tmp_path, capsys=capsys)
    ended = fetching.run(f"{server.username}@[::1]:{_source(tmp_path, b'abc')}")
    assert ended.status == 0, ended.errors
    assert (fetching.landing / "model.tar").read_bytes() == b"abc"


def test_the_agents_key_serves_without_a_key_option(
    fetching_here: Fetching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("ssh-agent", "ssh-add")
    server, address = fetching_here.server, tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(address)], stdout=subprocess.DEVNULL)
    try:
        _wait_for(address.exists)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(address))
        monkeypatch.setenv("HOME", str(tmp_path))
        subprocess.run(["ssh-add", "-q", str(server.key_path)], check=True, timeout=10)
        options = ["--port", str(server.port), "--known-hosts", str(server.known_hosts_path)]
        ended = fetching_here.run(fetching_here.place(_source(tmp_path, b"abc")), *options, usual=False)
        assert ended.status == 0, ended.errors
    finally:
        agent.kill()
        agent.wait()


def test_an_interrupt_while_signing_in_ends_at_once(fetching: Fetching, tmp_path: Path) -> None:
    with socket.socket() as silent:  # takes connections and never says a word
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        known = fetching.server.known_hosts_path.read_text().replace(str(fetching.server.port), str(port))
        (tmp_path / "known").write_text(known)
        process = fetching.start(fetching.place("/x"), "--port", str(port), "--known-hosts", str(tmp_path / "known"))
        silent.settimeout(20)
        connection = silent.accept()[0]
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
        connection.close()
    assert time.monotonic() - begun < 4.0
    assert process.returncode == 130 and not out and errors.startswith("Stopped. Nothing had arrived")


@pytest.mark.parametrize("here", [b"x" * 100, None], ids=["another size", "the same size"])
def test_another_file_of_that_name_is_never_overwritten(
    fetching_here: Fetching, tmp_path: Path, here: bytes | None
) -> None:
    source = _source(tmp_path, noise(MIB))
    other = here or noise(MIB, 2)
    (fetching_here.landing / "model.tar").write_bytes(other)
    ended = fetching_here.run(fetching_here.place(source))
    assert ended.status == 1 and "never overwritten" in ended.errors and "Traceback" not in ended.errors
    assert (fetching_here.landing / "model.tar").read_bytes() == other and fetching_here.names() == ["model.tar"]


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_random_moments_cost_little_and_end_in_the_right_bytes(
    slowly: Fetching, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    content = noise(10 * MIB + 5, seed)
    source = _source(tmp_path, content)
    for _ in range(2):
        before = _cells(slowly, source)
        process = slowly.start(slowly.place(source), "--lanes", "4")
        wanted = before + rng.randint(1, 60)
        _wait_for(lambda wanted=wanted, p=process: _cells(slowly, source) >= wanted or p.poll() is not None)  # type: ignore[misc]
        time.sleep(rng.random() * 0.3)
        process.kill()
        process.communicate()
        assert not (slowly.landing / "model.tar").exists()
    here = _cells(slowly, source)
    assert here > 0
    ended = slowly.run(slowly.place(source), "--lanes", "4")
    assert ended.status == 0, ended.errors
    assert "Goes on from what an earlier run brought" in ended.errors
    assert (slowly.landing / "model.tar").read_bytes() == content
    assert ended.figures["sha256"] == hashlib.sha256(content).hexdigest()
    assert ended.figures["refetched_bytes"] <= 4 * 256 * 1024
    assert slowly.names() == ["model.tar"]


def test_killed_lanes_and_a_restarted_server_end_in_the_right_bytes(slowly: Fetching, tmp_path: Path) -> None:
    content = noise(10 * MIB)
    source = _source(tmp_path, content)
    process = slowly.start(slowly.place(source), "--lanes", "4")
    _wait_for(lambda: _cells(slowly, source) * CELL_BYTES > MIB)
    slowly.server.kill_children()
    _wait_for(lambda: _cells(slowly, source) * CELL_BYTES > 4 * MIB)
    slowly.server.restart()
    out, errors = process.communicate(timeout=60)
    ended = Ended(process.returncode, out, errors)
    assert ended.status == 0, errors
    assert (slowly.landing / "model.tar").read_bytes() == content
    assert ended.figures["reconnects"] >= 4
    assert ended.figures["refetched_bytes"] <= 2 * 4 * 256 * 1024


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_came_and_says_how_to_go_on(
    slowly: Fetching, tmp_path: Path, number: signal.Signals
) -> None:
    source = _source(tmp_path, noise(30 * MIB))
    process = slowly.start(slowly.place(source), "--lanes", "2")
    _wait_for(lambda: _cells(slowly, source) > 10)
    time.sleep(1.0)
    begun = time.monotonic()
    process.send_signal(number)
    out, errors = process.communicate(timeout=20)
    assert time.monotonic() - begun < 4.0
    assert process.returncode == 130 and not out
    assert "are kept; the same command goes on from there" in errors and "Traceback" not in errors
    assert _cells(slowly, source) > 10 and _incoming(slowly, source).exists()


def test_two_commands_for_one_place_do_not_meet(slowly: Fetching, tmp_path: Path) -> None:
    source = _source(tmp_path, noise(40 * MIB))
    first = slowly.start(slowly.place(source), "--lanes", "1")  # a minute's work
    _wait_for(lambda: _cells(slowly, source) > 5)
    second = slowly.run(slowly.place(source))
    assert second.is_one_sentence_without_traceback() and "Another process is fetching" in second.errors
    assert first.poll() is None and not (slowly.landing / "model.tar").exists()


def test_a_source_that_changed_between_two_runs_is_told_and_only_its_blocks_are_fetched(
    slowly: Fetching, tmp_path: Path
) -> None:
    content = bytearray(noise(8 * MIB))
    source = _source(tmp_path, bytes(content))
    process = slowly.start(slowly.place(source), "--lanes", "4")
    _wait_for(lambda: _cells(slowly, source) * CELL_BYTES > 4 * MIB)
    process.kill()
    process.communicate()
    here = _cells(slowly, source) * CELL_BYTES
    content[:10] = b"0123456789"
    content += b"and more"
    source.write_bytes(bytes(content))
    ended = slowly.run(slowly.place(source), "--lanes", "4")
    assert ended.status == 0, ended.errors
    assert "The source changed since the last run" in ended.errors and "bytes long" in ended.errors
    assert (slowly.landing / "model.tar").read_bytes() == bytes(content)
    assert here > 3 * MIB
    assert slowly.names() == ["model.tar"]


def test_a_source_that_changes_in_mid_fetch_is_named_and_not_called_verified(slowly: Fetching, tmp_path: Path) -> None:
    source = _source(tmp_path, noise(8 * MIB))
    process = slowly.start(slowly.place(source), "--lanes", "2")
    _wait_for(lambda: _cells(slowly, source) * CELL_BYTES > MIB)
    with source.open("r+b") as file:
        file.seek(7 * MIB)
        file.write(b"changed")
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and not out, errors
    assert "The source changed" in errors and "model.tar" in errors and "Traceback" not in errors
    assert not (slowly.landing / "model.tar").exists()
    again = slowly.run(slowly.place(source), "--lanes", "8")
    assert again.status == 0, again.errors
    assert (slowly.landing / "model.tar").read_bytes() == source.read_bytes()


def test_damage_on_the_disk_is_found_by_reading_back_and_repaired(slowly: Fetching, tmp_path: Path) -> None:
    content = noise(5 * MIB)
    source = _source(tmp_path, content)
    process = slowly.start(slowly.place(source), "--lanes", "2")
    _wait_for(lambda: _cells(slowly, source) * CELL_BYTES > MIB)
    process.kill()
    process.communicate()
    with _incoming(slowly, source).open("r+b") as file:
        file.write(b"damaged")
    ended = slowly.run(slowly.place(source), "--lanes", "8")
    assert ended.status == 0, ended.errors
    assert (slowly.landing / "model.tar").read_bytes() == content
    if "do not match" in ended.errors:  # the first cells had come when the file was damaged
        assert ended.figures["refetched_bytes"] >= MIB // 2
