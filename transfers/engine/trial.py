"""A controlled comparison of numbers of lanes: its order of blocks, the counting of one block, and the judgement.

Each round holds one block of every level, in an order drawn anew: what the link does over hours falls on all levels
alike. After each change of level a ramp passes uncounted. Counted are distinct durable bytes. Levels are compared round
by round; intervals of differences hold together at 95 % (Bonferroni), so "no difference" is said as often as it should.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import combinations

from transfers.engine.types import Sample

DEFAULT_LEVELS = (4, 8, 12)
DEFAULT_LEVEL_SECONDS = 600
BLOCK_SECONDS = 60.0  # about; a short trial has shorter blocks, a long one more of them
ROUNDS_AT_LEAST, ROUNDS_AT_MOST = 5, 20
ROUNDS_TO_TELL = 3  # fewer complete rounds say nothing
RAMP_SECONDS = 10.0
DIAL_SECONDS = 15.0  # a lane that does not connect in this time belongs to what is measured
STALL_SECONDS = 3.0
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Schedule:
    """Blocks in order (lanes of each), and how long each is counted, after how long a ramp, in seconds."""

    order: tuple[int, ...]
    block_seconds: float
    ramp_seconds: float

    @property
    def seconds(self) -> float:
        """How long all of it takes."""
        return len(self.order) * (self.block_seconds + self.ramp_seconds)


def schedule(levels: Sequence[int], level_seconds: float, seed: int) -> Schedule:
    """Interleave the levels: each is counted for `level_seconds` in all. The same seed gives the same order."""
    rounds = min(ROUNDS_AT_MOST, max(ROUNDS_AT_LEAST, round(level_seconds / BLOCK_SECONDS)))
    chance = random.Random(seed)  # noqa: S311  (an order that can be drawn again, no secret)
    order: list[int] = []
    for _ in range(rounds):
        order += chance.sample(list(levels), len(levels))
    block = level_seconds / rounds
    return Schedule(tuple(order), block, min(RAMP_SECONDS, block / 3))


# -- one block -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """What was counted in one block, ramp excluded. `stalled_seconds` are summed over lanes."""

    lanes: int
    ramp: float = 0.0
    dialling: float = 0.0
    seconds: float = 0.0
    new_bytes: int = 0
    wire_bytes: int = 0
    refusals: int = 0
    redials: int = 0
    stalled_seconds: float = 0.0
    limited_seconds: float = 0.0

    @property
    def bytes_per_second(self) -> float:
        """Growth of distinct durable bytes."""
        return self.new_bytes / self.seconds if self.seconds else 0.0


def count(block: Block, sample: Sample, ramp_seconds: float, *, is_limited: bool, is_starved: bool) -> Block:
    """Take a sample into account: the ramp first, then bytes. Nothing is counted while there is too little to fetch."""
    if is_starved:
        return block
    if block.ramp < ramp_seconds or len(sample.lanes) < block.lanes:
        return replace(block, ramp=block.ramp + sample.seconds)
    if any(lane.state == "dialling" for lane in sample.lanes) and block.dialling < DIAL_SECONDS and not block.seconds:
        return replace(block, dialling=block.dialling + sample.seconds)
    stalled = sum(lane.state == "working" and lane.silent_seconds > STALL_SECONDS for lane in sample.lanes)
    return replace(
        block,
        seconds=block.seconds + sample.seconds,
        new_bytes=block.new_bytes + sample.new_bytes,
        wire_bytes=block.wire_bytes + sample.wire_bytes,
        refusals=block.refusals + sample.refusals,
        redials=block.redials + sample.redials,
        stalled_seconds=block.stalled_seconds + stalled * sample.seconds,
        limited_seconds=block.limited_seconds + (sample.seconds if is_limited else 0.0),
    )


# -- the judgement -------------------------------------------------------------------------------------------------


class Answer(StrEnum):
    TOO_FEW = "too few blocks"
    BETTER = "one level is better"
    ALIKE_AT_THE_TOP = "several levels are alike, others are worse"
    NO_DIFFERENCE = "no difference"


@dataclass(frozen=True, slots=True)
class LevelResult:
    """What one level brought: the mean of its blocks in bytes a second with its 95 % interval, and guard figures."""

    lanes: int
    blocks: int
    seconds: float
    mean: float
    low: float
    high: float
    refusals: int
    redials: int
    stalled_share: float  # of the lanes' time
    limited_share: float  # of the time


@dataclass(frozen=True, slots=True)
class Difference:
    """`more` lanes against `fewer`: the mean difference in bytes a second, and its interval."""

    fewer: int
    more: int
    mean: float
    low: float
    high: float

    @property
    def is_shown(self) -> bool:
        """True when the interval leaves zero out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a trial came to. `top` are the levels that none is shown to be better than; `advised` the fewest of them."""

    answer: Answer
    levels: tuple[LevelResult, ...]
    differences: tuple[Difference, ...]
    top: tuple[int, ...]
    advised: int | None


def judge(levels: Sequence[int], blocks: Sequence[Block]) -> Result:
    """Compare levels by the blocks that were done, in the order of the schedule."""
    rounds = [blocks[first : first + len(levels)] for first in range(0, len(blocks), len(levels))]
    whole = [{block.lanes: block.bytes_per_second for block in one} for one in rounds if len(one) == len(levels)]
    ordered = sorted(set(levels))
    results = tuple(_level(lanes, [block for block in blocks if block.lanes == lanes]) for lanes in ordered)
    if len(whole) < ROUNDS_TO_TELL or not any(result.mean for result in results):
        return Result(Answer.TOO_FEW, results, (), (), None)
    differences = _differences(ordered, whole)
    worse = {one.fewer if one.low > 0 else one.more for one in differences if one.is_shown}
    top = tuple(lanes for lanes in ordered if lanes not in worse)
    if not any(one.is_shown for one in differences):
        answer = Answer.NO_DIFFERENCE
    elif len(top) == 1:
        answer = Answer.BETTER
    else:
        answer = Answer.ALIKE_AT_THE_TOP
    return Result(answer, results, differences, top, min(top))


def _level(lanes: int, blocks: Sequence[Block]) -> LevelResult:
    rates = [block.bytes_per_second for block in blocks]
    mean, low, high = interval(rates, CONFIDENCE)
    seconds = sum(block.seconds for block in blocks)
    return LevelResult(
        lanes=lanes,
        blocks=len(blocks),
        seconds=seconds,
        mean=mean,
        low=max(0.0, low),
        high=high,
        refusals=sum(block.refusals for block in blocks),
        redials=sum(block.redials for block in blocks),
        stalled_share=sum(block.stalled_seconds for block in blocks) / (seconds * lanes) if seconds else 0.0,
        limited_share=sum(block.limited_seconds for block in blocks) / seconds if seconds else 0.0,
    )


def _differences(levels: Sequence[int], rounds: Sequence[Mapping[int, float]]) -> tuple[Difference, ...]:
    pairs = list(combinations(levels, 2))
    confidence = 1 - (1 - CONFIDENCE) / len(pairs) if pairs else CONFIDENCE
    return tuple(
        Difference(fewer, more, *interval([one[more] - one[fewer] for one in rounds], confidence))
        for fewer, more in pairs
    )


def interval(values: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """The mean of independent values and the interval of Student's t; without a width for fewer than two values."""
    if not values:
        return 0.0, 0.0, 0.0
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, mean, mean
    width = student(confidence, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - width, mean + width


@cache
def student(confidence: float, freedom: int) -> float:
    """The t for which a share `confidence` of Student's distribution lies between -t and t."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """The share of Student's distribution between -t and t (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    squared = math.cos(angle) ** 2
    is_odd = freedom % 2 == 1
    term = math.cos(angle) if is_odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(3 if is_odd else 2, freedom, 2):
        term *= squared * (step - 1) / step
        total += term
    if is_odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
