"""The inventory's background work: one id in, one service call, safe to run twice. The rows decide."""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task
from django.db import transaction
from kombu.exceptions import OperationalError

from inventory.services import digest_runs, hosts, inside_runs, overlaps, scans, snapshot_offers, snapshots

logger = logging.getLogger(__name__)

_MESSAGE_LIFE_SECONDS = 60.0  # a scan's sweep sends another; without an end they would gather while a queue is busy


@shared_task  # type: ignore[untyped-decorator]
def probe_host(host_id: int) -> None:
    """See what a host has."""
    hosts.host_probe_run(host_id)


@shared_task(expires=_MESSAGE_LIFE_SECONDS)  # type: ignore[untyped-decorator]
def run_scan(scan_id: int) -> None:
    """Scan a resource, or tidy up after a scan that was given up."""
    scans.scan_run(scan_id)


@shared_task(expires=_MESSAGE_LIFE_SECONDS)  # type: ignore[untyped-decorator]
def run_digests(run_id: int) -> None:
    """Take digests on a host, a turn at a time."""
    digest_runs.digests_run(run_id)


@shared_task(expires=_MESSAGE_LIFE_SECONDS)  # type: ignore[untyped-decorator]
def look_inside(run_id: int) -> None:
    """Look inside archives on a host, a turn at a time."""
    inside_runs.inside_run(run_id)


@shared_task(expires=_MESSAGE_LIFE_SECONDS)  # type: ignore[untyped-decorator]
def measure_overlaps(measure_id: int) -> None:
    """Measure where the same bytes lie twice."""
    overlaps.overlaps_run(measure_id)


@shared_task(expires=_MESSAGE_LIFE_SECONDS)  # type: ignore[untyped-decorator]
def take_snapshot(snapshot_id: int) -> None:
    """Collect what a host is."""
    snapshots.snapshot_run(snapshot_id)


@shared_task(expires=_MESSAGE_LIFE_SECONDS)  # type: ignore[untyped-decorator]
def offer_snapshot(snapshot_id: int) -> None:
    """Write a snapshot's files into staging, to be fetched."""
    snapshot_offers.offer_run(snapshot_id)


def send_soon(task: Any, row_id: int) -> None:
    """Send a task after the commit. A broker that is away is logged, and the act stands: a sweep finds a scan's row,
    and a probe is asked for again."""

    def send() -> None:
        try:
            task.delay(row_id)
        except OperationalError as error:
            logger.warning(
                "The broker could not be told of %s %s, which waits for the sweep: %s", task.name, row_id, error
            )

    transaction.on_commit(send)
