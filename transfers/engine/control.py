"""Steering: how many lanes a link uses. A pure function on samples, judged by the growth of distinct durable bytes.

    growing ──no more comes of it──> holding ──after a while──> trying more, or fewer ──> holding
       ^                                │
       └── only at the start            └── refused: fewer; far lower for long: the new rate is what tries go by

One connection over a link that loses packets carries a small part of it, and twice the connections carry twice that
until the link is full. So lanes are doubled while that brings clearly more. From then on a few more or a few fewer are
tried now and then, less and less often while nothing comes of it. A number that lost is compared once more with the one
that won, measured anew: fresh connections are fast until they lose their first packet, and links change.

Seconds while lanes connect are not judged, nor are those in which nothing came on any lane: they say that the link was
away, not how many lanes it wants.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from transfers.engine.types import Sample

LONG_ROUND_TRIP_SECONDS = 0.1
LANES_ON_A_LONG_LINK = 32  # at 180 ms and one lost packet in a hundred they bring 20 Mbit/s
SETTLE_SECONDS = 2.0  # for the first round trips, before a number of lanes is judged
DIAL_SECONDS = 15.0  # lanes that do not connect in this time are no reason to wait
SAMPLES_TO_JUDGE = 4
SAMPLES_TO_GROW = 8  # at the start: judged by the mean after so many, however noisy they are
SAMPLES_TO_TRY = 30
SAMPLES_KEPT = 60
CLEAR_GAIN = 1.08
SOME_GAIN = 1.03
NO_LOSS = 0.97  # fewer lanes that bring so much of what more brought are as good
FIRST_PATIENCE_SECONDS = 60.0
LAST_PATIENCE_SECONDS = 960.0
FALLEN = 0.6
FALLEN_SECONDS = 30.0  # one slow spell is shorter
REFUSALS_SECONDS = 15.0
CEILING_SECONDS = 600.0  # how long a server's refusals are remembered
_RECENT = 5
NOISE_WIDTH = 3.0  # two standard errors, widened by half: neighbouring seconds are alike


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes a second over some seconds, and the interval that it probably lies in."""

    mean: float
    low: float
    high: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Level:
    """What a number of lanes brought."""

    lanes: int
    rate: Rate


@dataclass(frozen=True, slots=True)
class Decision:
    """The number of lanes from now on, what was measured (None: nothing yet), and why, in a sentence."""

    lanes: int
    rate: Rate | None
    reason: str


class Phase(StrEnum):
    GROWING = "growing"
    HOLDING = "holding"
    TRYING = "trying"


@dataclass(frozen=True, slots=True)
class Steering:
    """All that steering knows. Made by `begin`, followed by `step`; seconds are those of the samples."""

    lanes: int
    phase: Phase
    is_placed: bool = False  # the round trip was looked at
    before: Level | None = None  # what the present number is compared with
    rival: Level | None = None  # what lost against the present number, which is measured anew
    rival_samples: int = 0  # over so many samples
    rates: tuple[float, ...] = ()  # of this number of lanes, newest last
    since_change: float = 0.0
    dialling: float = 0.0
    held: float = 0.0
    usual: float = 0.0  # bytes a second while holding, as it was before it fell
    low_for: float = 0.0
    patience: float = FIRST_PATIENCE_SECONDS
    tries_fewer: bool = False  # what the next try is
    refused: tuple[tuple[float, int], ...] = ()  # (seconds ago, refusals)
    ceiling: int = 0  # 0: the server refused nothing lately
    ceiling_left: float = 0.0


def begin(lanes: int, *, is_known: bool = False) -> Steering:
    """Start with a number of lanes; `is_known`: it was found good before, so it is held rather than doubled."""
    return Steering(max(1, lanes), Phase.HOLDING if is_known else Phase.GROWING)


def rate_of(rates: Sequence[float], seconds: float = 1.0) -> Rate | None:
    """The rate and its interval from samples' rates; None without any."""
    if not rates:
        return None
    mean = statistics.fmean(rates)
    width = NOISE_WIDTH * statistics.stdev(rates) / len(rates) ** 0.5 if len(rates) > 1 else mean
    return Rate(mean, max(0.0, mean - width), mean + width, len(rates) * seconds)


def step(
    now: Steering, sample: Sample, *, most: int, is_limited: bool = False, is_starved: bool = False
) -> tuple[Steering, Decision | None]:
    """Take a sample into account; returns what is known from now on, and a decision if one was taken.

    `most` is the largest number allowed. `is_limited`: a bandwidth limit holds the rate, so it says nothing about
    lanes. `is_starved`: there was too little to fetch.
    """
    now = _aged(now, sample)
    if now.lanes > most:
        return _changed(now, most, Phase.HOLDING, f"No more than {most} lanes are allowed.")
    if refusals := _refusals_in_force(now):
        return _backed_off(now, sample, refusals)
    if now.phase is Phase.GROWING and not now.is_placed and (seconds := _round_trip(sample)):
        now = replace(now, is_placed=True)
        if seconds >= LONG_ROUND_TRIP_SECONDS and now.lanes < min(LANES_ON_A_LONG_LINK, most):
            lanes = min(LANES_ON_A_LONG_LINK, most)
            reason = f"The round trip takes {seconds * 1000:,.0f} ms: {_lanes(lanes)} to begin with."
            return _changed(now, lanes, Phase.GROWING, reason)
    if is_limited or is_starved:
        return replace(now, rates=(), since_change=0.0, low_for=0.0), None
    if any(lane.state == "dialling" for lane in sample.lanes) and now.dialling < DIAL_SECONDS:
        return replace(now, dialling=now.dialling + sample.seconds, since_change=0.0, rates=()), None
    if now.since_change <= SETTLE_SECONDS or not sample.seconds or not sample.wire_bytes:
        return now, None
    rates = (*now.rates, sample.new_bytes / sample.seconds)[-SAMPLES_KEPT:]
    now = replace(now, rates=rates)
    if now.phase is Phase.HOLDING:
        return _hold(now, sample, _most(now, most))
    return _judge(now, _most(now, most))


def _round_trip(sample: Sample) -> float:
    """The shortest round trip that a lane measured, in seconds; 0 when none did yet."""
    return min((lane.round_trip_seconds for lane in sample.lanes if lane.round_trip_seconds), default=0.0)


def _aged(now: Steering, sample: Sample) -> Steering:
    seconds = sample.seconds
    refused = tuple((ago + seconds, count) for ago, count in now.refused if ago + seconds < REFUSALS_SECONDS)
    left = max(0.0, now.ceiling_left - seconds)
    return replace(
        now,
        since_change=now.since_change + seconds,
        held=now.held + seconds if now.phase is Phase.HOLDING else 0.0,
        refused=(*refused, (0.0, sample.refusals)) if sample.refusals else refused,
        ceiling_left=left,
        ceiling=now.ceiling if left else 0,
    )


def _most(now: Steering, most: int) -> int:
    return min(most, now.ceiling) if now.ceiling else most


def _changed(
    now: Steering,
    lanes: int,
    phase: Phase,
    reason: str,
    *,
    before: Level | None = None,
    rival: Level | None = None,
    rate: Rate | None = None,
) -> tuple[Steering, Decision]:
    """Another number of lanes: what was measured of the last one says nothing about it."""
    samples = SAMPLES_TO_GROW if now.phase is Phase.GROWING else SAMPLES_TO_TRY  # one slow spell is shorter
    after = replace(now, lanes=lanes, phase=phase, before=before, rates=(), since_change=0.0, dialling=0.0)
    after = replace(after, rival=rival, rival_samples=samples)
    after = replace(after, held=0.0, low_for=0.0, usual=0.0)
    return after, Decision(lanes, rate or rate_of(now.rates), reason)


def _kept(now: Steering, reason: str) -> tuple[Steering, Decision]:
    """The same number, held from now on; what was measured stays."""
    return replace(now, phase=Phase.HOLDING, before=None, held=0.0), Decision(now.lanes, rate_of(now.rates), reason)


# -- refusals ------------------------------------------------------------------------------------------------------


def _refusals_in_force(now: Steering) -> int:
    """Refusals that mean "too many", not "too fast": more than a quarter of the lanes within a quarter of a minute."""
    total = sum(count for _ago, count in now.refused)
    return total if total > max(1, now.lanes // 4) else 0


def _backed_off(now: Steering, sample: Sample, refusals: int) -> tuple[Steering, Decision | None]:
    served = sum(lane.state in ("working", "waiting") for lane in sample.lanes)
    fewer = max(1, min(now.lanes - 1, max(served, now.lanes // 2)))
    now = replace(now, refused=(), ceiling=fewer, ceiling_left=CEILING_SECONDS, patience=FIRST_PATIENCE_SECONDS)
    if fewer == now.lanes:
        return now, None
    reason = (
        f"The server turned {refusals} connections away within {REFUSALS_SECONDS:.0f} s; {fewer} lanes instead of "
        f"{now.lanes}, and no more for ten minutes."
    )
    return _changed(now, fewer, Phase.HOLDING, reason)


# -- growing and trying --------------------------------------------------------------------------------------------


def _judge(now: Steering, most: int) -> tuple[Steering, Decision | None]:
    """Whether this number of lanes is worth more than the one before."""
    rate = rate_of(now.rates)
    if rate is None or len(now.rates) < SAMPLES_TO_JUDGE or not rate.mean:
        return now, None
    if now.before is None:
        return _grow(now, rate, most, f"{_lanes(now.lanes)} bring {_words(rate)}")
    gain = rate.mean / max(1.0, now.before.rate.mean)
    before = now.before
    if not _is_sure(gain, rate, before.rate, now, is_more=now.lanes > before.lanes):
        return now, None
    if now.lanes < before.lanes:
        return _fewer_judged(now, before, rate, gain)
    said = f"{_lanes(now.lanes)} bring {_words(rate)}, {before.lanes} brought {_words(before.rate)}"
    if gain >= CLEAR_GAIN:
        if now.phase is Phase.GROWING:
            return _grow(now, rate, most, said)
        return _kept(replace(now, patience=FIRST_PATIENCE_SECONDS, tries_fewer=False), f"{said}: kept.")
    patience = min(LAST_PATIENCE_SECONDS, now.patience * (1 if now.phase is Phase.GROWING else 2))
    now = replace(now, patience=patience, tries_fewer=True)
    if gain >= SOME_GAIN:
        return _kept(now, f"{said}, little less: kept.")
    return _back(now, before, rate, said)


def _back(now: Steering, before: Level, rate: Rate, said: str) -> tuple[Steering, Decision]:
    rival = Level(now.lanes, rate)
    reason = f"{said}: back to {before.lanes}."
    return _changed(now, before.lanes, Phase.HOLDING, reason, rival=rival, rate=rate)


def _is_sure(gain: float, rate: Rate, other: Rate, now: Steering, *, is_more: bool) -> bool:
    """True when noise hardly hides the answer any more, or when it was looked at for long enough."""
    if len(now.rates) >= (SAMPLES_TO_GROW if now.phase is Phase.GROWING else SAMPLES_TO_TRY):
        return True
    if now.phase is Phase.TRYING and len(now.rates) < 2 * SAMPLES_TO_JUDGE:
        return False
    unsure = gain * ((rate.high - rate.mean) / max(1.0, rate.mean) + (other.high - other.mean) / max(1.0, other.mean))
    worth = CLEAR_GAIN if is_more else NO_LOSS
    return abs(gain - worth) > unsure


def _grow(now: Steering, rate: Rate, most: int, said: str) -> tuple[Steering, Decision]:
    more = min(now.lanes * 2, most)
    if more <= now.lanes:
        return _kept(replace(now, tries_fewer=True), f"{said}; no more than {now.lanes} are allowed: kept.")
    return _changed(now, more, Phase.GROWING, f"{said}; {more} are tried.", before=Level(now.lanes, rate), rate=rate)


def _fewer_judged(now: Steering, before: Level, rate: Rate, gain: float) -> tuple[Steering, Decision]:
    said = f"{_lanes(now.lanes)} bring {_words(rate)}, {before.lanes} brought {_words(before.rate)}"
    if gain >= NO_LOSS:
        return _kept(replace(now, patience=min(LAST_PATIENCE_SECONDS, now.patience * 2)), f"{said}: fewer are enough.")
    now = replace(now, patience=min(LAST_PATIENCE_SECONDS, now.patience * 2), tries_fewer=False)
    return _back(now, before, rate, said)


# -- holding -------------------------------------------------------------------------------------------------------


def _hold(now: Steering, sample: Sample, most: int) -> tuple[Steering, Decision | None]:
    """Watch for a rate that fell and stays low; now and then try a few more lanes or a few fewer."""
    if now.rival is not None:
        return _measured_anew(now, now.rival, most)
    is_low = now.usual > 0 and statistics.fmean(now.rates[-_RECENT:]) < FALLEN * now.usual
    if is_low:
        now = replace(now, low_for=now.low_for + sample.seconds)
    else:
        usual = statistics.median(now.rates) if len(now.rates) >= 2 * _RECENT else 0.0
        now = replace(now, low_for=0.0, usual=usual)
    if now.low_for >= FALLEN_SECONDS:
        return _fallen(now)
    if is_low or now.held < now.patience or len(now.rates) < 2 * SAMPLES_TO_JUDGE or now.refused:
        return now, None
    return _try(now, most)


def _measured_anew(now: Steering, rival: Level, most: int) -> tuple[Steering, Decision | None]:
    """The number that won is measured once more; when the one that lost was better after all, that is tried again."""
    rate = rate_of(now.rates)
    if rate is None or len(now.rates) < now.rival_samples:
        return now, None
    now, gain = replace(now, rival=None), rival.rate.mean / max(1.0, rate.mean)
    is_better = gain >= (CLEAR_GAIN if rival.lanes > now.lanes else NO_LOSS)
    if not is_better or not rate.mean or rival.lanes > most:
        return now, None
    reason = (
        f"{_lanes(now.lanes)} bring {_words(rate)} now, {rival.lanes} brought {_words(rival.rate)} just before: "
        f"{rival.lanes} are tried again."
    )
    phase = Phase.GROWING if rival.lanes > now.lanes else Phase.TRYING
    return _changed(now, rival.lanes, phase, reason, before=Level(now.lanes, rate), rate=rate)


def _fallen(now: Steering) -> tuple[Steering, Decision]:
    late = now.rates[-int(FALLEN_SECONDS) + _RECENT :]
    rate = rate_of(late)
    assert rate is not None
    reason = (
        f"The rate fell from {now.usual * 8 / 1e6:,.1f} Mbit/s to {_words(rate)} and stays there; {_lanes(now.lanes)} "
        "are kept, and others are tried soon."
    )
    after = replace(
        now, rates=late, low_for=0.0, usual=0.0, held=0.0, patience=FIRST_PATIENCE_SECONDS / 2, tries_fewer=False
    )
    return after, Decision(now.lanes, rate, reason)


def _try(now: Steering, most: int) -> tuple[Steering, Decision | None]:
    a_few = max(1, now.lanes // 4)
    more, fewer = min(most, now.lanes + a_few), max(1, now.lanes - a_few)
    other = fewer if (now.tries_fewer or more == now.lanes) else more
    if other == now.lanes:
        return replace(now, held=0.0), None
    rate = rate_of(now.rates)
    assert rate is not None
    reason = f"{_lanes(now.lanes)} bring {_words(rate)}; {other} are tried."
    return _changed(now, other, Phase.TRYING, reason, before=Level(now.lanes, rate), rate=rate)


def _lanes(count: int) -> str:
    return "1 lane" if count == 1 else f"{count} lanes"


def _words(rate: Rate) -> str:
    return f"{rate.mean * 8 / 1e6:,.1f} Mbit/s"
