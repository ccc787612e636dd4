"""A host's link: one worker at a time brings what the plan asks for."""

from __future__ import annotations

import logging

from django.db import DatabaseError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.leases.services import Held, LeaseTaken, lease_acquire, lease_hold, lease_release
from inventory.connect import open_remote
from inventory.models import Host
from inventory.remote.base import RemoteError
from transfers.engine.clock import SystemClock
from transfers.engine.linkstate import LinkLimits
from transfers.engine.runner import run_link
from transfers.engine.types import LeaseLost, LinkSummary
from transfers.ledger import SAMPLES_KEPT, RowLedger
from transfers.models import GoodputMinute, GoodputSample, LinkStatus

log = logging.getLogger(__name__)


def link_lease_name(host_id: int) -> str:
    """The lease of a host's link."""
    return f"host:{host_id}"


def link_run(host_id: int) -> LinkSummary | None:
    """Fetch until there is no work, a stop, or an error that stands. Safe to run twice: the lease decides."""
    held = lease_acquire(name=link_lease_name(host_id))
    if held is None:
        return None
    try:
        host = Host.objects.filter(pk=host_id).first()
        return _run(host, held) if host is not None else None
    finally:
        lease_release(held)


def _run(host: Host, held: Held) -> LinkSummary | None:
    for measured in (GoodputSample, GoodputMinute):
        measured.objects.filter(host=host, at__lt=timezone.now() - SAMPLES_KEPT).delete()
    try:
        remote = open_remote(host)
        try:
            limits = LinkLimits(no_data_seconds=float(host.no_data_timeout_seconds))
            summary = run_link(remote, RowLedger(host, held), SystemClock(), limits=limits)
        finally:
            remote.close()
    except LeaseLost:
        log.info("The link of %s was taken over by another worker; this one ends.", host)
        return None
    except RemoteError as error:
        log.warning("The link of %s ended: %s", host, error)
        _note_end(host, held, str(error))
        return None
    except DatabaseError:
        raise  # nothing can be told where it could be read; the next tick begins again
    except Exception:
        log.exception("The link of %s ended by a fault of the program.", host)
        _note_end(
            host,
            held,
            _(
                "The link ended by a fault of this program; the log of the worker has it. What came is kept, and the "
                "link is begun again."
            ),
        )
        return None
    _note_end(host, held, "")
    return summary


def _note_end(host: Host, held: Held, problem: str) -> None:
    """Say how the link ended, unless another worker has it by now."""
    try:
        with transaction.atomic():
            lease_hold(held)
            Host.objects.filter(pk=host.pk).update(problem=problem)
            LinkStatus.objects.update_or_create(
                host=host,
                defaults={"at": timezone.now(), "bytes_per_second": 0.0, "lanes": [], "problem": problem},
            )
    except LeaseTaken:
        return
