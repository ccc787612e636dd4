"""What run acts on one build share: the lease, the heartbeat inside long reads, and an honest end."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import transaction

from calculet.leases.services import Held, LeaseTaken, lease_acquire, lease_beat, lease_hold, lease_release
from calculet.lifecycle import SYSTEM, advance
from transfers.engine.verify import Stopped
from transfers.models import Build, BuildState
from transfers.services.builds import build_lease_name

log = logging.getLogger(__name__)
BEAT_SECONDS = 3.0


class Heart:
    """A stop flag that keeps a lease alive while it is asked. Ask it at least every few seconds, from one thread."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._next = 0.0
        self._is_over = False

    def __call__(self) -> bool:
        """True when the act should end: it was asked to stop, or the lease is another worker's by now."""
        now = time.monotonic()
        if not self._is_over and now >= self._next:
            self._next = now + BEAT_SECONDS
            try:
                self._is_over = lease_beat(self._held)
            except LeaseTaken:
                self._is_over = True
        return self._is_over


@dataclass(frozen=True, slots=True)
class BuildTurn:
    """A build that is ours to work on, the lease it is held by, and the stop flag to ask."""

    build: Build
    held: Held
    heart: Heart

    def fail(self, sentence: str) -> None:
        """The build can't go on until a person acts. Raises LeaseTaken."""
        with transaction.atomic():
            lease_hold(self.held)
            advance(
                self.build,
                BuildState.FAILED,
                act="build.fail",
                actor=SYSTEM,
                detail={"why": sentence},
                problem=sentence,
            )


@contextmanager
def build_turn(build_id: int, state: str) -> Iterator[BuildTurn | None]:
    """Hold the build's lease; None when it is gone, in another state, or in another worker's hands.

    A stop and a lost lease end the act in silence: the row still says what is to be done, and the tick starts it again.
    """
    held = lease_acquire(name=build_lease_name(build_id))
    if held is None:
        yield None
        return
    try:
        rows = Build.objects.select_related("pack__plan__host", "landing", "entry_list", "member_list")
        build = rows.filter(pk=build_id, state=state).first()
        yield BuildTurn(build, held, Heart(held)) if build is not None else None
    except (LeaseTaken, Stopped) as ending:
        log.info("The work on build %s ended early (%s); it will be taken up again.", build_id, type(ending).__name__)
    finally:
        lease_release(held)
