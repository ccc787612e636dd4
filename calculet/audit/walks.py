"""Walking the chain: the whole of it by a person's act, by command and once a day; what is new, by each tick.

What was found stands in one row (`Walk`), so that pages tell it without walking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from calculet.actors import SYSTEM, Actor
from calculet.audit.anchors import (
    FILE_NAME,
    AnchorFileWrong,
    AnchorLine,
    anchors_read,
    links_noting,
    verdict_against,
)
from calculet.audit.chain import GENESIS, Link, Verdict, verify
from calculet.audit.models import Head, Walk
from calculet.audit.services import VERIFIED, links_in_order, record, verify_chain
from calculet.people.roles import Act, require

BROKEN = "audit.found_broken"
FOLLOWED_AT_ONCE = 5_000  # events that a tick walks; the next one goes on


def anchor_file() -> Path:
    """Where anchors are written."""
    return Path(settings.ANCHOR_DIR) / FILE_NAME


def anchors_here() -> list[AnchorLine]:
    """The anchors in this installation's own file; none when there is no file yet. Raises AnchorFileWrong."""
    path = anchor_file()
    return anchors_read(path) if path.exists() else []


def chain_verify(*, actor: Actor) -> Verdict:
    """Walk the chain, and record the walk and what it found. Raises NotAllowed."""
    require(actor.user, Act.AUDIT_READ)
    verdict = verdict_now()
    with transaction.atomic():
        walk_keep(verdict, is_from_the_first=True, is_told=True)
        found = "" if verdict.whole else str(verdict)
        detail = {"whole": verdict.whole, "events": verdict.links, "head": verdict.head, "found": found}
        record(act=VERIFIED, actor=actor, detail=detail)
    chain_follow()
    return verdict


def verdict_now(beat: Callable[[], None] = lambda: None) -> Verdict:
    """Walk the whole chain, and compare it with its head, with the latest walk and with the anchors of this machine.

    `beat` is called every thousand events. An anchor file that cannot be read counts as a fault.
    """
    walk = Walk.objects.filter(pk=1).first() or Walk(pk=1)
    try:
        anchors = anchors_here()
    except AnchorFileWrong as error:
        return Verdict(0, GENESIS, 1, f"nothing says that it is the one that was anchored. {error}")
    # What an earlier walk found whole is compared as an anchor is: it must still be there.
    if walk.at is not None and walk.sequence:
        anchors.append(AnchorLine(walk.at, walk.sequence, walk.hash))
    return verdict_with(anchors, beat)


def verdict_with(anchors: Iterable[AnchorLine], beat: Callable[[], None] = lambda: None) -> Verdict:
    """Walk the whole chain, and compare it with its head and with the given anchors."""
    anchors, seen = list(anchors), dict[int, str]()
    verdict = verify_chain(links_noting(_beating(links_in_order(), beat), anchors, seen))
    return verdict_against(verdict, anchors, seen)


def chain_follow() -> None:
    """Walk what was added since the latest walk, a few thousand events at most. Made by each tick; may run twice.

    A chain that was found broken is not followed: that stands until a whole walk finds it mended.
    """
    # The walk is read first: a head read later is never behind it, unless somebody set it back.
    walk = Walk.objects.filter(pk=1).first() or Walk(pk=1)
    head = Head.objects.filter(pk=1).first() or Head(pk=1)
    if walk.broken_at is not None or (walk.sequence, walk.hash) == (head.sequence, head.hash):
        return
    if head.sequence <= walk.sequence:
        cut = head.sequence < walk.sequence
        reason = (
            f"the head is at event {head.sequence} now, and the chain had been walked up to event {walk.sequence}."
            if cut
            else "it has another hash now than when it was walked."
        )
        at = head.sequence + 1 if cut else walk.sequence
        verdict = Verdict(at - 1, walk.hash, at, reason)
    else:
        last = min(head.sequence, walk.sequence + FOLLOWED_AT_ONCE)
        verdict = verify(links_in_order(after=walk.sequence, up_to=last), after=walk.sequence, head=walk.hash)
        if verdict.whole and verdict.links < last:
            reason = f"it is missing; the head says that there are {head.sequence:,} events."
            verdict = Verdict(verdict.links, verdict.head, verdict.links + 1, reason)
    with transaction.atomic():
        walk_keep(verdict, is_from_the_first=False)


def walk_keep(verdict: Verdict, *, is_from_the_first: bool, is_told: bool = False) -> None:
    """Keep what a walk found, in the caller's transaction, and never less than a faster one kept.

    A chain that is newly broken is an event, unless the caller tells it in one of its own.
    """
    if not Walk.objects.filter(pk=1).exists():
        Walk.objects.bulk_create([Walk(pk=1)], ignore_conflicts=True)
    walk = Walk.objects.select_for_update().get(pk=1)
    now, was_broken = timezone.now(), walk.broken_at is not None
    if is_from_the_first:
        walk.whole_at = now if verdict.whole else walk.whole_at
    elif was_broken or (verdict.whole and verdict.links < walk.sequence):
        return
    if verdict.whole and verdict.links >= walk.sequence:
        walk.sequence, walk.hash = verdict.links, verdict.head
    walk.at, walk.broken_at, walk.reason = now, verdict.broken_at, verdict.reason
    walk.save()
    if not verdict.whole and not was_broken and not is_told:
        record(act=BROKEN, actor=SYSTEM, detail={"event": verdict.broken_at, "found": str(verdict)})


def _beating(links: Iterable[Link], beat: Callable[[], None]) -> Iterator[Link]:
    for number, link in enumerate(links):
        if number % 1000 == 0:
            beat()
        yield link
