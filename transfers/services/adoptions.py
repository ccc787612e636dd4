"""Taking over bytes that are on this machine: asked for by a person, or from an earlier build of the same pack.

    compare   what is offered is read and compared by digest with the source; the saving is shown
    put       what matched is copied into the build, or the file itself is taken, by consent; the rest is fetched

Until an adoption has ended its build is not fetched, so that nothing is brought that is here.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.audit import services as audit
from calculet.leases.services import Held, LeaseTaken, lease_acquire, lease_hold, lease_release, lease_request_stop
from calculet.lifecycle import SYSTEM, Actor, StateConflict, advance
from calculet.named_folders import Obstacle, PathNotAllowed, path_allowed
from calculet.people.roles import Act, require
from inventory.connect import open_remote
from inventory.remote.base import PermanentError, TransientError
from inventory.remote.names import RemoteName
from transfers.engine.adopt import (
    AdoptionRefused,
    BlockSet,
    Compared,
    Offer,
    Stretch,
    block_asker,
    compare,
    offer_of_build,
)
from transfers.engine.adopt_look import look_at
from transfers.engine.adopt_put import put, why_not_taken
from transfers.engine.cellmap import LedgerBusy
from transfers.engine.clock import SystemClock
from transfers.engine.geometry import Geometry
from transfers.engine.landing import LandingError, LandingFull
from transfers.engine.types import BuildSpec
from transfers.engine.verify import Stopped
from transfers.models import Adoption, AdoptionState, AdoptionWay, Build, BuildState
from transfers.selectors.adoptions import adoptions_active, has_landed
from transfers.selectors.specs import build_spec
from transfers.services.turns import Heart

# Digests are known from *packed* on; what is asked for before waits until then.
ADOPTABLE = (
    BuildState.PLANNED,
    BuildState.PACKING,
    BuildState.NEEDS_DECISION,
    BuildState.PACKED,
    BuildState.FETCHING,
)
KEEP_SECONDS = 3.0  # how often progress is kept
RETRY_SECONDS = 15.0
LEDGER_SECONDS = 3.0  # a link lets go of a build about that fast


def adoption_lease_name(adoption_id: int) -> str:
    """The lease of one adoption."""
    return f"adoption:{adoption_id}"


_OBSTACLES = {
    Obstacle.NO_FOLDERS: "no folder is named for this; an administrator sets CALCULET_ADOPT_DIRS",
    Obstacle.NOT_ABSOLUTE: "it is not an absolute path",
    Obstacle.NOT_THERE: "it is not there",
    Obstacle.OUTSIDE: "it does not lie below a folder that CALCULET_ADOPT_DIRS names",
}


def _allowed(path: Path) -> Path:
    """The real path of what is offered. Raises AdoptionRefused."""
    try:
        return path_allowed(path, settings.ADOPT_DIRS)
    except PathNotAllowed as error:
        raise AdoptionRefused(path, error.why or _OBSTACLES[error.obstacle]) from error


def adoption_request(*, build: Build, path: Path, way: AdoptionWay, actor: Actor) -> Adoption:
    """Ask for local bytes to be compared and taken over. Raises NotAllowed, ValidationError."""
    require(actor.user, Act.FETCH)
    if build.state not in ADOPTABLE:
        raise ValidationError(
            _("Bytes can be taken over until a build is received; this one is “%(state)s”. Nothing was changed.")
            % {"state": _(build.get_state_display())}
        )
    try:
        real = _allowed(path)
    except AdoptionRefused as error:
        raise ValidationError(str(error)) from error
    return _create(build, actor, path=RemoteName(os.fsencode(real)), way=way)


def adoption_from_former(*, build: Build, former: Build | None) -> None:
    """Let a build that was just packed take over what an earlier one of its pack brought; None: there is none.

    Called in the transaction of the act that packed it, so that no link begins before.
    """
    if former is not None and not adoptions_active(build).exists():
        _create(build, SYSTEM, former=former, way=AdoptionWay.COPY)


def _create(build: Build, actor: Actor, **fields: Any) -> Adoption:
    try:
        with transaction.atomic():
            adoption = Adoption.objects.create(build=build, requested_by=actor.user, **fields)
            detail = {"build": str(build), "from": str(adoption.former or adoption.path), "way": adoption.way}
            host = build.pack.plan.host
            audit.record(act="adoption.request", actor=actor, subject=adoption, host=host, detail=detail)
    except IntegrityError as error:
        raise ValidationError(
            _("Bytes are being taken over into this build already. Let that end, or leave it alone first.")
        ) from error
    return adoption


def adoption_accept(*, adoption: Adoption, way: AdoptionWay, actor: Actor) -> None:
    """Copy what matched, or take the file itself. Raises NotAllowed, ValidationError, StateConflict."""
    require(actor.user, Act.FETCH)
    if way is AdoptionWay.ASK:
        raise ValidationError(_("Say whether it is copied or taken. Nothing was changed."))
    if way is AdoptionWay.TAKE and adoption.not_taken:
        raise ValidationError(_("The file cannot be taken: %(why)s. Let it be copied.") % {"why": adoption.not_taken})
    detail = {"way": way.value, "bytes": adoption.matched_bytes}
    advance(adoption, AdoptionState.COPYING, act="adoption.accept", actor=actor, detail=detail, way=way, problem="")


def adoption_leave(*, adoption: Adoption, actor: Actor) -> None:
    """Leave the local bytes alone: the build is fetched as if they were not there. Raises NotAllowed, StateConflict."""
    require(actor.user, Act.FETCH)
    advance(adoption, AdoptionState.LEFT, act="adoption.leave", actor=actor, finished_at=timezone.now(), problem="")
    lease_request_stop(name=adoption_lease_name(adoption.pk))


def adoption_run(adoption_id: int) -> None:
    """Take an adoption as far as it goes without a person. Safe to run twice: the lease and the state decide."""
    held = lease_acquire(name=adoption_lease_name(adoption_id))
    if held is None:
        return
    try:
        rows = Adoption.objects.filter(pk=adoption_id)
        adoption = rows.select_related("build__pack__plan__host", "build__landing", "former__landing").first()
        if adoption is not None:
            with Heart(held) as heart:
                _Adopting(adoption, held, heart).run()
    except (LeaseTaken, Stopped, StateConflict):
        return
    finally:
        lease_release(held)


class _Adopting:
    """One turn with one adoption."""

    def __init__(self, adoption: Adoption, held: Held, heart: Heart) -> None:
        self._adoption, self._held, self._heart = adoption, held, heart
        self._build, self._clock = adoption.build, SystemClock()
        self._kept_at = self._clock.monotonic()

    def run(self) -> None:
        """Compare what is queued, put what is agreed. Raises LeaseTaken, Stopped, StateConflict."""
        adoption = self._adoption
        if self._build.state not in (BuildState.PACKED, BuildState.FETCHING):
            if self._build.state not in ADOPTABLE:
                self._fail(_("The build went on without it: it is “%s”.") % _(self._build.get_state_display()))
            return
        try:
            spec = build_spec(self._build)
            offer = self._offer(spec)
            if adoption.state == AdoptionState.QUEUED:
                self._begin(offer)
            if adoption.state == AdoptionState.COMPARING:
                self._compare(spec, offer)
            if adoption.state == AdoptionState.COPYING:
                self._put(spec, offer)
        except (TransientError, LandingFull) as error:
            self._wait(str(error))
        except (AdoptionRefused, LandingError, PermanentError) as error:
            self._fail(str(error))
        except OSError as error:
            self._fail(str(AdoptionRefused(Path(error.filename or ""), (error.strerror or str(error)).lower())))

    def _offer(self, spec: BuildSpec) -> Offer:
        """What is offered, allowed anew each time: settings and links may have changed. Raises AdoptionRefused."""
        adoption = self._adoption
        if adoption.former is not None:
            return offer_of_build(build_spec(adoption.former), spec, is_landed=has_landed(adoption.former))
        path = Path(os.fsdecode(adoption.path.raw))
        if adoption.state == AdoptionState.COPYING and adoption.way == AdoptionWay.TAKE and not path.exists():
            # It was renamed by an attempt that was killed: what it offered is known from the look.
            return Offer((Stretch(0, min(adoption.identity[0][2], spec.size_bytes), path, 0),))
        return look_at(_allowed(path), spec)

    def _begin(self, offer: Offer) -> None:
        with transaction.atomic():
            lease_hold(self._held)
            advance(
                self._adoption,
                AdoptionState.COMPARING,
                act="adoption.compare",
                actor=SYSTEM,
                offered_bytes=offer.offered_bytes,
                remarks=list(offer.remarks),
                identity=offer.identity(),
                problem="",
            )

    def _compare(self, spec: BuildSpec, offer: Offer) -> None:
        adoption = self._adoption
        geometry = Geometry(spec.chunks)
        begin = now = Compared(adoption.next_chunk, adoption.read_bytes, BlockSet(geometry, bytes(adoption.matched)))
        if offer.identity() != adoption.identity:  # other files by now: from the beginning
            begin = now = Compared(0, 0, BlockSet(geometry))
            self._save(identity=offer.identity(), offered_bytes=offer.offered_bytes)
        remote = open_remote(self._build.pack.plan.host)
        try:
            for now in compare(spec, offer, block_asker(remote, spec), begin=begin, stop=self._heart):
                if self._is_time_to_keep():
                    self._save(**_progress(now))
        finally:
            remote.close()
        self._note_compared(spec, offer, now)

    def _note_compared(self, spec: BuildSpec, offer: Offer, now: Compared) -> None:
        adoption = self._adoption
        fields = _progress(now)
        fields["not_taken"] = _("it is another build's") if adoption.former_id else why_not_taken(offer, spec)
        total = now.matched.total_bytes
        is_agreed = adoption.way == AdoptionWay.COPY or (adoption.way == AdoptionWay.TAKE and not fields["not_taken"])
        to = AdoptionState.COPYING if is_agreed else AdoptionState.COMPARED
        if not total:
            to, fields["finished_at"] = AdoptionState.FINISHED, timezone.now()
        detail = {"bytes": total, "offered": adoption.offered_bytes}
        with transaction.atomic():
            lease_hold(self._held)
            advance(adoption, to, act="adoption.compared", actor=SYSTEM, detail=detail, **fields)

    def _put(self, spec: BuildSpec, offer: Offer) -> None:
        adoption = self._adoption
        matched = BlockSet(Geometry(spec.chunks), bytes(adoption.matched))
        take = adoption.way == AdoptionWay.TAKE
        until = self._clock.monotonic() + LEDGER_SECONDS
        while True:
            try:
                done = put(spec, offer, matched, take=take, stop=self._heart, progress=self._note_put)
                break
            except LedgerBusy as error:
                if self._clock.monotonic() > until:
                    self._wait(str(error))
                    return
                self._clock.sleep(0.2)
        with transaction.atomic():
            lease_hold(self._held)
            here = adoption.build.received_bytes + done.new_bytes
            Build.objects.filter(pk=adoption.build_id, received_bytes__lt=here).update(received_bytes=here)
            advance(
                adoption,
                AdoptionState.FINISHED,
                act="adoption.finish",
                actor=SYSTEM,
                detail={"bytes": done.new_bytes, "had": done.had_bytes, "way": adoption.way},
                copied_bytes=done.new_bytes,
                had_bytes=done.had_bytes,
                finished_at=timezone.now(),
                problem="",
            )

    def _note_put(self, handled_bytes: int) -> None:
        if self._is_time_to_keep():
            self._save(copied_bytes=handled_bytes)

    def _is_time_to_keep(self) -> bool:
        now = self._clock.monotonic()
        if now - self._kept_at < KEEP_SECONDS:
            return False
        self._kept_at = now
        return True

    def _save(self, **fields: Any) -> None:
        with transaction.atomic():
            lease_hold(self._held)
            Adoption.objects.filter(pk=self._adoption.pk).update(**fields)
        for name, value in fields.items():
            setattr(self._adoption, name, value)

    def _wait(self, sentence: str) -> None:
        self._save(problem=sentence, not_before=timezone.now() + timedelta(seconds=RETRY_SECONDS))

    def _fail(self, sentence: str) -> None:
        with transaction.atomic():
            lease_hold(self._held)
            advance(
                self._adoption,
                AdoptionState.FAILED,
                act="adoption.fail",
                actor=SYSTEM,
                detail={"why": sentence},
                problem=sentence,
                finished_at=timezone.now(),
            )


def _progress(now: Compared) -> dict[str, Any]:
    return {
        "next_chunk": now.next_chunk,
        "read_bytes": now.read_bytes,
        "matched_bytes": now.matched.total_bytes,
        "matched": now.matched.to_bytes(),
    }
