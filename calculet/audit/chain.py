"""The form of an audit event, and the chain that events make. Plain Python, so that anybody can check an export.

The canonical form of an event is JSON in ASCII with sorted keys and no blanks:

    {"act": …, "actor": …, "at": "2026-12-01T05:14:00.000001Z", "detail": "…", "host": …, "origin": …,
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
from typing import Any

GENESIS = "0" * 64

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Link:
    """One event with its place in the chain. `at` is aware; hashes are 64 hexadecimal digits."""

    sequence: int
    at: datetime
    actor: str
    user_id: int | None
    origin: str
    act: str
    host: str
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
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def body(link: Link) -> dict[str, Any]:
    """What is hashed of a link, apart from the previous hash."""
    return {
        "act": link.act,
        "actor": link.actor,
        "at": time_text(link.at),
        "detail": link.detail,
        "host": link.host,
        "origin": link.origin,
        "sequence": link.sequence,
        "subject_id": link.subject_id,
        "subject_kind": link.subject_kind,
        "subject_label": link.subject_label,
        "user_id": link.user_id,
    }


def link_hash(link: Link) -> str:
    """The hash that a link must have, from its previous hash and its content."""
    return hashlib.sha256(f"{link.previous_hash}\n{canonical_json(body(link))}".encode("ascii")).hexdigest()


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


def verify(links: Iterable[Link]) -> Verdict:
    """Walk the chain from its first link, in order of sequence, and stop at the first that does not hold."""
    head, count = GENESIS, 0
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
