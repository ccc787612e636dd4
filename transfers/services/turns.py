"""What run acts on one build share: the lease, its heartbeat, and an honest end whatever happens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self

from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.leases.services import Held, LeaseTaken, lease_acquire, lease_beat, lease_hold, lease_release
from calculet.lifecycle import SYSTEM, StateConflict, advance
from transfers.engine.verify import Stopped
from transfers.models import Build, BuildState
from transfers.services.builds import build_lease_name

log = logging.getLogger(__name__)
BEAT_SECONDS = 5.0
FAULT_PAUSE_SECONDS = 60


class Heart:
    """Keeps a lease alive from a thread of its own, so that a long sync or a slow host does not lose it.

    Call it to learn whether the act should end: it was asked to stop, or the lease is another worker's by now.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self._ended, self._is_over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heart of {held.name}", daemon=True)

    def __call__(self) -> bool:
        return self._is_over.is_set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            try:
                if lease_beat(self._held):
                    self._is_over.set()
            except LeaseTaken:
                self._is_over.set()
                return
            except DatabaseError as error:  # busy or gone for a moment; the lease lasts longer than that
                log.warning("The lease “%s” could not be kept alive just now: %s", self._held.name, error)
            finally:
                connection.close()


@dataclass(frozen=True, slots=True)
class BuildTurn:
    """A build that is ours to work on, the lease it is held by, and the stop flag to ask."""

    build: Build
    held: Held
    heart: Heart

    def keep(self) -> None:
        """Before anything on the disk changes its name: see that the lease is still ours. Raises LeaseTaken."""
        lease_beat(self.held)

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

    def wait(self, sentence: str, *, seconds: float) -> None:
        """The build keeps its state, says why it waits, and is taken up again after a while. Raises LeaseTaken."""
        with transaction.atomic():
            lease_hold(self.held)
            later = timezone.now() + timedelta(seconds=seconds)
            Build.objects.filter(pk=self.build.pk).update(problem=sentence, not_before=later)


@contextmanager
def build_turn(build_id: int, *states: str) -> Iterator[BuildTurn | None]:
    """Hold the build's lease; None when it is gone, in none of these states, or in another worker's hands.

    A stop and a lost lease end the act in silence: the row still says what is to be done, and the tick starts it again.
    A fault of the program is logged, told on the build, and tried again later.
    """
    held = lease_acquire(name=build_lease_name(build_id))
    if held is None:
        yield None
        return
    try:
        rows = Build.objects.select_related("pack__plan__host", "landing", "entry_list", "member_list")
        build = rows.filter(pk=build_id, state__in=states).first()
        if build is None:
            yield None
            return
        with Heart(held) as heart:
            yield BuildTurn(build, held, heart)
    except (LeaseTaken, Stopped, StateConflict) as ending:
        log.info("The work on build %s ended early (%s); it will be taken up again.", build_id, ending)
    except Exception:
        log.exception("The work on build %s ended by a fault of the program.", build_id)
        sentence = _(
            "This step ended by a fault of this program; the log of the worker has it. What is here is kept, and the "
            "step is tried again."
        )
        later = timezone.now() + timedelta(seconds=FAULT_PAUSE_SECONDS)
        Build.objects.filter(pk=build_id).update(problem=sentence, not_before=later)
    finally:
        lease_release(held)
