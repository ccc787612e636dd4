"""Digests by policy: what is asked for by itself after a scan, of which files, and how often."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.urls import reverse

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import DigestRun, Resource, Scan, ScanState
from inventory.services import digest_policy, digest_runs, scans
from inventory.services.errors import ValueWrong
from tests.hosts import host_make, resource_make
from tests.inventory.browser import SignedIn
from tests.sshd import Sshd

pytestmark = pytest.mark.django_db
FIELD = "act_key"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    top.mkdir()
    (top / "small").write_bytes(b"12345")
    (top / "large").write_bytes(b"1" * 2000)
    return top


@pytest.fixture
def row(sshd: Sshd, alice: Person, tree: Path) -> Resource:
    return resource_make(host_make(sshd, alice), alice, tree)


def scanned(row: Resource, person: Person) -> Scan:
    scan = scans.scan_request(resource=row, actor=Actor.of(person))
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FINISHED, scan.problem
    return scan


def run_all() -> list[DigestRun]:
    """What a tick would begin, to its end."""
    runs = [DigestRun.objects.get(pk=pk) for pk in digest_policy.digests_ask_due()]
    for run in runs:
        digest_runs.digests_run(run.pk)
        run.refresh_from_db()
        assert run.state == ScanState.FINISHED, run.problem
    return runs


def with_digest(scan: Scan) -> set[bytes]:
    return {one.name.raw for one in scan.entries.filter(sha256__isnull=False)}


def test_nothing_is_taken_without_a_policy(row: Resource, alice: Person) -> None:
    scanned(row, alice)
    assert digest_policy.digests_ask_due() == []


@pytest.mark.databases
def test_each_scan_is_asked_for_once_and_only_files_of_the_size(row: Resource, alice: Person, tree: Path) -> None:
    digest_policy.host_policy_set(host=row.host, policy="over", over_bytes=1000, actor=Actor.of(alice))
    first = scanned(row, alice)
    (run,) = run_all()
    assert with_digest(first) == {b"large"}
    assert (run.requested_by, run.over_bytes, run.files_done, run.files_left) == (None, 1000, 1, 0)
    assert digest_policy.digests_ask_due() == []
    assert Event.objects.filter(act="digests.asked", detail__contains="1000").exists()
    (tree / "grown").write_bytes(b"2" * 1000)
    second = scanned(row, alice)
    (again,) = run_all()
    assert with_digest(second) == {b"large", b"grown"}
    assert again.files_done == 1  # what did not change was not read again


def test_a_resources_own_policy_goes_before_its_hosts(row: Resource, alice: Person) -> None:
    actor = Actor.of(alice)
    scan = scanned(row, alice)
    digest_policy.host_policy_set(host=row.host, policy="all", over_bytes=None, actor=actor)
    digest_policy.resource_policy_set(resource=row, policy="never", over_bytes=None, actor=actor)
    assert digest_policy.digests_ask_due() == []
    digest_policy.resource_policy_set(resource=row, policy="", over_bytes=None, actor=actor)
    run_all()
    assert with_digest(scan) == {b"small", b"large"}


def test_a_run_that_failed_or_is_under_way_is_not_asked_for_again(row: Resource, alice: Person) -> None:
    digest_policy.host_policy_set(host=row.host, policy="all", over_bytes=None, actor=Actor.of(alice))
    scanned(row, alice)
    run = digest_runs.digests_request(resource=row, actor=Actor.of(alice))
    assert digest_policy.digests_ask_due() == []
    digest_runs.digests_cancel(run=run, actor=Actor.of(alice))
    assert digest_policy.digests_ask_due() == []


def test_a_host_without_a_shell_is_passed_over(row: Resource, alice: Person, sshd: Sshd) -> None:
    digest_policy.host_policy_set(host=row.host, policy="all", over_bytes=None, actor=Actor.of(alice))
    sshd._config = ["ForceCommand internal-sftp", *sshd._config]
    sshd.restart()
    scanned(row, alice)
    assert digest_policy.digests_ask_due() == [] and not DigestRun.objects.exists()


def test_setting_a_policy_needs_the_role_and_a_size(row: Resource, alice: Person, carol: Person) -> None:
    with pytest.raises(NotAllowed):
        digest_policy.host_policy_set(host=row.host, policy="all", over_bytes=None, actor=Actor.of(carol))
    with pytest.raises(NotAllowed):
        digest_policy.resource_policy_set(resource=row, policy="all", over_bytes=None, actor=Actor.of(carol))
    for policy in ("over", "often"):
        with pytest.raises(ValueWrong):
            digest_policy.resource_policy_set(resource=row, policy=policy, over_bytes=None, actor=Actor.of(alice))


def test_pages_set_and_show_it(row: Resource, alice: Person, carol: Person, signed_in: SignedIn) -> None:
    scanned(row, alice)
    client = signed_in(alice)
    host_page, resource_page = (
        reverse("inventory:host", args=[row.host.name]),
        reverse("inventory:resource", args=[row.pk]),
    )
    host_act, act = (
        reverse("inventory:host-policy", args=[row.host.name]),
        reverse("inventory:resource-policy", args=[row.pk]),
    )
    client.post(host_act, {"policy": "over", "over_bytes": "1 kB", FIELD: "a" * 32})
    assert "of files of 1.00\xa0kB and more" in client.get(host_page).text
    assert "as the host's policy says" in client.get(resource_page).text.replace("&#x27;", "'")
    answer = client.post(act, {"policy": "over", "over_bytes": "much", FIELD: "b" * 32}, follow=True)
    assert "is no size" in answer.text
    answer = client.post(act, {"policy": "over", "over_bytes": "", FIELD: "c" * 32}, follow=True)
    assert "from which size on" in answer.text
    client.post(act, {"policy": "all", "over_bytes": "", FIELD: "d" * 32})
    assert "Digests by policy: of all files" in client.get(resource_page).text
    run_all()
    assert "by policy" in client.get(resource_page).text
    assert signed_in(carol).post(host_act, {"policy": "never"}).status_code == 403
