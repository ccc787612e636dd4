"""Who acts: a signed-in person, or the product itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calculet.people.models import Person


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, or the system when `user` is None. `origin` says from where: an address, or “command line”."""

    user: Person | None
    name: str
    origin: str = ""

    @classmethod
    def of(cls, user: Person, *, origin: str = "") -> Actor:
        """The actor for a person of this installation."""
        return cls(user=user, name=user.get_username(), origin=origin)


SYSTEM = Actor(user=None, name="system")
