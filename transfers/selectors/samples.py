"""What samples say that lists come to when they are packed."""

from __future__ import annotations

from collections.abc import Iterable

from transfers.engine.sampling import SampleResult
from transfers.models import PackingSample, Plan, RevisionState, SampleState


def sample_shares(list_ids: Iterable[int]) -> dict[int, float]:
    """The share of their bytes that lists are expected to come to, by list; those without a sample are left out."""
    rows = PackingSample.objects.filter(entry_list__in=list(list_ids), state=SampleState.FINISHED)
    found = rows.values_list("entry_list_id", "raw_bytes", "packed_bytes")
    return {list_id: share_of(raw, packed) for list_id, raw, packed in found}


def shares_of_plan(plan: Plan) -> dict[int, float]:
    """The same of all lists in force of a plan."""
    rows = PackingSample.objects.filter(
        state=SampleState.FINISHED,
        entry_list__items__revision__plan=plan,
        entry_list__items__revision__state=RevisionState.APPROVED,
    )
    found = rows.values_list("entry_list_id", "raw_bytes", "packed_bytes")
    return {list_id: share_of(raw, packed) for list_id, raw, packed in found}


def share_of(raw_bytes: int, packed_bytes: int) -> float:
    """What is expected of the whole: where zstd does not pay, a plain archive is made."""
    return packed_bytes / raw_bytes if SampleResult(raw_bytes, packed_bytes).pays else 1.0


def samples_waiting() -> list[int]:
    """Samples that were asked for and are not taken yet."""
    return list(PackingSample.objects.filter(state=SampleState.QUEUED).order_by("pk").values_list("pk", flat=True))
