"""`manage.py probe NAME`: see what a host has, now."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError

from calculet.people.commands import actor_of_command, add_as_argument
from inventory.management.found import host_named
from inventory.remote.probe import ProbeReport
from inventory.selectors import known_report
from inventory.services import hosts


class Command(BaseCommand):
    help = "Ask a host what it has and keep the report. Writes nothing there."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        add_as_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        actor, host = actor_of_command(options), host_named(options["name"])
        before = host.probed_at
        try:
            hosts.host_probe_request(host=host, actor=actor)
        except PermissionDenied as error:
            raise CommandError(str(error)) from error
        hosts.host_probe_run(host.pk)
        host.refresh_from_db()
        if host.problem:
            raise CommandError(host.problem)
        report = known_report(host)
        if report is None or host.probed_at == before:
            raise CommandError(f"A worker is probing “{host}” at this moment. Nothing was changed. Look again soon.")
        for line in self._lines(report):
            self.stdout.write(line)

    @staticmethod
    def _lines(report: ProbeReport) -> list[str]:
        free = "unknown" if report.free_bytes is None else f"{report.free_bytes:,} bytes"
        what = f"{report.system} {report.machine}" if report.has_shell else "SFTP only"
        lines = [f"{what}, free at {report.staging_parent}: {free}"]
        if not report.has_shell:
            return lines + [f"- {sentence}" for sentence in report.missing_steps()]
        programs = ("find", "tar", "stat", "dd", "sha256sum", "xargs", "zstd", "python3")
        lines += [f"  {name:<10} {getattr(report, name) or 'not there'}" for name in programs]
        return lines + [f"- {sentence}" for sentence in report.missing_steps()]
