"""`manage.py worker`: a worker on another machine, or more of them on this one."""

from __future__ import annotations

import io
import os
import socket
import threading
from argparse import ArgumentParser
from typing import Any

from celery.signals import worker_shutting_down
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, SystemCheckError

from calculet.celery import QUEUE_NAMES, WORKER_OPTIONS, app
from calculet.installation import InstallationError
from calculet.programs import ask_owners_to_stop
from calculet.startup import folders_prepare


class Command(BaseCommand):
    help = (
        "Run a worker until Ctrl-C. On another machine it needs the same DATABASE_URL, BROKER_URL, SSH keys, and the "
        "landing under the same path."
    )
    requires_system_checks: list[str] = []  # run below, with those that look at the database

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--queues", nargs="+", default=list(QUEUE_NAMES), choices=QUEUE_NAMES, metavar="QUEUE")
        parser.add_argument("--concurrency", type=int, default=os.cpu_count() or 1, metavar="N")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            folders_prepare()
            call_command("check", databases=["default"], stdout=io.StringIO())
        except (InstallationError, SystemCheckError) as error:
            raise CommandError(str(error)) from error
        worker_shutting_down.connect(_links_end, weak=False)
        node = f"{'-'.join(options['queues'])}-{os.getpid()}@{socket.gethostname()}"
        arguments = ["worker", "--queues", ",".join(options["queues"]), "--hostname", node, *WORKER_OPTIONS]
        app.worker_main([*arguments, "--concurrency", str(max(options["concurrency"], 1))])


def _links_end(**_signal: Any) -> None:
    threading.Thread(target=ask_owners_to_stop, args=(threading.Event(),), daemon=True).start()
