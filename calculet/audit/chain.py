"""The form of an audit event, and the chain that events make. Plain Python, so that anybody can check an export.

The canonical form of an event is JSON in ASCII with sorted keys and no blanks:

    {"act": …, "actor": …, "at": "2026-12-01T05:14:00.000001Z", "detail": "…", "host": …, "origin": …, "pack": …,
     "sequence": 1, "subject_id": …, "subject_kind": …, "subject_label": …, "user_id": 3 or null}

`detail` is itself canonical JSON, as text. A link's hash is

    SHA-256( previous hash in hexadecimal + LF + canonical form )

and the first link's previous hash is 64 zeros. Sequence numbers begin at 1 and have no gap.

An export has one link a line: the canonical form with "hash" and "previous_hash" beside the rest. To check a line
without this program: take "hash" and "previous_hash" out, write the rest as canonical JSON, and compute the hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as _quote
from typing import Any, NamedTuple

GENESIS = "0" * 64

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


class Link(NamedTuple):  # not a dataclass: a walk makes one for each event, and these are made three times as fast
    """One event with its place in the chain. `at` is aware; hashes are 64 hexadecimal digits."""

    sequence: int
    at: datetime
    actor: str
    user_id: int | None
    origin: str
    act: str
    host: str
    pack: str
    subject_kind: str
    subject_id: str
    subject_label: str
    detail: str
    previous_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a walk along the chain found: how many links hold, the last hash, and the first fault, if any."""

    links: int
    head: str
    broken_at: int | None = None
    reason: str = ""

    @property
    def whole(self) -> bool:
        return self.broken_at is None

    def __str__(self) -> str:
        if self.whole:
            return f"The audit chain is whole: {self.links:,} events, head {self.head}."
        return (
            f"The audit chain is broken at event {self.broken_at}: {self.reason} The {self.links:,} events before it "
            "hold. Keep the database as it is and compare it with a backup or an exported head."
        )


def canonical_json(value: Any) -> str:
    """The one text for a value of JSON kind. Raises TypeError and ValueError for what JSON cannot say (NaN, bytes)."""
    return _encode(value)


def time_text(at: datetime) -> str:
    """UTC with six digits of microseconds. Raises ValueError for a time without a zone."""
    if at.tzinfo is None:
        raise ValueError("An event's time needs a time zone.")
    return at.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def body(link: Link) -> dict[str, Any]:
    """What is hashed of a link, apart from the previous hash."""
    return {
        "act": link.act,
        "actor": link.actor,
        "at": time_text(link.at),
        "detail": link.detail,
        "host": link.host,
        "origin": link.origin,
        "pack": link.pack,
        "sequence": link.sequence,
        "subject_id": link.subject_id,
        "subject_kind": link.subject_kind,
        "subject_label": link.subject_label,
        "user_id": link.user_id,
    }


def link_text(link: Link) -> str:
    """`canonical_json(body(link))`, written out, since a walk spends most of its time here."""
    user = "null" if link.user_id is None else int(link.user_id)
    return (
        f'{{"act":{_quote(link.act)},"actor":{_quote(link.actor)},"at":"{time_text(link.at)}",'
        f'"detail":{_quote(link.detail)},"host":{_quote(link.host)},"origin":{_quote(link.origin)},'
        f'"pack":{_quote(link.pack)},"sequence":{int(link.sequence)},"subject_id":{_quote(link.subject_id)},'
        f'"subject_kind":{_quote(link.subject_kind)},"subject_label":{_quote(link.subject_label)},"user_id":{user}}}'
    )


def link_hash(link: Link) -> str:
    """The hash that a link must have, from its previous hash and its content."""
    return hashlib.sha256(f"{link.previous_hash}\n{link_text(link)}".encode("ascii")).hexdigest()


def link_line(link: Link) -> str:
    """A link as one line of an export, without the line's end."""
    return canonical_json({**body(link), "hash": link.hash, "previous_hash": link.previous_hash})


class LineWrong(ValueError):
    """A line of an export is not a link. `number` begins at 1."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return (
            f"Line {self.number} of the export is not an event in the export's form. The lines before it hold. Take "
            "the file from its source again, and compare the two."
        )


def links_read(lines: Iterable[str]) -> Iterator[Link]:
    """The links of an export, line by line. Raises LineWrong."""
    for number, line in enumerate(lines, start=1):
        try:
            found = json.loads(line)
            at = datetime.strptime(found.pop("at"), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
            yield Link(at=at, **found)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LineWrong(number) from error


def verify(links: Iterable[Link], *, after: int = 0, head: str = GENESIS) -> Verdict:
    """Walk the chain in order of sequence, and stop at the first link that does not hold.

    The walk begins at the first link, or behind event `after`, whose hash is `head`. The verdict counts from event 1.
    """
    count = after
    for link in links:
        expected = count + 1
        if link.sequence != expected:
            gap = "is missing" if link.sequence > expected else "is there twice or out of order"
            broken = expected if link.sequence > expected else link.sequence
            return Verdict(count, head, broken, f"event {broken} {gap}; event {link.sequence} stands in its place.")
        if link.previous_hash != head:
            return Verdict(count, head, expected, "it does not follow from the event before it.")
        if link_hash(link) != link.hash:
            return Verdict(count, head, expected, "its content is not what was recorded.")
        head, count = link.hash, expected
    return Verdict(count, head)


def verify_part(links: Iterable[Link]) -> Verdict:
    """Walk a part of the chain, as an export of a filtered view holds it: each link by itself, and each that follows
    the link before it without a gap. What is missing between them, a part cannot say."""
    before: Link | None = None
    count = 0
    for link in links:
        if before is not None and link.sequence <= before.sequence:
            return Verdict(count, before.hash, link.sequence, "it is there twice or out of order.")
        if before is not None and link.sequence == before.sequence + 1 and link.previous_hash != before.hash:
            return Verdict(count, before.hash, link.sequence, "it does not follow from the event before it.")
        if link_hash(link) != link.hash:
            return Verdict(count, before.hash if before else "", link.sequence, "its content is not what was recorded.")
        before, count = link, count + 1
    return Verdict(count, before.hash if before else "")
