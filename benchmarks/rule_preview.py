"""How long rules take over a whole listing, by its number of entries: counts as typed, one more rule, the whole list.

    python -m benchmarks.rule_preview [--json] [--sizes N,N,…] [--repeats N] [--postgres]

*Counts* are what the editor shows while rules are typed: files, bytes and the largest folders on both sides. *One more
rule* is the same with a rule added to those just counted. *Complete* is "save and preview": the explicit list, sorted,
digested, compressed and kept, with its warnings. Each with rules that nothing was known of before, unless told so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from benchmarks import inventory_bed as bed
from benchmarks.listings import ROOT, listing
from calculet.actors import Actor
from inventory.columns import columns_of
from transfers import rule_masks
from transfers.selectors.taking import rule_counts
from transfers.services import plans

RULES = ["build-*/", "*.o", "third_party-*/**/*.so", "/docs-*/*.md", "trace*.log", "objects-*"]
ONE_MORE = "config*.json"


def measure(given: argparse.Namespace, size: int, actor: Actor) -> list[bed.Figure]:
    """Store a listing, then let rules choose of it."""
    scan = bed.scan_recorded("project", ROOT, lambda: listing(size), actor)
    columns_of(scan)
    repeats = max(3, given.repeats // 4)

    def typed(*more: str) -> None:
        rule_counts([scan], [], [*RULES, *more])

    def forgotten(act: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            rule_masks._known.clear()
            return act()

        return run

    fresh = [seconds(forgotten(typed)) for _repeat in range(repeats)]
    more = []
    for _repeat in range(repeats):
        rule_masks._known.clear()
        typed()
        more.append(seconds(lambda: typed(ONE_MORE)))
    draft = plans.draft_start(host=scan.host, actor=actor)
    item = plans.item_set(
        revision=draft,
        pack_name="one",
        mode="archive",
        resources=[scan.resource],
        include_rules=[],
        exclude_rules=RULES,
        actor=actor,
    )
    complete = [seconds(forgotten(lambda: plans.item_preview(item=item, actor=actor))) for _repeat in range(3)]
    proposed = seconds(lambda: plans.revision_propose(revision=draft, actor=actor))
    figures = []
    told = (
        ("counts, rules never seen", fresh, 2.0),
        ("counts with one more rule", more, 1.0),
        ("complete, with the list kept", complete, 10.0),
        ("propose it after that", [proposed], None),
    )
    for what, taken, limit in told:
        figures.append(bed.Figure(what, size, max(clock for clock, _worked in taken), "s", limit))
        figures.append(bed.Figure(f"{what}, of the processor", size, max(worked for _clock, worked in taken), "s"))
    return figures


def seconds(act: Callable[[], object]) -> tuple[float, float]:
    """How long an act takes: by the clock, and of the processor."""
    began, worked = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - began, time.process_time() - worked


if __name__ == "__main__":
    sys.exit(bed.run("Rules over a listing (the slowest of some)", "benchmarks.rule_preview", measure))
