"""For management commands: who acts."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from calculet.actors import Actor
from calculet.people.models import Person

ORIGIN = "command line"


def add_as_argument(parser: ArgumentParser) -> None:
    """Give a command the option `--as NAME`: the person in whose name it acts, with that person's roles."""
    parser.add_argument(
        "--as",
        dest="as_person",
        metavar="NAME",
        help="the person in whose name this is done (needed when there are several)",
    )


def actor_of_command(options: dict[str, Any]) -> Actor:
    """The person named by `--as`, or the only active person there is. Raises CommandError with a sentence."""
    name = options.get("as_person")
    active = Person.objects.filter(is_active=True)
    if name:
        person = active.filter(username=name).first()
        if person is None:
            raise CommandError(f"There is no active person called “{name}”. Nothing was changed. Check --as.")
        return Actor.of(person, origin=ORIGIN)
    people = list(active[:2])
    if not people:
        raise CommandError(
            "Nobody is here yet in whose name this could be done. Nothing was changed. Make the first admin by the "
            "link that `manage.py up` prints, or run `manage.py add_person NAME --role ROLE`."
        )
    if len(people) > 1:
        raise CommandError("Several people are here. Nothing was changed. Say in whose name this is done: --as NAME")
    return Actor.of(people[0], origin=ORIGIN)


def machine_actor() -> Actor:
    """Whoever runs a command on the machine itself, in nobody's name."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        account = "unnamed account"
    return Actor(user=None, name=f"{ORIGIN} ({account})", origin=ORIGIN)
