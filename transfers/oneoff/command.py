"""The one-off command's line of words: read, run with a bar on a terminal, one sentence at a bad end.

Plain Python on purpose: loading Django would take longer than all round trips before the first byte.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from calculet.environment import NO_DATA_TIMEOUT_SECONDS, EnvironmentWrong, read_count, refuse_unknown_names
from inventory.remote.base import RemoteError
from inventory.remote.names import RemoteName
from transfers.engine.adopt import AdoptionRefused
from transfers.engine.cellmap import LedgerBusy
from transfers.engine.clock import SystemClock
from transfers.engine.landing import LandingError
from transfers.oneoff.fetch import Fetch, FetchResult, FetchStopped, ReadBackDiffers
from transfers.oneoff.request import FetchRefused, FetchRequest, read_lanes, read_place, read_port

FAILED, INTERRUPTED = 1, 130
END_SECONDS = 10.0  # lanes end within two seconds; a connection attempt may hold its thread a little longer
_PHASES = {"look": "looking", "fetch": "fetching", "read back": "reading back", "publish": "naming"}


HELP = (
    "Fetch one remote file over SSH, with its digest taken at the source and checked here. The same command goes on "
    "where an earlier one was ended. Exit status 0 only when the file is verified."
)


def add_arguments(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("source", metavar="USER@HOST:PATH", help="an IPv6 address stands in brackets")
    parser.add_argument("--to", required=True, metavar="DIR", help="the folder that the file lands in")
    parser.add_argument("--port", default="22", metavar="P")
    parser.add_argument("--key", metavar="FILE", help="private key; without it the agent, then the usual files")
    parser.add_argument("--known-hosts", metavar="FILE", default="~/.ssh/known_hosts")
    parser.add_argument("--lanes", default="auto", metavar="N|auto", help="connections at a time")
    parser.add_argument("--adopt", metavar="PATH", help="a partial file or parts here: what matches is taken over")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON on standard output")


def main(words: Sequence[str]) -> int:
    """Read the words and fetch; returns the exit status."""
    parser = ArgumentParser(prog="manage.py fetch", description=HELP)
    add_arguments(parser)
    options = vars(parser.parse_args(words))
    try:
        refuse_unknown_names()
        seconds = read_count("CALCULET_NO_DATA_TIMEOUT_SECONDS", NO_DATA_TIMEOUT_SECONDS)
        return run(options, no_data_seconds=float(seconds))
    except EnvironmentWrong as error:
        sys.stderr.write(f"{error}\n")
        return FAILED


def run(options: Mapping[str, Any], *, no_data_seconds: float) -> int:
    """Fetch what the options ask for; returns the exit status. `no_data_seconds`: give up after so long a silence."""
    # Names come from other machines: nothing in them is markup, and a line stays a line.
    notices = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)
    try:
        fetch = Fetch(_request(options, no_data_seconds), SystemClock(), notices.print)
        result = _run(fetch, notices, RemoteName.from_text(options["source"]))
    except FetchStopped as error:
        notices.print(str(error))
        return INTERRUPTED
    except KeyboardInterrupt:  # before or after the fetch itself
        notices.print(str(FetchStopped(0)))
        return INTERRUPTED
    except (AdoptionRefused, FetchRefused, ReadBackDiffers, LandingError, LedgerBusy, RemoteError) as error:
        notices.print(str(error))
        return FAILED
    told = _json(result) if options["json"] else f"{result.sha256}  {RemoteName(bytes(result.path))}"
    sys.stdout.write(f"{told}\n")
    return 0


def _request(options: Mapping[str, Any], no_data_seconds: float) -> FetchRequest:
    return FetchRequest(
        place=read_place(options["source"]),
        folder=_local(options["to"]),
        known_hosts=_local(options["known_hosts"]),
        port=read_port(str(options["port"])),
        key=_local(options["key"]) if options["key"] else None,
        lanes=read_lanes(str(options["lanes"])),
        no_data_seconds=no_data_seconds,
        adopt=_local(options["adopt"]) if options["adopt"] else None,
    )


def _local(text: str) -> Path:
    """A path on this machine. Raises FetchRefused for a `~` that stands for nobody."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise FetchRefused(f"“{text}” begins with the home folder of somebody unknown. Nothing was changed.") from error


def _json(result: FetchResult) -> str:
    return json.dumps(
        {
            "bytes": result.size_bytes,
            "sha256": result.sha256,
            "verified": True,
            "seconds": round(result.seconds, 3),
            "lanes": result.lanes,
            "reconnects": result.reconnects,
            "refetched_bytes": result.refetched_bytes,
        }
    )


def _run(fetch: Fetch, notices: Console, name: RemoteName) -> FetchResult:
    """Run the fetch in a thread, so that this one can draw, and can be interrupted at any moment."""
    outcome: list[FetchResult | BaseException] = []

    def work() -> None:
        try:
            outcome.append(fetch.run())
        except BaseException as error:  # handed to the thread that waits
            outcome.append(error)

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = {}
    if threading.current_thread() is threading.main_thread():
        former = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    thread = threading.Thread(target=work, name="fetch", daemon=True)
    try:
        thread.start()
        _watch(fetch, thread, notices, name)
    except KeyboardInterrupt:
        kept = fetch.progress().done_bytes
        fetch.stop()
        with suppress(KeyboardInterrupt, RuntimeError):  # whoever insists does not wait; it may not have started
            thread.join(END_SECONDS)
        if not outcome:
            raise FetchStopped(kept) from None
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    found = outcome[0]
    if isinstance(found, BaseException):
        raise found
    return found


def _watch(fetch: Fetch, thread: threading.Thread, notices: Console, name: RemoteName) -> None:
    """Wait for the end; on a terminal, draw a bar meanwhile."""
    if not notices.is_terminal:
        while thread.is_alive():
            thread.join(0.25)  # without a limit, a signal that comes just before the wait would be seen only at its end
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[pace]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=notices, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task(_PHASES["look"], total=None, pace="")
        while thread.is_alive():
            thread.join(0.25)
            _draw(fetch, bar, task, name)


def _draw(fetch: Fetch, bar: Progress, task: TaskID, name: RemoteName) -> None:
    now = fetch.progress()
    pace = ""
    if now.phase == "fetch":
        megabits = now.rate_bytes_per_second * 8 / 1e6
        pace = f"{megabits:,.1f} Mbit/s, {now.lanes_working} of {now.lanes} lanes"
    shown = RemoteName(name.raw.rpartition(b"/")[2])
    description = f"{_PHASES[now.phase]} {shown}"
    bar.update(task, description=description, completed=now.done_bytes, total=now.total_bytes or None, pace=pace)
