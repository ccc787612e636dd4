"""Scans that are cut half way: by a connection that is killed, and by a worker that is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.services import verify_chain
from calculet.leases.models import Lease
from calculet.people.models import Person
from inventory.models import Entry, Scan, ScanState
from inventory.scan import ScanEntry
from inventory.services import scans
from inventory.services.listing import Listing
from inventory.services.storing import entries_store
from tests.hosts import host_make, resource_make
from tests.sshd import Sshd

COUNT = 3000


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    top.mkdir()
    for number in range(COUNT):
        (top / f"file{number}").touch()
    return top


@pytest.mark.django_db
@pytest.mark.parametrize("config", [[], ["ForceCommand internal-sftp"]], ids=["find", "SFTP"])
def test_a_connection_killed_half_way_costs_the_listing_and_nothing_else(
    make_sshd: Callable[..., Sshd],
    alice: Person,
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: list[str],
) -> None:
    server = make_sshd(config=config)
    monkeypatch.setattr(scans, "_TRY_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr("inventory.services.listing._PIECES_AHEAD", 1)
    monkeypatch.setattr("inventory.services.listing.PIECE_ENTRIES", 10)
    killed: list[int] = []
    given: list[int] = []
    plain = Listing.pieces

    def cut(self: Any) -> Iterator[list[ScanEntry]]:
        given.append(0)
        for piece in plain(self):
            given[-1] += len(piece)
            if not killed and given[-1] > 50:
                killed.append(server.kill_children())
            yield piece

    monkeypatch.setattr(Listing, "pieces", cut)
    scan = scans.scan_request(resource=resource_make(host_make(server, alice), alice, tree), actor=Actor.of(alice))
    scans.scan_run(scan.pk)
    scan.refresh_from_db()
    assert scan.state == ScanState.FINISHED, scan.problem
    assert killed[0] >= 1 and len(given) == 2 and 50 < given[0] < COUNT + 1 == given[1]
    assert (scan.files, scan.entries.count()) == (COUNT, COUNT + 1)


@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_while_it_stores_leaves_nothing_double(
    sshd: Sshd, alice: Person, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = scans.scan_request(resource=resource_make(host_make(sshd, alice), alice, tree), actor=Actor.of(alice))
    connections.close_all()
    worker = os.fork()
    if not worker:
        try:
            monkeypatch.setattr(scans, "STORE_ENTRIES", 100)
            store = entries_store

            def slowly(*given: Any) -> None:
                store(*given)
                time.sleep(0.02)

            monkeypatch.setattr(scans, "entries_store", slowly)
            scans.scan_run(scan.pk)
        finally:
            os._exit(0)
    try:
        deadline = time.monotonic() + 60
        while not 0 < Entry.objects.filter(scan=scan).count() <= COUNT:
            assert time.monotonic() < deadline, "the worker stored nothing"
            time.sleep(0.005)
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
    scan.refresh_from_db()
    stored = Entry.objects.filter(scan=scan).count()
    assert scan.state == ScanState.RUNNING and 0 < stored < COUNT + 1
    assert scans.scans_sweep() == []  # its lease may still be held by somebody alive
    Lease.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    assert scans.scans_sweep() == [scan.pk]
    scans.scan_run(scan.pk)
    scan = Scan.objects.get()
    assert scan.state == ScanState.FINISHED, scan.problem
    assert (scan.files, scan.entries.count()) == (COUNT, COUNT + 1)
    assert verify_chain().whole
