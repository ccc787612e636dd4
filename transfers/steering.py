"""What drives a link, on rows: how many lanes, how fast, and what was seen of it.

The ledger asks here for directions and gives every sample. Lanes come from a running trial, else from the level that a
person set, else from steering; each decision is a row with its figures and its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from calculet.lifecycle import SYSTEM, StateConflict, advance
from inventory.models import Host
from transfers.engine.control import Decision, Steering, begin, step
from transfers.engine.trial import Block, count
from transfers.engine.types import LaneReading, Sample
from transfers.models import LaneDecision, LaneMinute, LaneSetting, Trial, TrialBlock, TrialEnd, TrialState
from transfers.selectors.allowance import Allowance, allowance_of, lanes_under

DECISIONS_KEPT = 500  # of a host
MINUTES_KEPT = timedelta(hours=24)
REMEMBERED = timedelta(hours=24)  # a number of lanes found good is begun with again for so long
MINUTE_WRITTEN_SECONDS = 10.0
_LIMIT_HOLDS = 0.8  # of what is allowed: from here on the rate says nothing about lanes


@dataclass(frozen=True, slots=True)
class Source:
    """Where the number of lanes comes from: a block of a trial, a level that was set, or steering (neither)."""

    trial_id: int | None = None
    level: int | None = None

    @property
    def kind(self) -> str:
        if self.trial_id is not None:
            return LaneDecision.Source.TRIAL
        return LaneDecision.Source.STEERING if self.level is None else LaneDecision.Source.PERSON


class LinkDriver:
    """Made once for a run of a link. `note` is called inside a transaction that holds the link's lease."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.allowance = Allowance(None)
        self.lanes = host.lanes
        self._most = host.lanes
        self._source: Source | None = None
        self._steering: Steering | None = None
        self._row: TrialBlock | None = None
        self._block = Block(0)
        self._minutes = _Minutes(host)

    def direct(self) -> int:
        """Look what is wanted now; returns the number of lanes. `allowance` tells how fast they may be."""
        self.allowance = allowance_of(self._host)
        setting = LaneSetting.objects.filter(host=self._host).first()
        self._most = lanes_under(setting)
        row = (
            TrialBlock.objects.filter(trial__host=self._host, trial__state=TrialState.RUNNING, done_at__isnull=True)
            .select_related("trial")
            .order_by("position")
            .first()
        )
        if row is not None:
            self._follow_trial(row)
        elif setting is not None and setting.level is not None:
            most = setting.most if setting.most is not None else setting.level
            self._follow_level(min(setting.level, most))
        else:
            self._steer()
        return self.lanes

    def _follow_trial(self, row: TrialBlock) -> None:
        if self._row is None or self._row.pk != row.pk:
            self._row, self._block = row, Block(row.lanes)
        self.lanes = row.lanes
        levels = ", ".join(str(level) for level in row.trial.levels)
        self._change_source(Source(trial_id=row.trial_id), f"Trial {row.trial_id} compares {levels} lanes.")

    def _follow_level(self, level: int) -> None:
        self._row = None
        self.lanes = level
        self._change_source(Source(level=level), f"A person set {level} lanes.")

    def _steer(self) -> None:
        self._row = None
        source = Source()
        if self._source != source or self._steering is None:
            self._steering, reason = self._begin()
            self.lanes = min(self._steering.lanes, self._most)
            self._change_source(source, reason)
        self.lanes = min(self._steering.lanes, self._most)

    def _begin(self) -> tuple[Steering, str]:
        """Begin with what was good lately, else with the host's own number."""
        if self._source is not None:
            return begin(self.lanes), f"Steering begins with the {self.lanes} lanes in use."
        last = LaneDecision.objects.filter(host=self._host, at__gt=timezone.now() - REMEMBERED).first()
        if last is not None and last.source == LaneDecision.Source.STEERING:
            return begin(last.lanes, is_known=True), f"The link begins with the {last.lanes} lanes that it used last."
        return begin(self._host.lanes), f"The link begins with the {self._host.lanes} lanes of the host's settings."

    def _change_source(self, source: Source, reason: str) -> None:
        if source != self._source:
            self._source = source
            self._keep(Decision(self.lanes, None, reason))

    def _keep(self, decision: Decision) -> None:
        rate = decision.rate
        LaneDecision.objects.create(
            host=self._host,
            at=timezone.now(),
            lanes=decision.lanes,
            source=self._source.kind if self._source is not None else LaneDecision.Source.STEERING,
            bytes_per_second=rate.mean if rate is not None else None,
            low_bytes_per_second=rate.low if rate is not None else None,
            high_bytes_per_second=rate.high if rate is not None else None,
            reason=decision.reason,
        )
        kept = LaneDecision.objects.filter(host=self._host)
        oldest = kept.values_list("pk", flat=True)[DECISIONS_KEPT : DECISIONS_KEPT + 1]
        if oldest:
            kept.filter(pk__lte=oldest[0]).delete()

    # -- samples ---------------------------------------------------------------------------------------------------

    def note(self, sample: Sample) -> None:
        """Take a sample into account; writes decisions, blocks and minutes."""
        self._minutes.note(sample, timezone.now())
        allowed = self.allowance.bytes_per_second
        is_limited = allowed is not None and sample.new_bytes >= _LIMIT_HOLDS * allowed * sample.seconds
        waiting = sum(lane.state == "waiting" for lane in sample.lanes)
        is_starved = allowed is None and waiting * 2 > len(sample.lanes)
        if self._row is not None:
            ramp = self._row.trial.ramp_seconds
            self._block = count(self._block, sample, ramp, is_limited=is_limited, is_starved=is_starved)
            if self._block.seconds >= self._row.trial.block_seconds:
                self._end_block(self._row, self._block)
        elif self._source == Source() and self._steering is not None:
            self._steering, decision = step(
                self._steering, sample, most=self._most, is_limited=is_limited, is_starved=is_starved
            )
            if decision is not None:
                self._keep(decision)

    def _end_block(self, row: TrialBlock, block: Block) -> None:
        """The block is done; the last one ends the trial."""
        now = timezone.now()
        TrialBlock.objects.filter(pk=row.pk, done_at__isnull=True, trial__state=TrialState.RUNNING).update(
            done_at=now,
            seconds=block.seconds,
            new_bytes=block.new_bytes,
            wire_bytes=block.wire_bytes,
            refusals=block.refusals,
            redials=block.redials,
            stalled_seconds=block.stalled_seconds,
            limited_seconds=block.limited_seconds,
        )
        self._row = None
        if not TrialBlock.objects.filter(trial=row.trial_id, done_at__isnull=True).exists():
            finish_trial(Trial.objects.get(pk=row.trial_id), now)


def finish_trial(trial: Trial, now: datetime) -> None:
    """All blocks are done."""
    try:
        advance(trial, TrialState.FINISHED, act="trial.finish", actor=SYSTEM, ended_at=now, ended_because=TrialEnd.DONE)
    except StateConflict:
        return  # a person stopped it in this moment


class _Minutes:
    """Sums what each lane does by the minute, and writes it every ten seconds."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._at: datetime | None = None
        self._written: datetime | None = None
        self._seconds = 0.0
        self._new_bytes = self._refusals = 0
        self._lanes: dict[int, list[float]] = {}
        self._last: dict[int, LaneReading] = {}

    def note(self, sample: Sample, now: datetime) -> None:
        minute = now.replace(second=0, microsecond=0)
        if minute != self._at:
            if self._at is not None:
                self._write(self._at)
                LaneMinute.objects.filter(host=self._host, at__lt=now - MINUTES_KEPT).delete()
            self._take_up(minute, now)
        self._seconds += sample.seconds
        self._new_bytes += sample.new_bytes
        self._refusals += sample.refusals
        for lane in sample.lanes:
            self._note_lane(lane, sample.seconds)
        self._last = {lane.number: lane for lane in sample.lanes}
        if self._written is None or (now - self._written).total_seconds() >= MINUTE_WRITTEN_SECONDS:
            self._written = now
            self._write(minute)

    def _take_up(self, minute: datetime, now: datetime) -> None:
        """Begin a minute, or go on with one that a link before this one began."""
        row = LaneMinute.objects.filter(host=self._host, at=minute).first()
        self._at, self._written = minute, now
        self._seconds = row.seconds if row is not None else 0.0
        self._new_bytes = row.new_bytes if row is not None else 0
        self._refusals = row.refusals if row is not None else 0
        self._lanes = {int(lane[0]): [*lane[1:]] for lane in row.lanes} if row is not None else {}

    def _note_lane(self, lane: LaneReading, seconds: float) -> None:
        sums = self._lanes.setdefault(lane.number, [0, 0.0, 0])
        before = self._last.get(lane.number)
        sums[0] += max(0, lane.brought_bytes - (before.brought_bytes if before is not None else 0))
        if lane.state == "working" and lane.silent_seconds >= 1.0:
            sums[1] = round(sums[1] + seconds, 1)
        sums[2] += max(0, lane.redials - (before.redials if before is not None else 0))

    def _write(self, minute: datetime) -> None:
        LaneMinute.objects.update_or_create(
            host=self._host,
            at=minute,
            defaults={
                "seconds": self._seconds,
                "new_bytes": self._new_bytes,
                "refusals": self._refusals,
                "lanes": [[number, *sums] for number, sums in sorted(self._lanes.items())],
            },
        )
