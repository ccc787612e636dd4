"""Reads of the audit log for pages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from calculet.audit.models import Event, Head
from calculet.audit.services import VERIFIED


@dataclass(frozen=True, slots=True)
class ChainState:
    """How long the chain is and what its head says; what the latest walk found, if there was one."""

    events: int
    head: str
    verified_at: datetime | None
    verified_by: str
    verdict: dict[str, Any]


def chain_state() -> ChainState:
    """What is known of the chain without walking it."""
    head = Head.objects.filter(pk=1).first() or Head()
    walk = Event.objects.filter(act=VERIFIED).first()
    if walk is None:
        return ChainState(head.sequence, head.hash, None, "", {})
    return ChainState(head.sequence, head.hash, walk.at, walk.actor, _detail(walk))


def events_found(
    *, act: str = "", host: str = "", person: str = "", begin: date | None = None, end: date | None = None
) -> QuerySet[Event]:
    """Events from the newest on; empty filters let everything pass. Days are those of the installation's time zone."""
    events = Event.objects.all()
    for field, value in (("act", act), ("host", host), ("actor", person)):
        if value:
            events = events.filter(**{field: value})
    if begin is not None:
        events = events.filter(at__gte=_midnight(begin))
    if end is not None:
        events = events.filter(at__lt=_midnight(end + timedelta(days=1)))
    return events


def values_known(field: str) -> list[str]:
    """What stands in the log in `act`, `host` or `actor`: the choices of a filter."""
    values = Event.objects.order_by(field).values_list(field, flat=True).distinct()
    return [value for value in values if value]


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event and what its detail says, as pairs of words."""

    event: Event
    facts: tuple[tuple[str, str], ...]


def event_rows(events: Iterable[Event]) -> list[EventRow]:
    """Events as a page shows them."""
    return [EventRow(event, tuple(_facts(_detail(event)))) for event in events]


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))


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
