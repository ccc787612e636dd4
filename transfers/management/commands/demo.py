"""manage.py demo: the product, a sample host with a real SSH server, and the whole main job on it."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from calculet.installation import InstallationError
from calculet.programs import AddressError, Bind, BrokerMissing, bind_parse, product_supervisor
from calculet.startup import RunningAlready, database_prepare, folders_prepare, lock_take
from calculet.supervisor import NotReady, Program, Supervisor
from inventory.models import Host
from inventory.remote.base import RemoteError
from transfers.demo.main_job import HOST_NAME, KEY_NAME, DemoFailed, DemoStopped, MainJob, Place, people_ready
from transfers.demo.progress import Progress
from transfers.demo.sample_tree import make_sample_tree
from transfers.demo.ssh_host import prepare_host_folder
from transfers.models import Build
from transfers.selectors.specs import build_folder

DATA_DIR_VARIABLE = "CALCULET_DATA_DIR"
READY_SECONDS = 120.0


class Command(BaseCommand):
    help = "Run the product with a sample host, and the whole main job on it. Keeps everything apart, in var/demo."
    requires_system_checks: list[str] = []  # run by database_prepare, after the migrations

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="end after the main job; status 0 if all is right")
        parser.add_argument("--bind", default="127.0.0.1:8000", metavar="HOST:PORT", help="where the pages are")
        parser.add_argument(
            "--bytes-per-second",
            type=float,
            default=2.5e6,
            metavar="N",
            help="the sample host's rate",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not os.environ.get(DATA_DIR_VARIABLE):
            # The settings of this process name the data folder of the product itself: begin again with another one.
            os.environ[DATA_DIR_VARIABLE] = str(settings.BASE_DIR / "var" / "demo")
            os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606 (our own program and arguments)
        self._stopped = False
        try:
            self._run(options)
        except (AddressError, BrokerMissing, InstallationError, NotReady, RunningAlready, DemoFailed) as error:
            raise CommandError(str(error)) from error
        except RemoteError as error:
            raise CommandError(f"The sample host: {error}") from error
        except DemoStopped:
            self.stdout.write("Stopped; the next run carries on from what is here.")
            if options["once"]:
                raise CommandError("The main job was not finished.") from None

    def _run(self, options: dict[str, Any]) -> None:
        folders_prepare()
        with lock_take() as lock:
            database_prepare()
            self._refuse_other_data()
            progress = Progress(Console(file=sys.stdout, soft_wrap=True))
            place = self._place()
            make_sample_tree(place.tree)
            prepare_host_folder(place.host, settings.KEY_DIR / KEY_NAME)
            progress.done(f"Sample host with its tree in {place.tree}")
            bind = bind_parse(options["bind"])
            supervisor = product_supervisor(
                bind,
                tell=progress.say,
                log_folder=settings.DATA_DIR / "log",
                others=[_sample_host(place, options["bytes_per_second"])],
                inherit=[lock.fileno()],
            )
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: self._request_stop(supervisor))
            with supervisor:
                self._main_job(supervisor, progress, place, bind, once=options["once"])

    def _request_stop(self, supervisor: Supervisor) -> None:
        self._stopped = True
        supervisor.request_stop()

    def _main_job(self, supervisor: Supervisor, progress: Progress, place: Place, bind: Bind, *, once: bool) -> None:
        if not supervisor.wait_ready(timeout_seconds=READY_SECONDS):
            raise DemoStopped
        passwords = people_ready()
        progress.done(f"The product is ready at {bind.address}")
        for name, password in passwords.items():
            progress.say(f"    sign in as {name} with the password {password}")
        try:
            builds = MainJob(place, progress, lambda: self._stopped).run()
        finally:
            progress.end_table()
        self._tell_end(progress, bind, passwords, builds)
        if not once:
            progress.say("The product stays up until Ctrl-C.")
            supervisor.wait()

    def _tell_end(self, progress: Progress, bind: Bind, passwords: dict[str, str], builds: list[Build]) -> None:
        progress.say("")
        progress.say(f"Open       {bind.address}")
        for name, password in passwords.items():
            progress.say(f"Sign in    {name}  {password}")
        landing = Path(builds[0].landing.path)
        progress.say(f"Landed     {landing / HOST_NAME}")
        progress.say(f"Unpacked   {landing / HOST_NAME / 'unpacked'}")
        for build in builds:
            report = build.reports.order_by("-made_at")[0]
            progress.say(f"Report     {landing / report.folder / 'report.html'}")
        progress.say(f"Check      cd {build_folder(builds[0])} && sha256sum -c SHA256SUMS")

    def _refuse_other_data(self) -> None:
        if Host.objects.exclude(name=HOST_NAME).exists():
            raise CommandError(
                f"“{settings.DATA_DIR}” holds hosts of your own. Nothing was started. The demonstration keeps apart "
                f"from real data: set {DATA_DIR_VARIABLE} to another folder, or leave it out."
            )

    def _place(self) -> Place:
        folder = settings.DATA_DIR / "sample"
        folder.mkdir(parents=True, exist_ok=True)
        return Place(folder=folder, username=getpass.getuser(), port=_free_port())


def _sample_host(place: Place, bytes_per_second: float) -> Program:
    command = [sys.executable, "-m", "transfers.demo.ssh_host", "--folder", str(place.host.path)]
    command += ["--port", str(place.port), "--bytes-per-second", str(bytes_per_second)]
    return Program(
        name="sample-host",
        command=command,
        stop_order=3,
        is_ready=lambda: _answers(place.port),
        environment={"PYTHONPATH": str(settings.BASE_DIR)},
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
