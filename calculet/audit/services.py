"""The only way to write audit events, and their rows as links of a chain that can be verified.

`walks` keeps what verifying finds, `exports` exports, `anchoring` anchors, `selectors` reads for pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.chain import GENESIS, Link, Verdict, canonical_json, link_hash, verify
from calculet.audit.models import Event, Head
from calculet.audit.subjects import host_of, pack_of, text_keep

VERIFIED, EXPORTED = "audit.verified", "audit.exported"
PIECE = 2000  # events that are read at once


def record(
    *,
    act: str,
    actor: Actor,
    subject: models.Model | None = None,
    host: object = "",
    pack: object = "",
    detail: Mapping[str, Any] | None = None,
) -> Event:
    """Add an event to the chain, inside the transaction of the act that it tells.

    Call it once and late: the head of the chain stays locked until the transaction ends. `subject` is the row that was
    acted on; `host` and `pack` are taken from it when they are not given. `detail` holds what JSON can say, and dates,
    paths and objects with a text of their own; never secrets. Raises TransactionManagementError outside a transaction,
    TypeError for bytes in `detail`.
    """
    connection = transaction.get_connection()
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            f"The event “{act}” was to be recorded outside a transaction; the act and its event must stand or fall "
            "together. Call record() inside transaction.atomic()."
        )
    text = canonical_json(_plain(dict(detail or {})))
    where = str(host or "") or (host_of(subject) if subject is not None else "")
    head = _head_locked()
    link = Link(
        sequence=head.sequence + 1,
        at=timezone.now(),
        actor=text_keep(actor.name, 150),
        user_id=actor.user.pk if actor.user is not None else None,
        origin=text_keep(actor.origin, 255),
        act=str(act),
        host=text_keep(where, 255),
        pack=text_keep(str(pack or "") or (pack_of(subject) if subject is not None else ""), 100),
        subject_kind=subject._meta.label_lower if subject is not None else "",
        subject_id=text_keep(str(subject.pk), 64) if subject is not None else "",
        subject_label=text_keep(str(subject), 255) if subject is not None else "",
        detail=text,
        previous_hash=head.hash,
        hash="",
    )
    digest = link_hash(link)
    event = Event.objects.create(**link._replace(hash=digest)._asdict())
    head.sequence, head.hash = link.sequence, digest
    head.save(update_fields=["sequence", "hash"])
    return event


def _head_locked() -> Head:
    """The head's row, locked until the transaction ends; made when the log is empty."""
    head = Head.objects.select_for_update().filter(pk=1).first()
    if head is None:
        Head.objects.bulk_create([Head(pk=1, sequence=0, hash=GENESIS)], ignore_conflicts=True)
        head = Head.objects.select_for_update().get(pk=1)
    return head


def _plain(value: Any) -> Any:
    """A value that JSON can say. Bytes are refused: whoever records them must say how they are to be read."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("An event's detail holds text, not bytes; escape a name or write a digest in hexadecimal.")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)


def head_now() -> Head:
    """The end of the chain as it is now, for a document to name; an unsaved row when nothing was recorded yet."""
    return Head.objects.filter(pk=1).first() or Head(pk=1, sequence=0, hash=GENESIS)


def links_in_order(*, after: int = 0, up_to: int | None = None) -> Iterator[Link]:
    """Every event from the first on, or behind a number and up to another, in flat memory.

    Read piece by piece: neither a transaction nor a cursor stays open while the reader does something else.
    """
    return links_of(Event.objects.all(), after=after, up_to=up_to)


def links_of(events: models.QuerySet[Event], *, after: int = 0, up_to: int | None = None) -> Iterator[Link]:
    """The events of a query, from the oldest on, in the same way."""
    ordered = events.order_by("sequence")
    if up_to is not None:
        ordered = ordered.filter(sequence__lte=up_to)
    while rows := list(ordered.filter(sequence__gt=after).values_list(*Link._fields)[:PIECE]):
        yield from map(Link._make, rows)
        after = rows[-1][0]


def verify_chain(links: Iterable[Link] | None = None) -> Verdict:
    """Walk the whole chain and compare its end with the head's row."""
    # The head is read first: events that are added during the walk come after it and are walked as well.
    before = Head.objects.filter(pk=1).first()
    verdict = verify(links_in_order() if links is None else links)
    if not verdict.whole or (before is None and not verdict.links):
        return verdict
    count, head = verdict.links, verdict.head
    if before is None:
        return Verdict(count, head, count + 1, "the head of the chain is missing.")
    if before.sequence > count:
        reason = f"the head says that there are {before.sequence:,} events, so the last ones were removed."
        return Verdict(count, head, count + 1, reason)
    standing = Event.objects.filter(sequence=before.sequence).values_list("hash", flat=True).first() or GENESIS
    if standing != before.hash:
        return Verdict(max(before.sequence - 1, 0), head, max(before.sequence, 1), "the head names another hash.")
    known = Head.objects.filter(pk=1).values_list("sequence", flat=True).first() or 0
    if known < count:
        return Verdict(known, before.hash, known + 1, "the head of the chain does not know of it.")
    return verdict
