"""The only code that changes a state.

A model with a state declares, beside its enum, which changes are allowed:

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]]

`advance` changes the row by one `UPDATE … WHERE pk = … AND state = old`, so that of two that race exactly one wins,
and writes the audit event in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast

from django.db import models, transaction
from django.utils.translation import gettext as _

from calculet.actors import SYSTEM, Actor
from calculet.audit import services as audit

__all__ = ["SYSTEM", "Actor", "StateConflict", "advance"]


class Stateful(Protocol):
    """A row with a state and the changes that are allowed."""

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]]
    state: str


@dataclass(eq=False)
class StateConflict(Exception):
    """The row was not in the state that the change begins from. `found` is what it is now, empty when it is gone."""

    subject: str
    expected: str
    wanted: str
    found: str

    def __str__(self) -> str:
        words = {"subject": self.subject, "wanted": _(self.wanted), "found": _(self.found) if self.found else ""}
        if self.found == self.expected:
            return (
                _(
                    "%(subject)s is “%(found)s”, and from there it cannot become “%(wanted)s”. Nothing was changed. "
                    "Look at the page again for what can be done now."
                )
                % words
            )
        if self.found:
            return (
                _(
                    "%(subject)s could not become “%(wanted)s”: somebody or something else was faster, and it is "
                    "“%(found)s” now. Nothing was changed. Look at the page again."
                )
                % words
            )
        return (
            _(
                "%(subject)s could not become “%(wanted)s”: somebody or something else was faster, and it is not there "
                "any more. Nothing was changed. Look at the page again."
            )
            % words
        )


def advance(
    row: models.Model, to: str, *, act: str, actor: Actor, detail: Mapping[str, Any] | None = None, **fields: Any
) -> None:
    """Change a row's state and other fields in one UPDATE, with an event, in one transaction.

    `row` is a model instance with `state` and `TRANSITIONS`; the instance is updated when the change was made.
    `detail` goes into the event beside the two states. Raises StateConflict when the change is not allowed from the
    instance's state, or when the stored state is another one by now.
    """
    held = cast(Stateful, row)
    before, after = str(held.state), str(to)
    if after not in held.TRANSITIONS.get(before, frozenset()):
        raise StateConflict(str(row), before, after, before)
    with transaction.atomic():
        rows = type(row)._base_manager.filter(pk=row.pk)
        if not rows.filter(state=before).update(state=after, **fields):
            raise StateConflict(str(row), before, after, str(rows.values_list("state", flat=True).first() or ""))
        audit.record(act=act, actor=actor, subject=row, detail={"from": before, "to": after, **(detail or {})})
    held.state = after
    for name, value in fields.items():
        setattr(row, name, value)
