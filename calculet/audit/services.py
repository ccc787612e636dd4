"""The only way to write audit events, and to walk their chain: record, verify, export. `selectors` reads for pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.chain import GENESIS, Link, Verdict, canonical_json, link_hash, link_line, verify
from calculet.audit.models import Event, Head
from calculet.audit.subjects import host_of, pack_of, text_keep
from calculet.people.roles import Act, require

VERIFIED, EXPORTED = "audit.verified", "audit.exported"


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
    event = Event.objects.create(
        **{name: getattr(link, name) for name in Link.__slots__ if name != "hash"}, hash=digest
    )
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


def links_in_order(*, up_to: int | None = None) -> Iterator[Link]:
    """Every event from the first on, or up to a number, in flat memory."""
    events = Event.objects.order_by("sequence")
    if up_to is not None:
        events = events.filter(sequence__lte=up_to)
    rows = events.values_list(*Link.__slots__).iterator(chunk_size=2000)
    return (Link(*row) for row in rows)


def chain_verify(*, actor: Actor) -> Verdict:
    """Walk the chain, and record the walk and what it found. Raises NotAllowed."""
    require(actor.user, Act.AUDIT_READ)
    verdict = verify_chain()
    with transaction.atomic():
        found = "" if verdict.whole else str(verdict)
        detail = {"whole": verdict.whole, "events": verdict.links, "head": verdict.head, "found": found}
        record(act=VERIFIED, actor=actor, detail=detail)
    return verdict


def chain_export(*, actor: Actor) -> Iterator[str]:
    """Record the export, then give every event up to that record, each as one line with its end. Raises NotAllowed.

    The lines are read as they are taken; the record is the last of them, so an export tells who took it.
    """
    require(actor.user, Act.AUDIT_EXPORT)
    with transaction.atomic():
        last = record(act=EXPORTED, actor=actor).sequence
    return export_lines(last)


def export_lines(last: int) -> Iterator[str]:
    """Each event up to a number as a line of an export, with its end."""
    return (f"{link_line(link)}\n" for link in links_in_order(up_to=last))


def verify_chain() -> Verdict:
    """Walk the whole chain and compare its end with the head's row."""
    # The head is read first: events that are added during the walk come after it and are walked as well.
    head = Head.objects.filter(pk=1).first()
    verdict = verify(links_in_order())
    if not verdict.whole or (head is None and not verdict.links):
        return verdict
    if head is None:
        return Verdict(verdict.links, verdict.head, verdict.links + 1, "the head of the chain is missing.")
    if head.sequence > verdict.links:
        return Verdict(
            verdict.links,
            verdict.head,
            verdict.links + 1,
            f"the head says that there are {head.sequence:,} events, so the last ones were removed.",
        )
    standing = Event.objects.filter(sequence=head.sequence).values_list("hash", flat=True).first() or GENESIS
    if standing != head.hash:
        return Verdict(
            max(head.sequence - 1, 0), verdict.head, max(head.sequence, 1), "the head of the chain names another hash."
        )
    return verdict
