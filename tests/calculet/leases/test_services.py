"""One owner at a time: a silent one is replaced, and what it does afterwards is refused."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from calculet.leases.models import Lease
from calculet.leases.services import (
    LEASE_SILENCE_SECONDS,
    Held,
    LeaseTaken,
    lease_acquire,
    lease_beat,
    lease_hold,
    lease_is_free,
    lease_release,
    lease_request_stop,
    leases_request_stop_here,
)

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


def acquire(name: str = "host:1") -> Held:
    held = lease_acquire(name=name)
    assert held is not None
    return held


def fall_silent(name: str = "host:1", *, seconds: float = LEASE_SILENCE_SECONDS + 1) -> None:
    Lease.objects.filter(name=name).update(heartbeat_at=timezone.now() - timedelta(seconds=seconds))


def test_a_lease_has_one_owner() -> None:
    assert lease_is_free(name="host:1")
    acquire()
    assert not lease_is_free(name="host:1")
    assert lease_acquire(name="host:1") is None
    assert lease_acquire(name="host:2") is not None


def test_a_lease_that_was_given_back_is_free_and_its_fence_rises() -> None:
    first = acquire()
    lease_release(first)
    assert lease_is_free(name="host:1")
    second = acquire()
    assert second.fence == first.fence + 1


def test_a_silent_owner_is_replaced_and_refused_from_then_on() -> None:
    first = acquire()
    fall_silent(seconds=LEASE_SILENCE_SECONDS - 5)
    assert lease_acquire(name="host:1") is None, "a short silence is none"
    fall_silent()
    assert lease_is_free(name="host:1")
    second = acquire()
    with pytest.raises(LeaseTaken, match="was taken over by another worker"):
        lease_beat(first)
    with pytest.raises(LeaseTaken), transaction.atomic():
        lease_hold(first)
    lease_release(first)
    assert not lease_is_free(name="host:1"), "the older owner cannot give away what is not its own"
    lease_beat(second)
    with transaction.atomic():
        lease_hold(second)


def test_the_older_owner_is_refused_after_the_newer_gave_back() -> None:
    first = acquire()
    fall_silent()
    lease_release(acquire())
    with pytest.raises(LeaseTaken):
        lease_beat(first)


def test_a_beat_keeps_the_lease() -> None:
    held = acquire()
    fall_silent()
    assert lease_beat(held) is False
    assert lease_acquire(name="host:1") is None


def test_a_stop_reaches_the_owner_and_not_the_next_one() -> None:
    held = acquire()
    lease_request_stop(name="host:1")
    assert lease_beat(held) is True
    lease_release(held)
    assert lease_beat(acquire()) is False


def test_a_stop_of_a_free_lease_does_nothing() -> None:
    lease_release(acquire())
    lease_request_stop(name="host:1")
    assert lease_beat(acquire()) is False


def test_stopping_here_asks_the_owners_of_this_machine_only() -> None:
    here, there = acquire("host:1"), acquire("host:2")
    Lease.objects.filter(name="host:2").update(owner="elsewhere:1:abc")
    assert leases_request_stop_here() == 1
    assert leases_request_stop_here() == 0, "who was asked is not asked again"
    assert lease_beat(here) is True
    assert lease_beat(Held(there.name, "elsewhere:1:abc", there.fence)) is False


@pytest.mark.django_db(transaction=True)
def test_of_many_that_ask_at_once_one_gets_it() -> None:
    Lease.objects.create(name="host:1")
    got: list[Held] = []
    begin = threading.Barrier(6)

    def ask() -> None:
        begin.wait()
        try:
            if held := lease_acquire(name="host:1"):
                got.append(held)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _asker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    assert Lease.objects.get().fence == 1


def test_a_heartbeat_from_before_the_clock_was_set_back_holds_nothing() -> None:
    gone = acquire()
    fall_silent(seconds=-86_400)
    assert lease_is_free(name="host:1")
    assert acquire().fence == gone.fence + 1
    with pytest.raises(LeaseTaken):
        lease_beat(gone)


def test_a_clock_that_is_a_little_ahead_keeps_its_lease() -> None:
    acquire()
    fall_silent(seconds=-60)
    assert not lease_is_free(name="host:1")
    assert lease_acquire(name="host:1") is None
