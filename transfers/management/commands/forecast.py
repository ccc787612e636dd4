"""manage.py forecast HOST: when packs and capabilities will be usable, in the order in force or in another one."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from calculet.pages.templatetags.shown import bytes_rate, bytes_short, duration
from transfers.forecast.simulate import Times
from transfers.models import Plan
from transfers.selectors.advice import order_named
from transfers.selectors.board import Board, board_of
from transfers.selectors.forecast import forecast_board
from transfers.selectors.paces import HostPaces, paces_of


class Command(BaseCommand):
    help = "Say when a host's packs and capabilities will be usable. Nothing is changed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("host", help="the host's name")
        parser.add_argument(
            "--order", metavar="PACK,PACK,…", help="another order of packs; those not named come last, as they stand"
        )
        parser.add_argument("--rate", type=float, metavar="KB", help="go by so many kB/s instead of what was measured")
        parser.add_argument("--json", action="store_true", help="figures for programs: seconds, bytes, UTC times")

    def handle(self, *args: Any, **options: Any) -> None:
        plan = Plan.objects.select_related("host").filter(host__name=options["host"]).first()
        if plan is None:
            raise CommandError(f"There is no host called “{options['host']}” that has a plan.")
        board = _board(plan, options)
        self.stdout.write(json.dumps(_figures(board), indent=2) if options["json"] else _told(board))


def _board(plan: Plan, options: dict[str, Any]) -> Board:
    rate = options["rate"]
    if rate is not None and not 0 < rate < 1e15:
        raise CommandError("--rate is a number of kB/s above zero.")
    paces = paces_of(plan, rate=None if rate is None else rate * 1000)
    board = forecast_board(board_of(plan), paces=paces)
    if not options["order"]:
        return board
    try:
        return order_named(board, [name.strip() for name in options["order"].split(",") if name.strip()])
    except KeyError as error:
        known = ", ".join(row.pack.name for row in board.rows)
        raise CommandError(f"The plan has no pack called “{error.args[0]}”. It has: {known}.") from error


def _figures(board: Board) -> dict[str, Any]:
    paces, outlook = board.paces, board.outlook
    goodput = paces.goodput if paces is not None else None
    needs = outlook.needs if outlook is not None else {}
    return {
        "host": board.host.name,
        "at": paces.at.isoformat(timespec="seconds") if paces is not None else None,
        "basis": goodput.basis if goodput is not None else None,
        "bytes_per_second": round(goodput.mean) if goodput is not None else None,
        "measured_seconds": round(goodput.measured_seconds) if goodput is not None else 0,
        "measured_alike": goodput.alike if goodput is not None and goodput.basis == "measured" else None,
        "measured_under_limit": goodput is not None and goodput.is_limited,
        "is_limited": paces is not None and paces.paces is not None and paces.paces.limits is not None,
        "packs": [
            {
                "name": row.pack.name,
                "state": row.state,
                "left_bytes": row.left_bytes,
                **_times(row.times, paces),
            }
            for row in board.rows
        ],
        "capabilities": [{"name": name, **_times(times, paces)} for name, times in needs.items()],
        "everything": _times(outlook.everything if outlook is not None else None, paces),
    }


def _times(times: Times | None, paces: HostPaces | None) -> dict[str, Any]:
    if times is None or paces is None:
        return {"expected_seconds": None, "likely_by_seconds": None}
    return {"expected_seconds": round(times.expected_seconds), "likely_by_seconds": round(times.likely_by_seconds)}


def _told(board: Board) -> str:
    paces, outlook = board.paces, board.outlook
    goodput = paces.goodput if paces is not None else None
    if paces is None or goodput is None:
        return (
            f"{board.host}: nothing was measured in the last hours and no rate is stated, so no time can be given. "
            "State one on the forecast's page, or ask with --rate."
        )
    how = f"over {duration(goodput.measured_seconds)}" if goodput.basis == "measured" else "by nobody's measurement"
    lines = [f"{board.host}: by {bytes_rate(goodput.mean)}, {goodput.basis} {how}.", ""]
    lines.append(_line("pack", "state", "left", "expected in", "likely by (UTC)"))
    for row in board.rows:
        lines.append(_line(row.pack.name, row.state, bytes_short(row.left_bytes), *_columns(row.times, paces)))
    if outlook is not None and outlook.needs:
        lines += ["", _line("capability", "", "", "expected in", "likely by (UTC)")]
        lines += [_line(name, "", "", *_columns(times, paces)) for name, times in outlook.needs.items()]
    if outlook is not None and outlook.everything is not None:
        lines += ["", _line("everything that may move", "", "", *_columns(outlook.everything, paces))]
    return "\n".join(line.rstrip() for line in lines)


def _columns(times: Times | None, paces: HostPaces) -> tuple[str, str]:
    if times is None:
        return "–", "–"
    try:
        likely = f"{paces.at + timedelta(seconds=times.likely_by_seconds):%Y-%m-%d %H:%M}"
    except OverflowError:
        likely = "beyond the calendar"
    return duration(times.expected_seconds), likely


def _line(name: str, state: str, left: str, expected: str, likely: str) -> str:
    return f"{name:<40} {state:<15} {left:>10}  {expected:>15}  {likely}"
