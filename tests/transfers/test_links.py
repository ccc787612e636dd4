"""A host's link: one owner at a time, problems where people look for them, damage repaired by blocks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from calculet.leases.models import Lease
from calculet.leases.services import lease_acquire, lease_release
from calculet.people.models import Person
from inventory.models import Host
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd
from tests.transfers import jobs
from transfers.models import Build, BuildState, Check, Chunk
from transfers.selectors.specs import landed_path
from transfers.services.links import link_lease_name, link_run
from transfers.services.ticks import due_now
from transfers.services.verification import open_run, verify_run

pytestmark = pytest.mark.django_db

SIZE_BYTES = 20_000_000
RUN_LINK = "import django; django.setup(); from transfers.services.links import link_run; link_run({host})"


@pytest.fixture
def host(sshd: Sshd, alice: Person) -> Host:
    return host_make(sshd, alice)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    jobs.landing_make(tmp_path / "home")
    path = tmp_path / "blob"
    path.write_bytes(os.urandom(SIZE_BYTES))
    return path


def packed(host: Host, source: Path, alice: Person, bob: Person) -> Build:
    resource = resource_make(host, alice, source, kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("blob", "existing", [resource])), bob)
    return jobs.until_packed(build)


@pytest.mark.django_db(transaction=True)
def test_two_links_for_one_host_share_one_lease_and_fetch_once(
    host: Host, source: Path, alice: Person, bob: Person
) -> None:
    build = packed(host, source, alice, bob)
    command = [sys.executable, "-c", RUN_LINK.format(host=host.pk)]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    links = [subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment) for _ in range(2)]
    assert [link.wait(60) for link in links] == [0, 0]
    build.refresh_from_db()
    assert build.state == BuildState.RECEIVED, build.problem
    assert Check.objects.filter(build=build, level="chunk").count() == build.chunks.count()
    lease = Lease.objects.get(name=link_lease_name(host.pk))
    assert lease.owner == ""


def test_a_link_whose_lease_is_held_does_nothing(host: Host, source: Path, alice: Person, bob: Person) -> None:
    build = packed(host, source, alice, bob)
    held = lease_acquire(name=link_lease_name(host.pk))
    assert held is not None
    assert link_run(host.pk) is None
    build.refresh_from_db()
    assert build.state == BuildState.PACKED
    assert host.pk not in due_now().links
    lease_release(held)
    assert host.pk in due_now().links


def test_a_changed_host_key_stops_the_link_with_both_fingerprints(
    sshd: Sshd, host: Host, source: Path, alice: Person, bob: Person
) -> None:
    build = packed(host, source, alice, bob)
    pinned = sshd.pinned.fingerprint
    sshd.change_host_key()
    sshd.restart()
    link_run(host.pk)
    host.refresh_from_db()
    build.refresh_from_db()
    assert pinned in host.problem
    assert host.problem.count("SHA256:") == 2
    assert build.state in (BuildState.PACKED, BuildState.FETCHING)
    assert build.received_bytes == 0


def test_a_source_cut_short_in_between_is_named_and_nothing_is_called_verified(
    host: Host, source: Path, alice: Person, bob: Person
) -> None:
    build = packed(host, source, alice, bob)
    os.truncate(source, SIZE_BYTES // 2)
    link_run(host.pk)
    build.refresh_from_db()
    assert build.state == BuildState.NEEDS_DECISION
    assert "blob" in build.problem
    assert build.deviations[-1]["what"] == "changed"


def test_damage_on_our_disk_is_found_when_read_back_and_repaired_by_blocks(
    host: Host, source: Path, alice: Person, bob: Person
) -> None:
    build = packed(host, source, alice, bob)
    link_run(host.pk)
    incoming = Path(build.landing.path) / build.folder / "blob.incoming"
    with incoming.open("r+b") as file:
        file.seek(3_000_000)
        file.write(b"damage")
    verify_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.FETCHING
    assert "differ when read back" in build.problem
    assert not Chunk.objects.filter(build=build, proven_at__isnull=False).exists()
    summary = link_run(host.pk)
    assert summary is not None
    assert summary.new_bytes <= 2 * 2**20  # the wrong block, and the cell that was forgotten, of 20 MB
    verify_run(build.pk)
    open_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.OPENED, build.problem
    assert landed_path(build).read_bytes() == source.read_bytes()


def test_a_final_name_that_is_taken_is_never_overwritten(host: Host, source: Path, alice: Person, bob: Person) -> None:
    build = packed(host, source, alice, bob)
    link_run(host.pk)
    theirs = Path(build.landing.path) / build.folder / "blob"
    theirs.write_text("somebody else's")
    verify_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.FAILED
    assert "never overwritten" in build.problem
    assert theirs.read_text() == "somebody else's"


def test_verification_that_was_killed_after_the_renaming_carries_on(
    host: Host, source: Path, alice: Person, bob: Person
) -> None:
    build = packed(host, source, alice, bob)
    link_run(host.pk)
    folder = Path(build.landing.path) / build.folder
    (folder / "blob").hardlink_to(folder / "blob.incoming")  # as if killed between the two names
    verify_run(build.pk)
    open_run(build.pk)
    build.refresh_from_db()
    assert build.state == BuildState.OPENED, build.problem
    assert not (folder / "blob.incoming").exists()


def test_a_name_too_long_for_the_disk_is_refused_before_anything_is_fetched(
    host: Host, tmp_path: Path, alice: Person, bob: Person
) -> None:
    jobs.landing_make(tmp_path / "home")
    path = tmp_path / ("n" * 252)
    path.write_bytes(b"x" * 1000)
    build = packed(host, path, alice, bob)
    link_run(host.pk)
    build.refresh_from_db()
    assert build.state == BuildState.FAILED
    assert "names of up to 255 bytes" in build.problem
