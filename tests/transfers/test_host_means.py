"""What can't be packed on a host is refused when it is planned, and not when it is begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from calculet.people.models import Person
from inventory.models import Host, Resource
from inventory.services import hosts
from tests.hosts import host_make, resource_make
from tests.parts import need
from tests.sshd import Sshd, busybox_folder
from tests.transfers import jobs
from transfers.models import Build, Revision

pytestmark = pytest.mark.django_db


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    jobs.landing_make(tmp_path / "home")
    return jobs.tree_make(tmp_path / "far", nasty=False)


def planned(server: Sshd, person: Person, tree: Path) -> tuple[Host, Resource]:
    """A probed host with a scanned resource."""
    host = host_make(server, person)
    hosts.host_probe_run(host.pk)
    row = resource_make(host, person, tree)
    jobs.scan(row, person)
    return Host.objects.get(pk=host.pk), row


def test_on_a_host_without_a_shell_nothing_is_planned_and_nothing_is_approved(
    make_sshd: Callable[..., Sshd], alice: Person, bob: Person, tree: Path
) -> None:
    server = make_sshd()
    host, row = planned(server, alice, tree)
    revision = jobs.propose(host, alice, ("data", "files", [row]))
    server._config = ["ForceCommand internal-sftp", *server._config]
    server.restart()
    hosts.host_probe_run(host.pk)
    with pytest.raises(ValidationError, match="has SFTP only"):
        jobs.approve(Revision.objects.get(pk=revision.pk), bob)
    with pytest.raises(ValidationError, match="has SFTP only"):
        jobs.propose(host, alice, ("again", "files", [row]))
    assert not Build.objects.exists()


def test_on_a_host_with_busybox_alone_archives_are_refused_and_files_are_not(
    make_sshd: Callable[..., Sshd], alice: Person, tree: Path, tmp_path: Path
) -> None:
    need("busybox")
    host, row = planned(make_sshd(path=str(busybox_folder(tmp_path / "applets"))), alice, tree)
    with pytest.raises(ValidationError, match="tar takes no exact lists of names"):
        jobs.propose(host, alice, ("data", "archive", [row]))
    assert jobs.propose(host, alice, ("data", "files", [row])).digest


@pytest.mark.parametrize("missing", ["has_sha256", "has_stat_format"])
def test_without_digests_at_the_source_nothing_is_planned(sshd: Sshd, alice: Person, tree: Path, missing: str) -> None:
    host, row = planned(sshd, alice, tree)
    assert host.probe is not None
    Host.objects.update(probe={**host.probe, missing: False})
    with pytest.raises(ValidationError, match="can be proven"):
        jobs.propose(Host.objects.get(), alice, ("data", "files", [row]))
