"""manage.py export_plan HOST: a host's tiers, resources, packs and capabilities as a plan file."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from inventory.models import Host
from transfers.services.plan_files import plan_file_export


class Command(BaseCommand):
    help = "Write a host's plan as a plan file, which load_plan reads. Nothing is changed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="the host's name")
        parser.add_argument("--to", type=Path, metavar="FILE", help="a new file to write (else it is printed)")

    def handle(self, *args: Any, **options: Any) -> None:
        host = Host.objects.filter(name=options["host"]).first()
        if host is None:
            raise CommandError(f"There is no host called “{options['host']}”.")
        content, path = plan_file_export(host=host), options["to"]
        if path is None:
            self.stdout.write(content.decode(), ending="")
            return
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError as error:
            raise CommandError(f"“{path}” is there already, and was left as it is. Name a new file.") from error
        except OSError as error:
            raise CommandError(f"“{path}” cannot be written ({error.strerror}). Name another place.") from error
        self.stdout.write(f"The plan of {host} stands in {path}.")
