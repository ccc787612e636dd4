"""Reads of the audit log for pages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from calculet.audit.anchoring import line_of, our_public_keys
from calculet.audit.anchors import AnchorFileWrong, Signature, signature_state
from calculet.audit.models import Anchor, Event, Head, Walk
from calculet.audit.walks import anchors_here

ANCHORS_SHOWN = 10
_LOOKS = {Signature.GOOD: "ok", Signature.NONE: "idle", Signature.OTHER_KEY: "warn", Signature.WRONG: "bad"}


@dataclass(frozen=True, slots=True)
class ChainState:
    """How far the chain is whole as far as is known, and where it ends."""

    walk: Walk
    head: Head

    @property
    def is_walked(self) -> bool:
        return self.walk.at is not None

    @property
    def is_broken(self) -> bool:
        return self.walk.broken_at is not None

    @property
    def newer(self) -> int:
        """How many events were added since."""
        return max(self.head.sequence - self.walk.sequence, 0)


def chain_state() -> ChainState:
    """What is known of the chain without walking it: two rows."""
    walk = Walk.objects.filter(pk=1).first() or Walk(pk=1)  # first, since the head is never behind it
    return ChainState(walk, Head.objects.filter(pk=1).first() or Head(pk=1))


@dataclass(frozen=True, slots=True)
class AnchorRow:
    """An anchor and what can be said of it now."""

    anchor: Anchor
    signature: Signature
    stands: bool  # the chain still has its event with its hash
    in_file: bool

    @property
    def signature_look(self) -> str:
        """The look of the signature's state."""
        return _LOOKS[self.signature]


def anchor_rows() -> tuple[list[AnchorRow], str]:
    """The latest anchors, and a sentence when their file cannot be read."""
    problem = ""
    try:
        lines = {str(line) for line in anchors_here()}
    except AnchorFileWrong as error:
        lines, problem = set(), str(error)
    anchors = list(Anchor.objects.all()[:ANCHORS_SHOWN])
    hashes = dict(
        Event.objects.filter(sequence__in=[anchor.sequence for anchor in anchors]).values_list("sequence", "hash")
    )
    ours = our_public_keys()
    rows = [
        AnchorRow(
            anchor,
            signature_state(line_of(anchor), ours),
            hashes.get(anchor.sequence) == anchor.hash,
            str(line_of(anchor)) in lines,
        )
        for anchor in anchors
    ]
    return rows, problem


@dataclass(frozen=True, slots=True)
class AnchorWays:
    """Where anchors go besides their file, as far as it is configured."""

    is_signed: bool
    is_posted: bool
    mailed_to: list[str]


def anchor_ways() -> AnchorWays:
    """What settings say about anchors."""
    mailed_to = list(settings.ANCHOR_MAIL_TO) if settings.ANCHOR_MAIL_FILE else []
    return AnchorWays(bool(settings.ANCHOR_KEY_FILE), bool(settings.ANCHOR_WEBHOOK_FILE), mailed_to)


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event and what its detail says, as pairs of words."""

    event: Event
    facts: tuple[tuple[str, str], ...]

    @property
    def places(self) -> list[str]:
        """Host and pack, where the subject's name does not say so already."""
        return [
            place for place in (self.event.pack, self.event.host) if place and place not in self.event.subject_label
        ]


def event_rows(events: Iterable[Event]) -> list[EventRow]:
    """Events as a page shows them."""
    return [EventRow(event, tuple(_facts(_detail(event)))) for event in events]


def _detail(event: Event) -> dict[str, Any]:
    """The detail of an event; one that somebody tampered with may be anything."""
    try:
        found = json.loads(event.detail)
    except ValueError:
        return {"detail": event.detail}
    return found if isinstance(found, dict) else {"detail": found}


def _facts(detail: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Names and values; the two states of a change become one fact."""
    rest = dict(detail)
    if isinstance(rest.get("from"), str) and isinstance(rest.get("to"), str):
        yield "", f"{rest.pop('from')} → {rest.pop('to')}"
    for name, value in rest.items():
        if value not in (None, "", [], {}):
            yield name.replace("_", " "), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
