"""`manage.py worker`: a worker on another machine, or more of them on this one."""

from __future__ import annotations

import io
import os
import socket
from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from calculet.celery import HOME_SITE, QUEUE_NAMES, WORKER_OPTIONS, app, queues_declare
from calculet.installation import InstallationError
from calculet.startup import folders_prepare


class Command(BaseCommand):
    help = (
        "Run a worker. On another machine it needs the same DATABASE_URL, BROKER_URL, secret key and SSH keys; with "
        "--site it serves the landings of that site only."
    )
    requires_system_checks: list[str] = []  # run below, with those that look at the database

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--queues", nargs="+", default=list(QUEUE_NAMES), choices=QUEUE_NAMES, metavar="QUEUE")
        parser.add_argument("--site", default=HOME_SITE, help=f"the site whose landings it serves ({HOME_SITE})")
        parser.add_argument("--concurrency", type=int, default=os.cpu_count() or 1, metavar="N")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            folders_prepare()
        except InstallationError as error:
            raise CommandError(str(error)) from error
        call_command("check", databases=["default"], stdout=io.StringIO())
        names = queues_declare(options["queues"], options["site"])
        node = f"{'-'.join(options['queues'])}-{os.getpid()}@{socket.gethostname()}"
        arguments = ["worker", "--queues", ",".join(names), "--hostname", node, *WORKER_OPTIONS]
        app.worker_main([*arguments, "--concurrency", str(max(options["concurrency"], 1))])
