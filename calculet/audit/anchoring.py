"""Anchoring the head of the chain: once a day by the tick, and now by command.

The row comes first and fixes the line, so that the same line is written, posted and mailed however often it is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, timedelta
from pathlib import Path
from time import monotonic

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from calculet.actors import SYSTEM, Actor
from calculet.audit import delivery
from calculet.audit.anchors import AnchorLine, KeyWrong, anchor_signed, signing_key
from calculet.audit.chain import Verdict
from calculet.audit.models import Anchor, Head, Walk
from calculet.audit.services import record
from calculet.audit.walks import verdict_now, walk_keep
from calculet.leases.services import Held, LeaseTaken, lease_acquire, lease_beat, lease_release
from calculet.private_files import PrivateFileWrong, private_bytes

ANCHORED = "audit.anchored"
LEASE = "audit:anchor"
TRIED_AGAIN = timedelta(minutes=5)
_BEAT_SECONDS = 5.0


class ChainBroken(Exception):
    """A chain that does not hold is not anchored. `verdict` says where it breaks."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict)
        self.verdict = verdict

    def __str__(self) -> str:
        return f"{self.verdict} It was not anchored."


class AnchoringElsewhere(Exception):
    """Another process anchors at this moment."""

    def __str__(self) -> str:
        return "Another process anchors the audit log at this moment. Nothing was done; try again in a minute."


def anchors_due() -> list[int]:
    """The day (UTC, as its ordinal number) whose anchor is to be made or delivered now; empty when there is none."""
    now = timezone.now()
    today = now.astimezone(UTC).date()
    made = Anchor.objects.filter(day=today).first()
    if made is not None:
        is_due = _undelivered(made) and (made.not_before is None or made.not_before <= now)
        return [today.toordinal()] if is_due else []
    if Walk.objects.filter(pk=1, broken_at__isnull=False).exists():
        return []  # told on the page; a chain that does not hold is not anchored
    return [today.toordinal()] if Head.objects.filter(pk=1, sequence__gt=0).exists() else []


def anchor_run(day: int) -> None:
    """Make and deliver the anchor of a day, given as its ordinal number, once. May run twice, at once or later."""
    held = lease_acquire(name=LEASE)
    if held is None:
        return
    try:
        when = date.fromordinal(day)
        anchor = Anchor.objects.filter(day=when).first() or _make(when, SYSTEM, held)
        if anchor is not None:
            _deliver(anchor)
    except (ChainBroken, LeaseTaken):
        return  # what was found is kept, and pages tell it; or another worker goes on
    finally:
        lease_release(held)


def anchor_now(*, actor: Actor) -> Anchor:
    """Make an anchor at once, beside those of the days, and deliver it. The row says what could not be delivered.

    For a command on this machine, whose account owns the files anyway. Raises ChainBroken, AnchoringElsewhere.
    """
    held = lease_acquire(name=LEASE)
    if held is None:
        raise AnchoringElsewhere
    try:
        anchor = _make(None, actor, held)
        if anchor is None:
            raise AnchoringElsewhere
        _deliver(anchor)
    finally:
        lease_release(held)
    return anchor


def _make(day: date | None, actor: Actor, held: Held) -> Anchor | None:
    """Walk the whole chain and keep its head as an anchor; None when another worker made that of the day.

    Raises ChainBroken.
    """
    verdict = verdict_now(_beat_of(held))
    with transaction.atomic():
        walk_keep(verdict, is_from_the_first=True)
    if not verdict.whole or not verdict.links:
        raise ChainBroken(verdict)
    line, unsigned_because = _signed(AnchorLine(timezone.now(), verdict.links, verdict.head))
    try:
        with transaction.atomic():
            anchor = Anchor.objects.create(
                day=day,
                at=line.at,
                sequence=line.sequence,
                hash=line.hash,
                public_key=line.public_key,
                signature=line.signature,
                unsigned_because=unsigned_because,
            )
            record(act=ANCHORED, actor=actor, detail={"event": line.sequence, "hash": line.hash})
    except IntegrityError:
        return None
    return anchor


def _signed(line: AnchorLine) -> tuple[AnchorLine, str]:
    """The line, signed when a key is configured; or why it could not be. An unsigned anchor is better than none."""
    if not settings.ANCHOR_KEY_FILE:
        return line, ""
    try:
        return anchor_signed(line, _key()), ""
    except PrivateFileWrong as error:
        return line, str(error)


def _key() -> Ed25519PrivateKey:
    path = Path(settings.ANCHOR_KEY_FILE)
    content = private_bytes(path, what="the key for anchors")
    try:
        return signing_key(content)
    except KeyWrong as error:
        raise PrivateFileWrong(path, "the key for anchors", str(error)) from error


def our_public_keys() -> list[str]:
    """The public half of the configured key, in hexadecimal digits; none when there is no key that can be used."""
    if not settings.ANCHOR_KEY_FILE:
        return []
    try:
        return [_key().public_key().public_bytes_raw().hex()]
    except PrivateFileWrong:
        return []


def line_of(anchor: Anchor) -> AnchorLine:
    """The anchor as its line."""
    return AnchorLine(anchor.at, anchor.sequence, anchor.hash, anchor.public_key, anchor.signature)


def _undelivered(anchor: Anchor) -> list[tuple[str, Callable[[AnchorLine], None]]]:
    """Where an anchor still has to go: the field that says so, and the way."""
    ways = (
        ("written_at", True, delivery.write),
        ("posted_at", bool(settings.ANCHOR_WEBHOOK_FILE), delivery.post),
        ("mailed_at", bool(settings.ANCHOR_MAIL_FILE and settings.ANCHOR_MAIL_TO), delivery.mail),
    )
    return [(field, way) for field, is_wanted, way in ways if is_wanted and getattr(anchor, field) is None]


def _deliver(anchor: Anchor) -> None:
    """Bring the anchor wherever it still has to go. What fails is kept as a sentence, and tried again in minutes."""
    problems = []
    for field, way in _undelivered(anchor):
        try:
            way(line_of(anchor))
        except delivery.NotDelivered as error:
            problems.append(str(error))
        else:
            setattr(anchor, field, timezone.now())
    anchor.problem = " ".join(problems)
    anchor.not_before = timezone.now() + TRIED_AGAIN if problems else None
    anchor.save(update_fields=["written_at", "posted_at", "mailed_at", "problem", "not_before"])


def _beat_of(held: Held) -> Callable[[], None]:
    """What keeps the lease during a long walk: a beat every few seconds. Raises LeaseTaken."""
    last = monotonic()

    def beat() -> None:
        nonlocal last
        if monotonic() - last >= _BEAT_SECONDS:
            lease_beat(held)
            last = monotonic()

    return beat
