"""Bytes on this machine are taken over into a build: compared, shown, copied or taken by consent, and never fetched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from pytest_django.fixtures import Settings

from calculet.actors import Actor
from calculet.lifecycle import StateConflict
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import Host, Resource
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd
from tests.transfers import jobs
from tests.transfers.factories import PlannedHost
from transfers.models import Adoption, AdoptionState, AdoptionWay, Build, BuildState
from transfers.selectors.specs import landed_path
from transfers.selectors.work import builds_to_fetch
from transfers.services.adoptions import adoption_accept, adoption_leave, adoption_request, adoption_run
from transfers.services.builds import build_replace
from transfers.services.links import link_run
from transfers.services.ticks import due_now
from transfers.services.verification import open_run, verify_run

pytestmark = pytest.mark.django_db

MIB = 2**20
SIZE_BYTES = 8 * MIB + 5


@pytest.fixture
def host(sshd: Sshd, alice: Person) -> Host:
    return host_make(sshd, alice)


@pytest.fixture
def left(tmp_path: Path, settings: Settings) -> Path:
    """The folder that files may be taken over from."""
    folder = tmp_path / "left"
    folder.mkdir()
    settings.ADOPT_DIRS = [folder]
    return folder


@pytest.fixture
def build(host: Host, tmp_path: Path, alice: Person, bob: Person) -> Build:
    """A packed build of one existing file."""
    jobs.landing_make(tmp_path / "home")
    (tmp_path / "blob").write_bytes(os.urandom(SIZE_BYTES))
    return _packed(host, tmp_path / "blob", alice, bob)


def _packed(host: Host, source: Path, alice: Person, bob: Person) -> Build:
    resource = resource_make(host, alice, source, kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("blob", "existing", [resource])), bob)
    return jobs.until_packed(build)


def _ask(build: Build, path: Path, person: Person, way: AdoptionWay = AdoptionWay.ASK) -> Adoption:
    return adoption_request(build=build, path=path, way=way, actor=Actor.of(person))


def _run(adoption: Adoption) -> Adoption:
    adoption_run(adoption.pk)
    adoption.refresh_from_db()
    return adoption


def _bring(build: Build, source: Path) -> int:
    """Fetch, verify and open; the bytes that were fetched."""
    summary = link_run(build.pack.plan.host_id)
    assert summary is not None
    verify_run(build.pk)
    open_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.OPENED, build.problem
    assert landed_path(build).read_bytes() == source.read_bytes()
    return summary.new_bytes


def test_a_prefix_is_compared_shown_copied_by_consent_and_not_fetched(
    build: Build, left: Path, tmp_path: Path, alice: Person
) -> None:
    content = (tmp_path / "blob").read_bytes()
    prefix = left / "blob.tar.incoming"
    prefix.write_bytes(content[: 5 * MIB + 1000])
    adoption = _ask(build, prefix, alice)
    assert due_now().adoptions == (adoption.pk,)
    assert not builds_to_fetch(build.pack.plan.host).exists() and due_now().links == ()
    _run(adoption)
    assert adoption.state == AdoptionState.COMPARED
    assert (adoption.offered_bytes, adoption.matched_bytes) == (5 * MIB + 1000, 5 * MIB)
    assert adoption.not_taken == "" and due_now().adoptions == ()
    assert not builds_to_fetch(build.pack.plan.host).exists(), "it waits for a word"
    adoption_accept(adoption=adoption, way=AdoptionWay.COPY, actor=Actor.of(alice))
    _run(adoption)
    assert (adoption.state, adoption.copied_bytes, adoption.had_bytes) == (AdoptionState.FINISHED, 5 * MIB, 0)
    build.refresh_from_db()
    assert build.received_bytes == 5 * MIB
    assert prefix.read_bytes() == content[: 5 * MIB + 1000]
    assert _bring(build, tmp_path / "blob") == 3 * MIB + 5


def test_a_whole_file_is_taken_by_consent_given_beforehand(
    build: Build, left: Path, tmp_path: Path, alice: Person
) -> None:
    whole = left / "blob"
    whole.write_bytes((tmp_path / "blob").read_bytes())
    inode = whole.stat().st_ino
    adoption = _run(_ask(build, whole, alice, AdoptionWay.TAKE))
    assert (adoption.state, adoption.copied_bytes) == (AdoptionState.FINISHED, SIZE_BYTES), adoption.problem
    assert not whole.exists()
    assert _bring(build, tmp_path / "blob") == 0
    assert landed_path(build).stat().st_ino == inode


def test_a_file_that_cannot_be_taken_asks_again_instead_of_being_copied_silently(
    build: Build, left: Path, tmp_path: Path, alice: Person
) -> None:
    whole = left / "blob"
    whole.write_bytes((tmp_path / "blob").read_bytes())
    (left / "second name").hardlink_to(whole)
    adoption = _run(_ask(build, whole, alice, AdoptionWay.TAKE))
    assert adoption.state == AdoptionState.COMPARED and "another name" in adoption.not_taken
    with pytest.raises(ValidationError, match="cannot be taken"):
        adoption_accept(adoption=adoption, way=AdoptionWay.TAKE, actor=Actor.of(alice))


def test_what_matches_nowhere_ends_at_once_and_the_build_is_fetched(
    build: Build, left: Path, tmp_path: Path, alice: Person
) -> None:
    (left / "other").write_bytes(os.urandom(SIZE_BYTES))
    adoption = _run(_ask(build, left / "other", alice))
    assert (adoption.state, adoption.matched_bytes) == (AdoptionState.FINISHED, 0)
    assert due_now().links == (build.pack.plan.host_id,)
    assert _bring(build, tmp_path / "blob") == SIZE_BYTES


def test_left_alone_the_build_is_fetched_and_nobody_can_agree_any_more(
    build: Build, left: Path, tmp_path: Path, alice: Person
) -> None:
    (left / "blob").write_bytes((tmp_path / "blob").read_bytes())
    adoption = _run(_ask(build, left / "blob", alice))
    with pytest.raises(ValidationError, match="already"):
        _ask(build, left / "blob", alice)
    before = Adoption.objects.get(pk=adoption.pk)
    adoption_leave(adoption=adoption, actor=Actor.of(alice))
    with pytest.raises(StateConflict):
        adoption_accept(adoption=before, way=AdoptionWay.COPY, actor=Actor.of(alice))
    assert builds_to_fetch(build.pack.plan.host).exists()


def test_paths_outside_the_named_folders_are_refused(left: Path, tmp_path: Path, alice: Person) -> None:
    build = PlannedHost(alice, tmp_path / "home").add("one", BuildState.PACKED).builds.get()
    (tmp_path / "blob").write_bytes(b"x")
    (left / "link").symlink_to(tmp_path / "blob")
    for path in (tmp_path / "blob", left / "link", left / ".." / "blob", left / "nothing", Path("blob"), Path("\0")):
        with pytest.raises(ValidationError, match="cannot be taken over"):
            _ask(build, path, alice)
    assert not Adoption.objects.exists()


def test_without_the_setting_and_without_the_right_nothing_is_taken_over(
    left: Path, tmp_path: Path, alice: Person, carol: Person, settings: Settings
) -> None:
    build = PlannedHost(alice, tmp_path / "home").add("one", BuildState.PACKED).builds.get()
    (left / "blob").write_bytes(b"x")
    with pytest.raises(NotAllowed):
        _ask(build, left / "blob", carol)
    settings.ADOPT_DIRS = []
    with pytest.raises(ValidationError, match="CALCULET_ADOPT_DIRS"):
        _ask(build, left / "blob", alice)


def test_a_build_that_is_received_takes_nothing_over_any_more(left: Path, tmp_path: Path, alice: Person) -> None:
    build = PlannedHost(alice, tmp_path / "home").add("one", BuildState.RECEIVED).builds.get()
    (left / "blob").write_bytes(b"x")
    with pytest.raises(ValidationError, match="until a build is received"):
        _ask(build, left / "blob", alice)


def test_a_link_put_in_the_files_place_later_is_refused(
    build: Build, left: Path, tmp_path: Path, alice: Person
) -> None:
    (left / "blob").write_bytes((tmp_path / "blob").read_bytes())
    adoption = _ask(build, left / "blob", alice, AdoptionWay.COPY)
    (left / "blob").unlink()
    (left / "blob").symlink_to(tmp_path / "blob")
    _run(adoption)
    assert adoption.state == AdoptionState.FAILED and "does not lie below" in adoption.problem


def test_a_host_that_is_away_is_waited_for(sshd: Sshd, build: Build, left: Path, tmp_path: Path, alice: Person) -> None:
    (left / "blob").write_bytes((tmp_path / "blob").read_bytes()[: 3 * MIB])
    adoption = _ask(build, left / "blob", alice, AdoptionWay.COPY)
    sshd.stop()
    _run(adoption)
    assert adoption.state == AdoptionState.COMPARING and "cannot be reached" in adoption.problem
    assert due_now().adoptions == ()
    sshd.start()
    Adoption.objects.filter(pk=adoption.pk).update(not_before=None)
    assert _run(adoption).state == AdoptionState.FINISHED
    assert adoption.copied_bytes == 3 * MIB


def test_a_new_build_takes_over_every_block_that_is_the_same(
    host: Host, build: Build, tmp_path: Path, alice: Person, bob: Person
) -> None:
    source = tmp_path / "blob"
    assert _bring(build, source) == SIZE_BYTES
    with source.open("r+b") as file:
        file.seek(2 * MIB + 17)
        file.write(b"changed")
    jobs.scan(Resource.objects.get(), alice)
    resource = Resource.objects.get()
    (successor,) = jobs.approve(jobs.propose(host, alice, ("blob", "existing", [resource])), bob)
    jobs.until_packed(successor)
    adoption = Adoption.objects.get()
    assert (adoption.build, adoption.former) == (successor, build)
    assert not builds_to_fetch(host).exists()
    _run(adoption)
    assert (adoption.state, adoption.copied_bytes) == (AdoptionState.FINISHED, SIZE_BYTES - MIB), adoption.problem
    assert _bring(successor, source) == MIB
    assert landed_path(build).exists() and landed_path(build) != landed_path(successor)


def test_a_build_made_anew_takes_over_what_the_replaced_one_had_begun(
    build: Build, left: Path, tmp_path: Path, alice: Person
) -> None:
    (left / "blob").write_bytes((tmp_path / "blob").read_bytes()[: 4 * MIB])
    assert _run(_ask(build, left / "blob", alice, AdoptionWay.COPY)).state == AdoptionState.FINISHED
    build.refresh_from_db()
    successor = jobs.until_packed(build_replace(build=build, actor=Actor.of(alice)))
    adoption = _run(Adoption.objects.get(build=successor))
    assert (adoption.state, adoption.copied_bytes) == (AdoptionState.FINISHED, 4 * MIB), adoption.problem
    assert _bring(successor, tmp_path / "blob") == 4 * MIB + 5
