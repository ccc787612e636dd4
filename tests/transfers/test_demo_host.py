"""The demonstration's host on a machine without zstd: it offers one made in Python, and packs are as good."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from calculet.people.models import Person
from tests.hosts import resource_make
from tests.live.product import SlowHost
from tests.transfers import jobs
from transfers.demo.zstd_stand_in import install_stand_in
from transfers.models import BuildState

pytestmark = pytest.mark.django_db


def path_without_zstd(folder: Path) -> str:
    """A folder of links to all programs of this machine but zstd."""
    folder.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            link = folder / program.name
            if "zstd" not in program.name and not link.is_symlink():
                link.symlink_to(program)
    assert shutil.which("zstd", path=str(folder)) is None
    return str(folder)


def test_a_host_without_zstd_of_its_own_still_compresses(tmp_path: Path, alice: Person, bob: Person) -> None:
    jobs.landing_make(tmp_path / "home")
    tree = jobs.tree_make(tmp_path / "far")
    server = SlowHost(tmp_path, bytes_per_second=50e6, path=path_without_zstd(tmp_path / "programs"))
    install_stand_in(server.folder.programs)
    try:
        host = server.host_make(alice)
        resource = resource_make(host, alice, tree)
        jobs.scan(resource, alice)
        (build,) = jobs.approve(jobs.propose(host, alice, ("tree", "archive", [resource])), bob)
        jobs.bring_home([build])
    finally:
        server.stop()
    assert build.state == BuildState.OPENED, build.problem
    assert build.archive_name == "tree.tar.zst"
