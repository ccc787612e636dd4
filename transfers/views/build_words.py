"""A build's way and its chunk map, told in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from transfers.models import Build, BuildState
from transfers.selectors.chunks import HERE, MISSING, PART, PROVEN, WRONG, ChunkMap


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a build's way. `tone` is done, now, stopped or empty."""

    words: str
    tone: str
    at: datetime | None
    note: str


def steps_of(build: Build) -> list[Step]:
    """The way from planned to opened, with the times that are kept."""
    ranks = {
        BuildState.PLANNED: 0,
        BuildState.PACKING: 1,
        BuildState.NEEDS_DECISION: 1,
        BuildState.PACKED: 1,
        BuildState.FETCHING: 2,
        BuildState.RECEIVED: 2,
        BuildState.VERIFIED: 3,
        BuildState.OPENED: 4,
        BuildState.PERMITTED: 4,
        BuildState.CLEARED: 4,
    }
    times = (build.created_at, build.packed_at, build.received_at, build.verified_at, build.opened_at)
    words = (_("planned"), _("packed"), _("received"), _("verified"), _("opened"))
    state = BuildState(build.state)
    # A build that failed or was replaced stands where its times say that it came to.
    at_rank = ranks.get(state, max(rank for rank, at in enumerate(times) if at is not None or rank == 0))
    is_through = {BuildState.PLANNED, BuildState.PACKED, BuildState.RECEIVED, BuildState.VERIFIED}
    is_done_there = state in is_through or at_rank == 4 or state not in ranks
    steps = []
    for rank, (word, at) in enumerate(zip(words, times, strict=True)):
        is_done = rank < at_rank or (rank == at_rank and is_done_there)
        if is_done:
            tone = "done"
        elif rank == at_rank:
            tone = "stopped" if state == BuildState.NEEDS_DECISION else "now"
        else:
            tone = ""
        steps.append(Step(word, tone, at if is_done else None, _note(tone, state)))
    return steps


def _note(tone: str, state: BuildState) -> str:
    if tone == "now":
        return _("packing") if state == BuildState.PACKING else _("fetching")
    return {"stopped": _("needs a decision"), "": _("not yet")}.get(tone, "")


def map_words(drawn: ChunkMap) -> str:
    """The chunk map as one sentence."""
    counts = drawn.counts
    whole = ngettext(
        "%(proven)s of %(count)s chunk is proven", "%(proven)s of %(count)s chunks are proven", drawn.chunk_count
    ) % {"proven": f"{counts[PROVEN]:,}", "count": f"{drawn.chunk_count:,}"}
    rest = {
        HERE: _("%(count)s here and not proven yet"),
        PART: _("%(count)s here in part"),
        WRONG: _("%(count)s wrong and fetched again"),
        MISSING: _("%(count)s missing"),
    }
    told = [words % {"count": f"{counts[state]:,}"} for state, words in rest.items() if counts[state]]
    return _("; ").join([whole, *told]) + _(".")
