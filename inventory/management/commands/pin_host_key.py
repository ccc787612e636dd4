"""`manage.py pin_host_key NAME`: look at the key that a host shows, compare, and pin it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError

from calculet.people.commands import actor_of_command, add_as_argument
from inventory.connect import channel_of, pinned_of
from inventory.management.found import host_named
from inventory.remote.base import RemoteError
from inventory.services import hosts
from inventory.services.errors import InventoryError


class Command(BaseCommand):
    help = "Show the host key's fingerprint and pin it after a yes, or at once when it is the --fingerprint given."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--fingerprint", metavar="SHA256:…", help="pin without asking, if the host shows this one")
        add_as_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        actor, host = actor_of_command(options), host_named(options["name"])
        try:
            found = hosts.host_key_look(host=host, actor=actor)
            before = pinned_of(channel_of(host))
            wanted = options["fingerprint"]
            if before is not None and before.fingerprint != found.fingerprint:
                self.stdout.write(f"Pinned until now: {before.key_type} {before.fingerprint}")
            self.stdout.write(f"The host shows:   {found.key_type} {found.fingerprint}")
            if wanted is None and not self._agrees():
                raise CommandError("Nothing was pinned.")
            pinned = hosts.host_pin_key(
                host=host,
                key_type=found.key_type,
                blob=found.blob,
                fingerprint=found.fingerprint if wanted is None else wanted,
                actor=actor,
            )
        except (InventoryError, RemoteError, PermissionDenied) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Pinned for “{host}”: {pinned}")

    def _agrees(self) -> bool:
        self.stdout.write("Compare it with what the host itself says: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
        try:
            return input("Is it the same, and shall it be pinned? [y/N] ").strip().lower() in {"y", "yes"}
        except EOFError:
            return False
