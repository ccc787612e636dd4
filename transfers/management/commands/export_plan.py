"""manage.py export_plan HOST: a host's plan as a plan file, or its fetch as a script that needs no product."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management.base import BaseCommand, CommandError

from calculet.people.commands import actor_of_command, add_as_argument
from inventory.models import Host
from transfers.models import Plan
from transfers.services.plan_files import plan_file_export
from transfers.services.plan_scripts import JOBS, PlanScript, plan_script_export


class Command(BaseCommand):
    help = "Write a host's plan as a plan file, which load_plan reads, or as a script. The plan is not changed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="the host's name")
        parser.add_argument("--to", type=Path, metavar="FILE", help="a new file to write (else it is printed)")
        parser.add_argument(
            "--script",
            action="store_true",
            help="a shell script instead, which goes on with the fetch by ssh, dd and sha256sum alone",
        )
        parser.add_argument(
            "--jobs", type=int, default=JOBS, metavar="N", help="chunks that the script fetches at once"
        )
        add_as_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        host = Host.objects.filter(name=options["host"]).first()
        if host is None:
            raise CommandError(f"There is no host called “{options['host']}”.")
        script = _script(host, options) if options["script"] else None
        content = script.content if script is not None else plan_file_export(host=host)
        path: Path | None = options["to"]
        if path is None:
            self.stdout.write(content.decode("utf-8", "surrogateescape"), ending="")
            return
        _write(path, content)
        if script is None:
            self.stdout.write(f"The plan of {host} stands in {path}.")
            return
        self.stdout.write(f"{path} goes on with the fetch of {', '.join(script.packs)}: sh {path}")
        for name, why in script.left_out:
            self.stdout.write(f"Not in it: {name} {why}.")


def _script(host: Host, options: dict[str, Any]) -> PlanScript:
    plan = Plan.objects.select_related("host").filter(host=host).first()
    if plan is None:
        raise CommandError(f"{host} has no plan yet.")
    try:
        return plan_script_export(plan=plan, actor=actor_of_command(options), jobs=options["jobs"])
    except PermissionDenied as error:
        raise CommandError(str(error)) from error
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error


def _write(path: Path, content: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise CommandError(f"“{path}” is there already, and was left as it is. Name a new file.") from error
    except OSError as error:
        raise CommandError(f"“{path}” cannot be written ({error.strerror}). Name another place.") from error
