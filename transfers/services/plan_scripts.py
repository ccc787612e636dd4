"""A plan's fetch as a shell script that needs nothing of this product: `transfers.engine.fetch_script` on rows."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.lifecycle import Actor
from calculet.people.roles import Act, require
from inventory.connect import ChannelMissing, channel_of, pinned_of
from inventory.models import Host
from transfers.engine.fetch_script import Reach, ScriptBuild, ScriptRefused, fetch_script
from transfers.engine.landing import NameRefused
from transfers.models import Build, BuildState, Landing, Plan
from transfers.selectors.board import HOME, PackRow, board_of
from transfers.selectors.specs import build_folder, build_spec

JOBS = 4
JOBS_AT_MOST = 32


@dataclass(frozen=True, slots=True)
class PlanScript:
    """The script, the packs that it brings in order, and (name, why) of packs in force that it does not."""

    content: bytes
    packs: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


def plan_script_export(*, plan: Plan, actor: Actor, jobs: int = JOBS) -> PlanScript:
    """Make the script for what lies packed on the host and is not home, in execution order; `jobs` chunks at a time.

    Raises NotAllowed, ValidationError (no pinned key, nothing to bring, a name that cannot be written here).
    """
    require(actor.user, Act.FETCH)
    if not 1 <= jobs <= JOBS_AT_MOST:
        raise ValidationError(_("Between 1 and %(most)s chunks come at a time.") % {"most": JOBS_AT_MOST})
    rows = [row for row in board_of(plan).rows if row.item is not None]
    left_out = tuple((row.pack.name, why) for row in rows if (why := _why_left_out(row)))
    builds = [row.build for row in rows if row.build is not None and not _why_left_out(row)]
    if not builds:
        raise ValidationError(_("Nothing lies packed on the host that is not here yet, so a script would be empty."))
    landing = builds[0].landing
    elsewhere = tuple(
        (build.pack.name, f"lands in “{build.landing}”, not in “{landing}”")
        for build in builds
        if build.landing_id != landing.pk
    )
    builds = [build for build in builds if build.landing_id == landing.pk]
    left_out += elsewhere
    try:
        content = fetch_script(
            reach=_reach(plan.host),
            landing=landing.path,
            builds=[_script_build(build, landing) for build in builds],
            jobs=jobs,
            notes=_notes(plan, builds, left_out),
        )
    except (ScriptRefused, NameRefused, ChannelMissing) as error:
        raise ValidationError(str(error)) from error
    names = tuple(build.pack.name for build in builds)
    with transaction.atomic():
        detail = {"packs": list(names), "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        audit.record(act="plan.export_script", actor=actor, subject=plan, host=plan.host, detail=detail)
    return PlanScript(content, names, left_out)


def _why_left_out(row: PackRow) -> str:
    """Why the script does not bring a pack, in a few words; empty when it does."""
    if row.build is None or row.state in (BuildState.PLANNED, BuildState.PACKING):
        return "is not packed on the host yet"
    if row.state in HOME:
        return "is here already"
    if row.state not in (BuildState.PACKED, BuildState.FETCHING):
        return f"is in the state “{row.build.get_state_display()}”"
    if row.pack.on_hold:
        return "is on hold"
    return "is paused" if row.pack.is_paused else ""


def _reach(host: Host) -> Reach:
    channel = channel_of(host)
    key = pinned_of(channel)
    if key is None:
        raise ScriptRefused(
            f"No key of {host} is pinned, so the script could not tell it from another machine. Pin its key first."
        )
    blob = base64.b64encode(bytes(key.blob)).decode()
    return Reach(channel.address, channel.port, channel.username, key.key_type, blob)


def _script_build(build: Build, landing: Landing) -> ScriptBuild:
    folder = build_folder(build).relative_to(landing.path)
    title = f"{build.pack.plan.host.name}/{build.pack.name}/{build.number}"
    return ScriptBuild(title, str(folder), build_spec(build), build.sha256)


def _notes(plan: Plan, builds: list[Build], left_out: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f"Brings what the plan of {plan.host} had packed on {timezone.now():%Y-%m-%d %H:%M} UTC, without the product:"
    yield "it needs ssh, dd, sha256sum, a POSIX shell and the small tools of every system (mkdir, mv, rm, wc, sleep)."
    yield "Packs, in order: " + ", ".join(build.pack.name for build in builds) + "."
    for name, why in left_out:
        yield f"Not in it: {name} {why}."
