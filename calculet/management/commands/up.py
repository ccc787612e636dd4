"""`manage.py up`: the whole product under one supervisor, until Ctrl-C."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, SystemCheckError
from django.urls import reverse

from calculet.installation import InstallationError
from calculet.people.services import setup_link_make
from calculet.programs import AddressError, Bind, BrokerMissing, bind_parse, product_supervisor
from calculet.startup import RunningAlready, database_prepare, folders_prepare, lock_take
from calculet.supervisor import NotReady, Supervisor

_READY_SECONDS = 120.0


class Command(BaseCommand):
    help = "Run the product: broker, web server, workers and beat, under one supervisor, until Ctrl-C."
    requires_system_checks: list[str] = []  # run after the migrations, with those that look at the database

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--bind", default="127.0.0.1:8000", metavar="HOST:PORT", help="where the web server listens (port 0: any)"
        )
        parser.add_argument("--links", type=int, default=4, metavar="N", help="hosts that are served at a time")
        parser.add_argument("--crunches", type=int, metavar="N", help="scans and checks at a time (processors)")
        parser.add_argument(
            "--log-to-terminal", action="store_true", help="show each program's output here, not in DATA/log/NAME.log"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._run(options)
        except (AddressError, BrokerMissing, InstallationError, NotReady, RunningAlready) as error:
            raise CommandError(str(error)) from error
        except SystemCheckError as error:
            raise CommandError(str(error), returncode=1) from error

    def _run(self, options: dict[str, Any]) -> None:
        folders_prepare()
        with lock_take() as lock:
            bind = bind_parse(options["bind"])
            self._refuse_debug_in_public(bind)
            database_prepare()
            log_folder: Path | None = None if options["log_to_terminal"] else settings.DATA_DIR / "log"
            supervisor = product_supervisor(
                bind,
                tell=self._tell,
                log_folder=log_folder,
                link_count=max(options["links"], 1),
                crunch_count=options["crunches"],
                inherit=[lock.fileno()],
            )
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: supervisor.request_stop())
            with supervisor:
                self._wait(supervisor, bind, log_folder)
                self._tell("Stopping …")
        if supervisor.has_failed:
            raise CommandError("The supervisor itself failed; everything was stopped, and nothing proved is lost.")
        self._tell("Stopped.")

    def _wait(self, supervisor: Supervisor, bind: Bind, log_folder: Path | None) -> None:
        if not supervisor.wait_ready(timeout_seconds=_READY_SECONDS):
            return
        if log_folder is not None:
            self._tell(f"Logs: {log_folder}")
        if token := setup_link_make():
            link = f"{bind.address.rstrip('/')}{reverse('people:link', args=[token])}"
            self._tell(f"There is no admin yet. This link makes the first one; it works once, within a day:\n  {link}")
        self._tell(f"Calculet Transfers is ready at {bind.address}  (Ctrl-C stops it)")
        supervisor.wait()

    def _refuse_debug_in_public(self, bind: Bind) -> None:
        if settings.DEBUG and not bind.is_loopback:
            raise CommandError(
                f"CALCULET_DEBUG is on, and {bind} can be reached by others, who would see settings in error pages. "
                "Nothing was started. Turn CALCULET_DEBUG off, or listen at 127.0.0.1."
            )

    def _tell(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
