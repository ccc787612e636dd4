"""The chain is walked as it grows, and pages tell what was found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from calculet.actors import SYSTEM
from calculet.audit.anchoring import anchor_now
from calculet.audit.models import Event, Walk
from calculet.audit.walks import anchor_file, chain_follow, verdict_now

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


def test_the_chain_is_followed_as_it_grows_and_a_cut_is_noticed_at_once(tamper: Callable[..., None]) -> None:
    chain_follow()
    walk = Walk.objects.get()
    assert (walk.sequence, walk.hash, walk.broken_at) == (5, Event.objects.get(sequence=5).hash, None)
    anchor_now(actor=SYSTEM)
    chain_follow()
    assert Walk.objects.get().sequence == 6
    anchor_file().unlink()
    digest = Event.objects.get(sequence=3).hash
    tamper("DELETE FROM audit_event WHERE sequence > 3", f"UPDATE audit_head SET sequence = 3, hash = '{digest}'")
    chain_follow()
    walk = Walk.objects.get()
    assert walk.broken_at == 4 and "had been walked up to event 6" in walk.reason
    assert not verdict_now().whole, "the whole walk remembers it too"


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        ("UPDATE audit_event SET actor = 'mallory' WHERE sequence = 5", 5),
        ("DELETE FROM audit_event WHERE sequence = 4", 4),
        ("DELETE FROM audit_event WHERE sequence = 5", 5),
    ],
)
def test_what_is_new_is_verified_as_it_is_followed(tamper: Callable[..., None], statement: str, broken: int) -> None:
    Walk.objects.create(pk=1, sequence=3, hash=Event.objects.get(sequence=3).hash, at=timezone.now())
    tamper(statement)
    chain_follow()
    assert Walk.objects.get().broken_at == broken


def test_a_long_chain_is_followed_in_pieces(chain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calculet.audit.walks.FOLLOWED_AT_ONCE", 2)
    found = []
    for _tick in range(4):
        chain_follow()
        found.append(Walk.objects.get().sequence)
    assert found == [2, 4, 5, 5]
