"""`manage.py scan HOST RESOURCE` or `--all`: scan in this process, with a line of progress."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError

from calculet.actors import Actor
from calculet.people.commands import actor_of_command, add_as_argument
from inventory.management.found import host_named, resource_named
from inventory.models import Resource, Scan, ScanState
from inventory.services import scans
from inventory.services.errors import InventoryError

_LOOK_SECONDS = 0.5


class Command(BaseCommand):
    help = "List a resource's entries over SSH, count and measure them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host")
        parser.add_argument("resource", nargs="?", help="the resource's name")
        parser.add_argument("--all", action="store_true", help="every resource of the host that has a path")
        add_as_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        actor, host = actor_of_command(options), host_named(options["host"])
        if bool(options["resource"]) == options["all"]:
            raise CommandError("Nothing was scanned. Name one resource, or say --all.")
        if options["all"]:
            chosen = [row for row in Resource.objects.filter(host=host) if row.path.raw]
            if not chosen:
                raise CommandError(
                    f"No resource of “{host}” has a path yet. Nothing was scanned. Give one a path first."
                )
        else:
            chosen = [resource_named(host, options["resource"])]
        problems = [problem for resource in chosen if (problem := self._scan(resource, actor))]
        if problems:
            raise CommandError("\n".join(problems))

    def _scan(self, resource: Resource, actor: Actor) -> str:
        """Scan one resource; returns the sentence of what went wrong, empty when nothing did."""
        try:
            scan = scans.scan_request(resource=resource, actor=actor)
        except (InventoryError, PermissionDenied) as error:
            return str(error)
        is_terminal = self.stdout.isatty()

        def tell(seen: int) -> None:
            if is_terminal:
                self.stdout.write(f"\r{resource.name}: {seen:,} entries", ending="")
                self.stdout.flush()

        self._wait(scan, tell)
        if is_terminal:
            self.stdout.write("\r", ending="")
        if scan.state != ScanState.FINISHED:
            return f"{resource.name}: {scan.problem or 'the scan was cancelled.'}"
        unread = f", {scan.unreadable:,} unreadable" if scan.unreadable else ""
        self.stdout.write(
            f"{resource.name}: {scan.files:,} files, {scan.folders:,} folders, {scan.links:,} links{unread}, "
            f"{scan.apparent_bytes:,} bytes"
        )
        return ""

    @staticmethod
    def _wait(scan: Scan, tell: scans.Progress) -> None:
        """Run the scan, or watch the worker that was faster. Ends with the scan."""
        try:
            scans.scan_run(scan.pk, progress=tell)
            scan.refresh_from_db()
            while scan.state in (ScanState.QUEUED, ScanState.RUNNING):
                tell(scan.entries_seen)
                time.sleep(_LOOK_SECONDS)
                scans.scan_run(scan.pk, progress=tell)  # does nothing as long as the other one is alive
                scan.refresh_from_db()
        except KeyboardInterrupt as interrupt:
            raise CommandError("Stopped here. The scan is still asked for: a worker takes it up.") from interrupt
