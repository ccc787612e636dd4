"""A landed build is read back once more: nothing changes when it is right, and what is damaged is fetched again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from calculet.actors import Actor
from calculet.http import new_act_key
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import Host
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd
from tests.transfers import jobs
from transfers.models import Build, BuildState, Check
from transfers.selectors.specs import landed_path
from transfers.services import verification
from transfers.services.links import link_run
from transfers.services.rechecks import recheck_request, recheck_run
from transfers.services.ticks import due_now
from transfers.services.verification import open_run, verify_run

pytestmark = pytest.mark.django_db
MIB = 2**20
SIZE_BYTES = 6 * MIB + 11


@pytest.fixture
def host(sshd: Sshd, alice: Person) -> Host:
    return host_make(sshd, alice)


@pytest.fixture
def build(host: Host, tmp_path: Path, alice: Person, bob: Person) -> Build:
    """An opened build of one file."""
    jobs.landing_make(tmp_path / "home")
    (tmp_path / "blob").write_bytes(os.urandom(SIZE_BYTES))
    resource = resource_make(host, alice, tmp_path / "blob", kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("blob", "existing", [resource])), bob)
    jobs.bring_home([build])
    assert build.state == BuildState.OPENED
    return build


def _recheck(build: Build, person: Person) -> Build:
    recheck_request(build=build, actor=Actor.of(person))
    assert due_now().rechecks == (build.pk,)
    recheck_run(build.pk)
    build.refresh_from_db()
    assert build.recheck_asked_at is None and due_now().rechecks == ()
    return build


def test_what_is_right_stays_as_it_is_and_a_check_is_kept(
    build: Build, alice: Person, carol: Person, audrey: Person, signed_in: Callable[[Person], Client]
) -> None:
    with pytest.raises(NotAllowed):
        recheck_request(build=build, actor=Actor.of(carol))
    address = reverse("transfers:build-recheck", args=["far", "blob", build.number])
    assert signed_in(audrey).post(address, {"act_key": new_act_key()}).status_code == 403
    page = signed_in(alice).post(address, {"act_key": new_act_key()}, follow=True).content.decode()
    assert "It is being read back." in page
    with pytest.raises(ValidationError):
        recheck_request(build=build, actor=Actor.of(alice))
    recheck_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.OPENED and build.recheck_asked_at is None
    assert Check.objects.get(build=build, level="re-check").outcome == "matched"


def _damage(path: Path, content: bytes, how: str) -> int:
    """Damage a landed file; the bytes that have to come again."""
    if how == "a bit":
        path.write_bytes(content[: 3 * MIB + 5] + bytes([content[3 * MIB + 5] ^ 1]) + content[3 * MIB + 6 :])
        return MIB
    if how == "shorter":
        path.write_bytes(content[: 4 * MIB])
        return 2 * MIB + 11
    if how == "folder gone":
        for one in [one for one in path.parent.iterdir() if one.is_file()]:
            one.unlink()
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(SIZE_BYTES) if how == "zeros of the right size" else b"")
    return SIZE_BYTES


def test_damage_found_later_is_repaired_and_nothing_else_is_fetched(
    build: Build, tmp_path: Path, alice: Person
) -> None:
    path, content = landed_path(build), (tmp_path / "blob").read_bytes()
    for how in ("a bit", "zeros of the right size", "empty", "shorter", "gone", "folder gone"):
        expected = _damage(path, content, how)
        _recheck(build, alice)
        assert build.state == BuildState.FETCHING and "differ when read back" in build.problem, how
        summary = link_run(build.pack.plan.host_id)
        assert summary is not None and summary.new_bytes == expected, how
        verify_run(build.pk)
        open_run(build.pk)
        build.refresh_from_db()
        assert build.state == BuildState.OPENED, (how, build.problem)
        assert path.read_bytes() == content, how


def test_damage_whose_source_changed_is_stated_and_what_is_right_is_kept(
    build: Build, tmp_path: Path, alice: Person
) -> None:
    path, content = landed_path(build), (tmp_path / "blob").read_bytes()
    damaged = content[: 3 * MIB] + b"damage" + content[3 * MIB + 6 :]
    path.write_bytes(damaged)
    (tmp_path / "blob").write_bytes(os.urandom(SIZE_BYTES))
    _recheck(build, alice)
    link_run(build.pack.plan.host_id)
    build.refresh_from_db()
    assert build.state == BuildState.NEEDS_DECISION
    assert "source changed" in build.problem and "blob" in build.problem
    assert (path.parent / "blob.incoming").stat().st_size == SIZE_BYTES


def test_the_row_says_verified_only_after_the_data_their_name_and_the_folder_are_on_the_disk(
    host: Host, tmp_path: Path, alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.landing_make(tmp_path / "home")
    (tmp_path / "blob").write_bytes(os.urandom(SIZE_BYTES))
    resource = resource_make(host, alice, tmp_path / "blob", kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("blob", "existing", [resource])), bob)
    jobs.until_packed(build)
    link_run(host.pk)
    steps: list[str] = []
    for owner, name in ((os, "link"), (os, "fsync"), (os, "fdatasync"), (verification, "advance")):
        monkeypatch.setattr(owner, name, _noting(getattr(owner, name), name, steps))
    verify_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.VERIFIED
    named = steps.index("link")
    assert {"fsync", "fdatasync"} & set(steps[:named]), "the data first"
    assert steps[named + 1] == "fsync" and steps[-1] == "advance", "then the folder, and the row last of all"


def _noting(real: Callable[..., Any], name: str, steps: list[str]) -> Callable[..., Any]:
    def call(*words: Any, **named: Any) -> Any:
        steps.append(name)
        return real(*words, **named)

    return call
