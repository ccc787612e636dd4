"""Tasks: messages are hints, and whatever becomes of them, the rows decide."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from kombu.exceptions import OperationalError

from calculet.actors import Actor
from calculet.people.models import Person
from inventory import tasks
from inventory.models import Host, Scan, ScanState
from inventory.services import scans
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd

pytestmark = pytest.mark.django_db

Capture = Callable[..., AbstractContextManager[list[Any]]]


class Sent:
    """A task that keeps what it was sent, or a broker that is away."""

    name = "inventory.tasks.run_scan"

    def __init__(self, *, is_away: bool = False) -> None:
        self.ids: list[int] = []
        self._is_away = is_away

    def delay(self, row_id: int) -> None:
        if self._is_away:
            raise OperationalError("no such socket")
        self.ids.append(row_id)


def test_a_task_is_sent_after_the_commit(django_capture_on_commit_callbacks: Capture) -> None:
    sent = Sent()
    with django_capture_on_commit_callbacks(execute=True):
        tasks.send_soon(sent, 7)
        assert sent.ids == []
    assert sent.ids == [7]


def test_a_broker_that_is_away_is_logged_and_breaks_nothing(
    django_capture_on_commit_callbacks: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), django_capture_on_commit_callbacks(execute=True):
        tasks.send_soon(Sent(is_away=True), 7)
    assert "run_scan 7" in caplog.text and "no such socket" in caplog.text


def test_tasks_do_what_their_rows_ask_for_and_may_come_twice(sshd: Sshd, alice: Person, tmp_path: Path) -> None:
    host = host_make(sshd, alice)
    scan = scans.scan_request(resource=resource_make(host, alice, tmp_path), actor=Actor.of(alice))
    for _ in range(2):
        tasks.probe_host(host.pk)
        tasks.run_scan(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FINISHED and Host.objects.get().probe


def test_a_task_whose_row_is_gone_does_nothing(db: None) -> None:
    tasks.probe_host(4711)
    tasks.run_scan(4711)
    assert not Scan.objects.exists()
