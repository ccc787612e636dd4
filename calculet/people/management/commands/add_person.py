"""`manage.py add_person NAME --role ROLE …`: a person and the one-time link for their password."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from calculet.people.commands import machine_actor
from calculet.people.models import Person
from calculet.people.roles import Role
from calculet.people.services import PeopleError, password_link_make, person_create, role_give


class Command(BaseCommand):
    help = "Add a person, or give roles and a new password link to one who is here. Prints the path of the link."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--full-name", default="")
        parser.add_argument("--role", action="append", default=[], choices=[role.value for role in Role])

    def handle(self, *args: Any, **options: Any) -> None:
        actor, roles = machine_actor(), [Role(name) for name in options["role"]]
        person = Person.objects.filter(username=options["name"]).first()
        try:
            if person is None:
                person = person_create(
                    actor=actor, username=options["name"], full_name=options["full_name"], roles=roles
                )
            else:
                for role in roles:
                    role_give(actor=actor, person=person, role=role)
            token = password_link_make(actor=actor, person=person)
        except PeopleError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(reverse("people:link", args=[token]))
