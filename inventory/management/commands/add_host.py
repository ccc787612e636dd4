"""`manage.py add_host NAME --address … --user … --staging …`: a host, to be pinned next."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError

from calculet.people.commands import actor_of_command, add_as_argument
from inventory.remote.base import RemoteError
from inventory.services import hosts
from inventory.services.errors import InventoryError


class Command(BaseCommand):
    help = "Add a remote host. Nothing is asked over the network; pin its key next (pin_host_key)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="letters, digits, “-” and “_”; folders at home are named after it")
        parser.add_argument("--address", required=True, help="a name or an IP address")
        parser.add_argument("--port", type=int, default=22)
        parser.add_argument("--user", required=True, help="the account to sign in as")
        parser.add_argument("--key", default="", help="a file in the key directory; the agent when left out")
        parser.add_argument("--staging", required=True, help="our folder on the host, an absolute path")
        parser.add_argument("--lanes", type=int, default=8, help="connections at once (default 8)")
        parser.add_argument("--note", default="")
        add_as_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        actor = actor_of_command(options)
        try:
            host = hosts.host_add(
                name=options["name"],
                address=options["address"],
                port=options["port"],
                username=options["user"],
                key_name=options["key"],
                staging_path=options["staging"],
                note=options["note"],
                lanes=options["lanes"],
                actor=actor,
            )
        except (InventoryError, RemoteError, PermissionDenied) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"The host “{host}” is added. Pin its key next: manage.py pin_host_key {host}")
