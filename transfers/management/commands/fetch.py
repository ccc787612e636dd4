"""`manage.py fetch USER@HOST:PATH --to DIR`: one remote file, verified, without web, broker, database or plan.

On a command line manage.py runs `transfers.oneoff` itself, without Django; this lists it among the commands.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from transfers.oneoff.command import HELP, add_arguments, run


class Command(BaseCommand):
    help = HELP
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if status := run(options, no_data_seconds=float(settings.NO_DATA_TIMEOUT_SECONDS)):
            sys.exit(status)
