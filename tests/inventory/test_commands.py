"""The inventory's commands, as a person types them."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from calculet.people.models import Person
from inventory.models import Host, HostKey, Resource, Scan
from tests.hosts import host_make, key_put, resource_make
from tests.sshd import Sshd

pytestmark = pytest.mark.django_db


def run(*words: str, **options: Any) -> str:
    """What a command prints."""
    out = io.StringIO()
    call_command(*words, stdout=out, **options)
    return out.getvalue()


def test_a_host_is_added_pinned_probed_and_scanned_from_the_command_line(
    sshd: Sshd, alice: Person, tmp_path: Path
) -> None:
    key = key_put(sshd.key_path, f"command-{sshd.port}")
    place = ["--address", "127.0.0.1", "--port", str(sshd.port), "--user", sshd.username, "--key", key]
    assert "pin_host_key far" in run("add_host", "far", *place, "--staging", str(sshd.home / "staging"))

    pinned = run("pin_host_key", "far", "--fingerprint", sshd.pinned.fingerprint)
    assert sshd.pinned.fingerprint in pinned and HostKey.objects.count() == 1

    assert re.search(r"Linux .*free at .*bytes", run("probe", "far"))

    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "one").write_bytes(b"123")
    resource_make(Host.objects.get(), alice, tmp_path / "top")
    assert run("scan", "far", "tree") == "tree: 1 files, 1 folders, 0 links, 3 bytes\n"
    assert run("scan", "far", "--all", as_person="alice").startswith("tree: 1 files")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["probe", "nowhere"], "no host called “nowhere”"),
        (["scan", "nowhere", "--all"], "no host called “nowhere”"),
        (["pin_host_key", "nowhere"], "no host called “nowhere”"),
        (["probe", "nowhere", "--as", "nobody"], "no active person called “nobody”"),
        (["add_host", "x", "--address", "a", "--user", "u", "--staging", "not/absolute"], "must be absolute"),
        (["add_host", "x", "--address", "a", "--user", "u", "--staging", "/s", "--key", "../k"], "outside the key dir"),
    ],
)
def test_a_wrong_word_gets_one_sentence(alice: Person, words: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        run(*words)
    assert not Host.objects.exists()


def test_a_person_without_the_role_is_refused(carol: Person) -> None:
    with pytest.raises(CommandError, match="“carol” may not do this"):
        run("add_host", "x", "--address", "a", "--user", "u", "--staging", "/s")


def test_another_fingerprint_than_the_expected_pins_nothing(sshd: Sshd, alice: Person) -> None:
    host_make(sshd, alice, pin=False)
    with pytest.raises(CommandError, match="Nothing was pinned"):
        run("pin_host_key", "far", "--fingerprint", "SHA256:expected")
    assert not HostKey.objects.exists()


@pytest.mark.parametrize(("answer", "count"), [("n", 0), ("", 0), ("y", 1), ("YES ", 1)])
def test_without_a_fingerprint_it_asks_and_takes_only_a_yes(
    sshd: Sshd, alice: Person, monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    host_make(sshd, alice, pin=False)
    monkeypatch.setattr("builtins.input", lambda _question: answer)
    if count:
        run("pin_host_key", "far")
    else:
        with pytest.raises(CommandError, match="Nothing was pinned"):
            run("pin_host_key", "far")
    assert HostKey.objects.count() == count


def test_probing_a_host_that_is_off_ends_with_its_sentence(sshd: Sshd, alice: Person) -> None:
    host_make(sshd, alice)
    sshd.stop()
    with pytest.raises(CommandError, match="cannot be reached"):
        run("probe", "far")


def test_a_scan_that_fails_does_not_keep_the_others_from_being_done(sshd: Sshd, alice: Person, tmp_path: Path) -> None:
    host = host_make(sshd, alice)
    resource_make(host, alice, "/no/such/place", name="a gone one", position=1)
    resource_make(host, alice, tmp_path, name="b here", position=2)
    with pytest.raises(CommandError, match=r"a gone one: .*/no/such/place"):
        run("scan", "far", "--all")
    assert Resource.objects.get(name="b here").size_bytes is not None


@pytest.mark.parametrize("words", [["far"], ["far", "tree", "--all"], ["far", "unknown"]])
def test_scan_needs_one_known_resource_or_all(sshd: Sshd, alice: Person, words: list[str]) -> None:
    host_make(sshd, alice)
    with pytest.raises(CommandError, match=r"Nothing was (scanned|changed)"):
        run("scan", *words)
    assert not Scan.objects.exists()
