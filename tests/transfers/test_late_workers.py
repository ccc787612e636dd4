"""Workers that were away too long, and steps that end by a fault: nothing is doubled, nothing loops in silence."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from calculet.actors import Actor
from calculet.leases.models import Lease
from calculet.leases.services import LEASE_SILENCE_SECONDS
from calculet.people.models import Person
from inventory.models import Host
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd
from tests.transfers import jobs
from transfers.engine import landing
from transfers.evidence.reports import report_write
from transfers.ledger import RowLedger
from transfers.models import Build, BuildState, LinkStatus, Report, UnpackState
from transfers.selectors.specs import build_folder
from transfers.services import links, reports, unpacks
from transfers.services.links import link_run
from transfers.services.reports import report_make, report_run
from transfers.services.ticks import due_now
from transfers.services.unpacks import unpack_request, unpack_run
from transfers.services.verification import open_run, verify_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def host(sshd: Sshd, alice: Person) -> Host:
    return host_make(sshd, alice)


@pytest.fixture
def packed(host: Host, tmp_path: Path, alice: Person, bob: Person) -> Build:
    jobs.landing_make(tmp_path / "home")
    archive = jobs.tar_gz(tmp_path / "base.tar.gz", {"one": b"1" * 5000, "two": os.urandom(300_000)})
    resource = resource_make(host, alice, archive, kind="archive")
    jobs.scan(resource, alice)
    (build,) = jobs.approve(jobs.propose(host, alice, ("base", "existing", [resource])), bob)
    return jobs.until_packed(build)


@pytest.fixture
def opened(packed: Build) -> Build:
    link_run(packed.pack.plan.host_id)
    verify_run(packed.pk)
    open_run(packed.pk)
    packed.refresh_from_db()
    assert packed.state == BuildState.OPENED, packed.problem
    return packed


def silence() -> None:
    """The owners of all leases stood still for longer than a lease lasts."""
    Lease.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=LEASE_SILENCE_SECONDS + 1))


def report_folders(build: Build) -> list[str]:
    return sorted(path.name for path in build_folder(build).iterdir() if "report" in path.name)


def during_the_writing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen after the first report was written and before it is noted."""
    waiting = [act]

    def write(*arguments: Any) -> bytes:
        raw = report_write(*arguments)
        if waiting:
            waiting.pop()()
        return raw

    monkeypatch.setattr(reports, "report_write", write)


def test_a_report_whose_worker_was_away_too_long_is_not_noted_a_second_time(
    opened: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_worker() -> None:
        silence()
        report_run(opened.pk)

    during_the_writing(monkeypatch, another_worker)
    report_run(opened.pk)
    report = Report.objects.get(build=opened)
    assert report_folders(opened) == ["report-1"]
    raw = (build_folder(opened) / "report-1" / "report.json").read_bytes()
    assert hashlib.sha256(raw).hexdigest() == report.digest


def test_two_reports_that_are_made_at_once_get_a_folder_each(
    opened: Build, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    during_the_writing(monkeypatch, lambda: report_make(build=opened, actor=Actor.of(alice)))
    report_make(build=opened, actor=Actor.of(alice))
    assert report_folders(opened) == ["report-1", "report-2"]
    for report in Report.objects.filter(build=opened):
        raw = (Path(opened.landing.path) / report.folder / "report.json").read_bytes()
        assert hashlib.sha256(raw).hexdigest() == report.digest


def test_a_report_folder_of_a_killed_attempt_is_in_nobodys_way(opened: Build) -> None:
    half = build_folder(opened) / "report-1"
    half.mkdir()
    (half / "report.html").write_text("half")
    report_run(opened.pk)
    assert Report.objects.get(build=opened).folder.endswith("report-1")
    assert (half / "report.json").exists()


def test_an_unpacking_that_ends_by_a_fault_is_told_and_not_begun_again_and_again(
    opened: Build, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(unpacks, "unpack_file", fault)
    act = unpack_request(build=opened, actor=Actor.of(alice))
    unpack_run(act.pk)
    act.refresh_from_db()
    assert act.state == UnpackState.FAILED
    assert "fault of this program" in act.problem
    assert act.pk not in due_now().unpacks


def test_a_link_that_ends_by_a_fault_is_told_and_pauses(
    packed: Build, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(links, "run_link", fault)
    assert host.pk in due_now().links
    assert link_run(host.pk) is None
    host.refresh_from_db()
    assert "fault of this program" in host.problem
    assert host.pk not in due_now().links


def test_a_build_that_is_replaced_as_its_last_byte_comes_does_not_end_the_link(
    packed: Build, host: Host, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = RowLedger.record_received

    def replaced_first(ledger: RowLedger, key: str) -> None:
        Build.objects.filter(pk=packed.pk).update(state=BuildState.REPLACED)
        received(ledger, key)

    monkeypatch.setattr(RowLedger, "record_received", replaced_first)
    summary = link_run(host.pk)
    assert summary is not None
    host.refresh_from_db()
    packed.refresh_from_db()
    assert host.problem == ""
    assert packed.state == BuildState.REPLACED


def test_a_report_that_waited_for_room_leaves_no_problem_behind(opened: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(reports, "report_write", full)
        report_run(opened.pk)
    opened.refresh_from_db()
    assert "bytes free and more are needed" in opened.problem
    assert opened.not_before is not None
    report_run(opened.pk)
    now = Build.objects.get(pk=opened.pk)
    assert (now.problem, now.not_before) == ("", None)
    assert now.reports.count() == 1


def test_an_unpacking_without_room_says_that_it_has_to_be_asked_for_again(
    opened: Build, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "free_bytes", lambda folder: 10)
    act = unpack_request(build=opened, actor=Actor.of(alice))
    unpack_run(act.pk)
    act.refresh_from_db()
    assert act.state == UnpackState.FAILED
    assert "10 bytes free" in act.problem and act.problem.endswith("asked for again.")


@pytest.mark.parametrize(("ahead", "is_due"), [(timedelta(days=1), True), (timedelta(seconds=30), False)])
def test_a_pause_that_was_set_before_the_clock_was_set_back_is_over(
    packed: Build, host: Host, ahead: timedelta, is_due: bool
) -> None:
    until = timezone.now() + ahead
    Host.objects.filter(pk=host.pk).update(problem="the host was away")
    LinkStatus.objects.update_or_create(host=host, defaults={"at": until})
    assert (host.pk in due_now().links) is is_due
    Build.objects.filter(pk=packed.pk).update(state=BuildState.PACKING, not_before=until)
    assert (packed.pk in due_now().packs) is is_due
    Build.objects.filter(pk=packed.pk).update(state=BuildState.RECEIVED)
    assert (packed.pk in due_now().verifies) is is_due
