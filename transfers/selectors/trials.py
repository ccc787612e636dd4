"""Trials as pages and ticks ask for them: how far one is, what it found, which ones should end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from inventory.models import Host
from transfers.engine.trial import Block, Result, judge
from transfers.models import BuildState, Trial, TrialBlock, TrialEnd, TrialState
from transfers.selectors.work import builds_in_force

_PATIENCE = 4  # times its own length: a host that was away for most of it tells nothing any more
_LEAST_PATIENCE = timedelta(hours=24)  # quiet hours and pauses of a day are waited for


@dataclass(frozen=True, slots=True)
class TrialView:
    """A trial with its blocks in order and what they say by now."""

    trial: Trial
    blocks: tuple[TrialBlock, ...]
    result: Result

    @property
    def done(self) -> int:
        return sum(block.done_at is not None for block in self.blocks)

    @property
    def current(self) -> TrialBlock | None:
        """The block that is counted now."""
        if self.trial.state != TrialState.RUNNING:
            return None
        return next((block for block in self.blocks if block.done_at is None), None)

    @property
    def left_seconds(self) -> float:
        """About how long the blocks that are not done take."""
        return (len(self.blocks) - self.done) * (self.trial.block_seconds + self.trial.ramp_seconds)

    @property
    def new_bytes(self) -> int:
        """Distinct bytes that came in counted blocks."""
        return sum(block.new_bytes for block in self.blocks)


def trial_view(trial: Trial) -> TrialView:
    """A trial with what it found so far."""
    blocks = tuple(trial.blocks.order_by("position"))
    counted = [
        Block(
            lanes=block.lanes,
            seconds=block.seconds,
            new_bytes=block.new_bytes,
            wire_bytes=block.wire_bytes,
            refusals=block.refusals,
            redials=block.redials,
            stalled_seconds=block.stalled_seconds,
            limited_seconds=block.limited_seconds,
        )
        for block in blocks
        if block.done_at is not None
    ]
    return TrialView(trial, blocks, judge(trial.levels, counted))


def trial_running(host: Host) -> Trial | None:
    """The trial that runs on a host."""
    return Trial.objects.filter(host=host, state=TrialState.RUNNING).first()


def has_work(host: Host, *, with_stopped: bool = False) -> bool:
    """True while the host's plan has packs that may still bring bytes: made, being made, or to be made.

    `with_stopped`: packs that are paused or on hold count as well.
    """
    states = [BuildState.PLANNED, BuildState.PACKING, BuildState.PACKED, BuildState.FETCHING]
    builds = builds_in_force().filter(pack__plan__host=host, state__in=states)
    if not with_stopped:
        builds = builds.filter(pack__is_paused=False, pack__on_hold=False)
    return builds.exists()


def trials_over(*, at: datetime | None = None) -> list[tuple[Trial, TrialEnd]]:
    """Running trials that cannot come to their end: nothing is left to fetch, or they took far too long."""
    now, over = at or timezone.now(), []
    for trial in Trial.objects.filter(state=TrialState.RUNNING).select_related("host"):
        planned = trial.blocks.count() * (trial.block_seconds + trial.ramp_seconds)
        if now > trial.started_at + max(_LEAST_PATIENCE, timedelta(seconds=_PATIENCE * planned)):
            over.append((trial, TrialEnd.LATE))
        elif not has_work(trial.host, with_stopped=True):
            over.append((trial, TrialEnd.DRY))
    return over
