"""Exports of the log: the whole chain or the events of a filter, as JSON Lines or as CSV, in flat memory."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum

from django.db import transaction

from calculet.actors import Actor
from calculet.audit.chain import LineWrong, Link, link_line, time_text
from calculet.audit.filters import Filter, events_found
from calculet.audit.services import EXPORTED, links_of, record
from calculet.people.roles import Act, require
from calculet.spreadsheets import csv_read, csv_rows

_EVERYTHING = Filter()


class Form(StrEnum):
    """How an export is written. The value is the file name's end."""

    JSON_LINES = "jsonl"
    CSV = "csv"


def chain_export(*, actor: Actor, wanted: Filter = _EVERYTHING, form: Form = Form.JSON_LINES) -> Iterator[str]:
    """Record the export, then give the filter's events up to that record, piece by piece. Raises NotAllowed.

    The pieces are read as they are taken. Without a filter the record is the last event: an export tells who took it.
    """
    require(actor.user, Act.AUDIT_EXPORT)
    return pieces(export_record(actor=actor, wanted=wanted, form=form), wanted=wanted, form=form)


def export_record(*, actor: Actor, wanted: Filter, form: Form, to: str = "") -> int:
    """Record that somebody exports; returns the number of that event, up to which the export goes."""
    detail = {"filter": wanted.told(), "form": str(form), "to": to}
    with transaction.atomic():
        return record(
            act=EXPORTED, actor=actor, detail={name: value for name, value in detail.items() if value}
        ).sequence


def pieces(last: int, *, wanted: Filter = _EVERYTHING, form: Form = Form.JSON_LINES) -> Iterator[str]:
    """The filter's events up to a number, the oldest first: a line each, of CSV the first with the columns' names."""
    links = links_of(events_found(wanted), up_to=last)
    if form is Form.JSON_LINES:
        return (f"{link_line(link)}\n" for link in links)
    return csv_rows(_rows(links))


def _rows(links: Iterable[Link]) -> Iterator[Sequence[str]]:
    yield Link._fields
    for link in links:
        yield [_cell(value) for value in link]


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return time_text(value)
    return "" if value is None else str(value)


def links_from_csv(lines: Iterable[str]) -> Iterator[Link]:
    """The links of an export as CSV, to be verified: the reverse of `pieces`. Raises LineWrong, counted in rows."""
    number = 1
    try:
        for number, row in enumerate(csv_read(lines), start=1):
            if number == 1:
                if tuple(row) != Link._fields:
                    raise LineWrong(number)
                continue
            cells = dict(zip(Link._fields, row, strict=True))
            yield Link(
                sequence=int(cells.pop("sequence")),
                at=datetime.strptime(cells.pop("at"), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC),
                user_id=int(user) if (user := cells.pop("user_id")) else None,
                **cells,
            )
    except (ValueError, csv.Error) as error:
        raise error if isinstance(error, LineWrong) else LineWrong(number) from error
