"""manage.py load_plan FILE: load a plan file (docs/plan-file.md) for a host."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management.base import BaseCommand, CommandError

from calculet.people.commands import actor_of_command, add_as_argument
from inventory.manifests.planfile import PlanFileError
from inventory.models import Host
from transfers.services.plan_files import PlanFileResult, plan_file_load

LARGEST_FILE_BYTES = 10 * 2**20


class Command(BaseCommand):
    help = "Load tiers, resources, packs and capabilities of a host from a plan file; the same file changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the plan file, in YAML")
        parser.add_argument("--host", help="the host's name (may be left out when there is one host only)")
        add_as_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        actor = actor_of_command(options)
        host = _host_named(options["host"])
        path: Path = options["file"]
        try:
            if path.stat().st_size > LARGEST_FILE_BYTES:
                raise CommandError(f"“{path}” is larger than 10 MiB, so it is no plan file. Nothing was changed.")
            content = path.read_bytes()
        except OSError as error:
            raise CommandError(
                f"“{path}” cannot be read ({error.strerror}). Nothing was changed. Check its name and permissions."
            ) from error
        try:
            result = plan_file_load(host=host, content=content, file_name=path.name, actor=actor)
        except (PlanFileError, PermissionDenied) as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        self.stdout.write(_told(host, result))


def _host_named(name: str | None) -> Host:
    if name:
        host = Host.objects.filter(name=name).first()
        if host is None:
            raise CommandError(f"There is no host called “{name}”. Nothing was changed. Add it with add_host.")
        return host
    hosts = list(Host.objects.all()[:2])
    if len(hosts) != 1:
        why = "there is none yet; add one with add_host" if not hosts else "there are several; name one with --host"
        raise CommandError(f"Which host is this plan for? {why.capitalize()}. Nothing was changed.")
    return hosts[0]


def _told(host: Host, result: PlanFileResult) -> str:
    found = result.inventory
    lines = [f"{host}: {found.created} resources made, {found.changed} changed, {found.unchanged} as they were."]
    if found.proposal is not None:
        lines.append(
            "The team has changed some of these since the last load; the file's values wait as the proposal "
            f"“{found.proposal}”."
        )
    if result.draft is not None:
        lines.append(
            f"{result.packs_set} packs stand in draft {result.draft.number} of the plan. Scan, preview, and propose it."
        )
    if result.packs_left:
        lines.append(f"An open draft says otherwise about {', '.join(result.packs_left)}; it was left as it is.")
    if result.stated_left:
        lines.append(f"The plan says otherwise, or you may not state: {', '.join(result.stated_left)}; left as it is.")
    if result.capabilities_created:
        lines.append(f"{result.capabilities_created} capabilities made.")
    return "\n".join(lines)
