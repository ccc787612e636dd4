"""Taking, keeping and giving back leases.

A lease is one row. Whoever takes it raises its fence; every later write of a run act happens in a transaction that
begins with `lease_hold`, so an owner that was away too long (stopped, swapped out, cut off) is refused and can spoil
nothing. Times are the database server's clients' clocks; a silence of `LEASE_SILENCE_SECONDS` makes a lease free,
and so does a heartbeat from far ahead: it was written before a clock was set back, and would otherwise hold until then.
"""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from calculet.leases.models import Lease

LEASE_SILENCE_SECONDS = 20.0
CLOCK_AHEAD_SECONDS = 600.0  # clocks of machines that work together differ by less


class LeaseTaken(Exception):
    """Another owner holds the lease by now."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"The lease “{self.name}” was taken over by another worker; this one stops, and nothing it proved is lost."
        )


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as its present owner knows it."""

    name: str
    owner: str
    fence: int


def lease_acquire(*, name: str) -> Held | None:
    """Take a lease that is free or silent; None when somebody else holds it. Any stop request before is forgotten."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    now = timezone.now()
    Lease.objects.get_or_create(name=name)
    earliest, latest = _heard_between(now)
    silent = Q(heartbeat_at__isnull=True) | Q(heartbeat_at__lt=earliest) | Q(heartbeat_at__gt=latest)
    with transaction.atomic():
        taken = (
            Lease.objects.filter(name=name)
            .filter(Q(owner="") | silent)
            .update(owner=owner, fence=F("fence") + 1, heartbeat_at=now, stop_requested=False)
        )
        if not taken:
            return None
        return Held(name, owner, Lease.objects.values_list("fence", flat=True).get(name=name))


def lease_beat(held: Held) -> bool:
    """Say that the owner is alive; True when it was asked to stop. Raises LeaseTaken."""
    mine = Lease.objects.filter(name=held.name, owner=held.owner, fence=held.fence)
    if not mine.update(heartbeat_at=timezone.now()):
        raise LeaseTaken(held.name)
    return bool(mine.values_list("stop_requested", flat=True).first())


def lease_hold(held: Held) -> None:
    """First statement of a transaction that writes results: locks the lease row until the commit. Raises LeaseTaken."""
    lease = Lease.objects.select_for_update().filter(name=held.name).first()
    if lease is None or (lease.owner, lease.fence) != (held.owner, held.fence):
        raise LeaseTaken(held.name)


def lease_release(held: Held) -> None:
    """Give a lease back, if it is still ours."""
    Lease.objects.filter(name=held.name, owner=held.owner, fence=held.fence).update(owner="", stop_requested=False)


def lease_request_stop(*, name: str) -> None:
    """Ask the present owner, if any, to end its work at the next border."""
    Lease.objects.filter(name=name).exclude(owner="").update(stop_requested=True)


def lease_is_free(*, name: str) -> bool:
    """True when nobody holds the lease or its owner has been silent too long."""
    lease = Lease.objects.filter(name=name).first()
    if lease is None or not lease.owner or lease.heartbeat_at is None:
        return True
    earliest, latest = _heard_between(timezone.now())
    return not earliest <= lease.heartbeat_at <= latest


def _heard_between(now: datetime) -> tuple[datetime, datetime]:
    return now - timedelta(seconds=LEASE_SILENCE_SECONDS), now + timedelta(seconds=CLOCK_AHEAD_SECONDS)


def leases_request_stop_here() -> int:
    """Ask every owner on this machine to end its work at the next border; returns how many were asked."""
    here = Lease.objects.filter(owner__startswith=f"{socket.gethostname()}:", stop_requested=False)
    asked = [lease.name for lease in here]
    for name in asked:
        lease_request_stop(name=name)
    return len(asked)
