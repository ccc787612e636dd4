"""Unpacking: usable files from an opened build, in a fresh folder, members checked again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from calculet.audit import services as audit
from calculet.leases.services import Held, LeaseTaken, lease_acquire, lease_hold, lease_release
from calculet.lifecycle import SYSTEM, Actor, advance
from calculet.people.roles import Act, require
from inventory.remote.names import escape
from transfers.engine.landing import LandingError, LandingFull, need_room
from transfers.engine.opens.base import ContentError, Watch
from transfers.engine.unpack import UnpackDiffers, Unpacked, unpack_file, unpack_files
from transfers.engine.unpack_satisfied import expected_of
from transfers.engine.verify import Stopped
from transfers.models import Build, BuildState, Mode, Unpack, UnpackState
from transfers.selectors.satisfying import carriers_awaited, satisfied_for_unpack, total_of
from transfers.selectors.specs import landed_path, list_members
from transfers.services.turns import Heart

REMARKS_KEPT = 200
log = logging.getLogger(__name__)


def unpack_lease_name(unpack_id: int) -> str:
    """The lease of one unpack act."""
    return f"unpack:{unpack_id}"


def unpack_request(*, build: Build, actor: Actor) -> Unpack:
    """Ask for usable files of an opened build. Raises NotAllowed, ValidationError."""
    require(actor.user, Act.UNPACK)
    if build.state not in (BuildState.OPENED, BuildState.PERMITTED, BuildState.CLEARED):
        raise ValidationError(
            _("Only an opened build can be unpacked; this one is “%(state)s”.")
            % {"state": _(build.get_state_display())}
        )
    try:
        with transaction.atomic():
            host = build.pack.plan.host
            unpack = Unpack.objects.create(
                build=build, folder=f"{host.name}/unpacked/{build.pack.name}", requested_by=actor.user
            )
            audit.record(act="unpack.request", actor=actor, subject=unpack, detail={"folder": unpack.folder})
    except IntegrityError as error:
        raise ValidationError(_("This build is being unpacked already. Nothing was done a second time.")) from error
    return unpack


def unpack_run(unpack_id: int) -> None:
    """Do an unpack act that is asked for or was cut off. Safe to run twice."""
    held = lease_acquire(name=unpack_lease_name(unpack_id))
    if held is None:
        return
    try:
        rows = Unpack.objects.select_related("build__pack__plan__host", "build__landing", "build__member_list")
        unpack = rows.filter(pk=unpack_id, state__in=[UnpackState.QUEUED, UnpackState.RUNNING]).first()
        if unpack is not None and not _waits(unpack, held):
            _run(unpack, held)
    except (LeaseTaken, Stopped):
        return
    finally:
        lease_release(held)


def _waits(unpack: Unpack, held: Held) -> bool:
    """True while packs that carry files of this one are not opened; the act then says which ones it waits for."""
    awaited = carriers_awaited(unpack.build)
    if awaited:
        sentence = waiting_words(awaited)
        with transaction.atomic():
            lease_hold(held)
            Unpack.objects.filter(pk=unpack.pk).exclude(problem=sentence).update(problem=sentence)
    return bool(awaited)


def waiting_words(names: Sequence[str]) -> str:
    """What an unpack waits for, as a sentence."""
    return ngettext(
        "It waits for pack “%(packs)s”, which carries files of this one and is not opened. It begins by itself then.",
        "It waits for the packs “%(packs)s”, which carry files of this one and are not opened. It begins by itself "
        "then.",
        len(names),
    ) % {"packs": _("”, “").join(names)}


def _run(unpack: Unpack, held: Held) -> None:
    if unpack.state == UnpackState.QUEUED:
        with transaction.atomic():
            lease_hold(held)
            advance(unpack, UnpackState.RUNNING, act="unpack.begin", actor=SYSTEM, problem="")
    try:
        with Heart(held) as heart:
            done = _unpack(unpack, Watch(stop=heart))
    except LandingFull as error:
        _fail(unpack, held, f"{error} " + _("Unpacking begins when it is asked for again."))
        return
    except (ContentError, LandingError, UnpackDiffers) as error:
        _fail(unpack, held, str(error))
        return
    except (LeaseTaken, Stopped):
        raise
    except DatabaseError:
        log.exception("unpack %s was cut off by the database; it is taken up again", unpack.pk)
        return
    except Exception:
        log.exception("unpack %s failed by a fault of the program", unpack.pk)
        _fail(
            unpack,
            held,
            _(
                "Unpacking ended by a fault of this program; the log of the worker has it. The pack is untouched and "
                "nothing was published. Ask for it again; if it fails again, hand the log to whoever runs this program."
            ),
        )
        return
    remarks = [f"{escape(one.name)}: {one.what}, {one.detail}" for one in done.remarks[:REMARKS_KEPT]]
    with transaction.atomic():
        lease_hold(held)
        advance(
            unpack,
            UnpackState.FINISHED,
            act="unpack.finish",
            actor=SYSTEM,
            detail={"members": done.members, "bytes": done.bytes_written, "checked": done.checked, "remarks": remarks},
            members=done.members,
            bytes_written=done.bytes_written,
            finished_at=timezone.now(),
            problem="",
        )


def _fail(unpack: Unpack, held: Held, sentence: str) -> None:
    with transaction.atomic():
        lease_hold(held)
        detail = {"why": sentence}
        advance(unpack, UnpackState.FAILED, act="unpack.fail", actor=SYSTEM, detail=detail, problem=sentence)


def _unpack(unpack: Unpack, watch: Watch) -> Unpacked:
    build = unpack.build
    target, act = Path(build.landing.path) / unpack.folder, str(unpack.pk)
    members = list(list_members(build.member_list or build.entry_list))
    satisfied = satisfied_for_unpack(build)
    need_room(target.parent, total_of(members) + total_of(satisfied.members))
    if build.mode == Mode.FILES:
        return unpack_files(landed_path(build), target, members, act=act, satisfied=satisfied, watch=watch)
    expected = expected_of(members)
    return unpack_file(landed_path(build), target, expected, act=act, satisfied=satisfied, watch=watch)
