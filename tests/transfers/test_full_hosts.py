"""A host whose staging disk fills while a pack is made: told, cleared of what is half made, and tried again."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from calculet.actors import Actor
from calculet.people.models import Person
from tests.engine.disks import small_disk
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd
from tests.transfers import jobs
from transfers.models import Build, BuildState
from transfers.services.builds import build_retry
from transfers.services.packing import pack_run

pytestmark = pytest.mark.django_db

SIZE_BYTES = 24_000_000
HALF_BYTES = 15_000_000


def fill_while_packing(disk: Path) -> threading.Thread:
    """Leave room for about half of the archive as soon as it is begun."""

    def fill() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not any((disk / "staging").glob("*.tar*.partial")):
            time.sleep(0.0005)
        found = os.statvfs(disk)
        with (disk / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - HALF_BYTES)

    thread = threading.Thread(target=fill)
    thread.start()
    return thread


def until_failed(build: Build) -> None:
    for _ in range(5):
        pack_run(build.pk)
        build.refresh_from_db()
        if build.state == BuildState.FAILED:
            return
    raise AssertionError(f"it is {build.state}: {build.problem}")


def test_a_staging_disk_that_fills_while_packing_is_told_and_holds_nothing_half_made_when_tried_again(
    sshd: Sshd, tmp_path: Path, alice: Person, bob: Person
) -> None:
    jobs.landing_make(tmp_path / "home")
    tree = tmp_path / "far"
    tree.mkdir()
    (tree / "blob").write_bytes(os.urandom(SIZE_BYTES))
    with small_disk(tmp_path / "disk", SIZE_BYTES * 3 // 2) as disk:
        host = host_make(sshd, alice, staging_path=str(disk / "staging"))
        resource = resource_make(host, alice, tree)
        jobs.scan(resource, alice)
        (build,) = jobs.approve(jobs.propose(host, alice, ("p", "archive", [resource])), bob)
        filling = fill_while_packing(disk)
        until_failed(build)
        filling.join()
        assert "0 bytes free" in build.problem or "o space left" in build.problem
        (disk / "filler").unlink()
        # Were the half-made archive kept, there would not be room for another one.
        build_retry(build=build, actor=Actor.of(alice))
        jobs.bring_home([build])
        assert build.state == BuildState.OPENED, build.problem
        assert not list((disk / "staging").glob("*.partial"))
