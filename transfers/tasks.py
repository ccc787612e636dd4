"""Background work of transfers: each task takes one id, calls one service, and may run twice, late, or not at all."""

from __future__ import annotations

from celery import Task, shared_task

from calculet.audit.tasks import anchor_chain
from calculet.audit.walks import chain_follow
from inventory.services.digest_policy import digests_ask_due
from inventory.services.had_covers import cover_count
from inventory.services.had_runs import had_run
from inventory.tasks import look_inside, measure_overlaps, offer_snapshot, run_digests, run_scan, take_snapshot
from transfers.services.adoptions import adoption_run
from transfers.services.drifts import drift_run
from transfers.services.entry_states import entry_states_run
from transfers.services.examinations import examination_run
from transfers.services.forecasts import forecasts_keep
from transfers.services.insides_here import inside_here_run
from transfers.services.leaving import landing_proofs
from transfers.services.links import link_run
from transfers.services.orders import holds_release_due
from transfers.services.packing import pack_run
from transfers.services.rechecks import recheck_run
from transfers.services.reports import report_run
from transfers.services.samples import sample_run
from transfers.services.ticks import due_now
from transfers.services.trials import trials_end_due
from transfers.services.unpacks import unpack_run
from transfers.services.verification import open_run, verify_run

HINT_SECONDS = 10  # a message that waited longer says nothing that the next tick does not say better


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def tick() -> None:
    """Start what is due."""
    holds_release_due()
    trials_end_due()
    _hint(run_digests, tuple(digests_ask_due()))
    due = due_now()
    _hint(run_link, due.links)
    _hint(run_scan, due.scans)
    _hint(run_digests, due.digests)
    _hint(look_inside, due.insides)
    _hint(look_inside_here, due.insides_here)
    _hint(read_had, due.had)
    _hint(count_had, due.covers)
    _hint(measure_overlaps, due.overlaps)
    _hint(take_snapshot, due.snapshots)
    _hint(offer_snapshot, due.offers)
    _hint(pack_build, due.packs)
    _hint(adopt_bytes, due.adoptions)
    _hint(examine_link, due.examinations)
    _hint(verify_build, due.verifies)
    _hint(open_build, due.opens)
    _hint(recheck_build, due.rechecks)
    _hint(make_report, due.reports)
    _hint(take_sample, due.samples)
    _hint(compare_pack, due.drifts)
    _hint(run_unpack, due.unpacks)
    _hint(reckon_states, due.states)
    _hint(anchor_chain, due.anchors)
    forecasts_keep()
    chain_follow()


def _hint(task: Task[[int], None], ids: tuple[int, ...]) -> None:
    for key in ids:
        task.apply_async(args=(key,), expires=HINT_SECONDS)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def run_link(host_id: int) -> None:
    """Fetch what the host's plan asks for."""
    link_run(host_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def look_inside_here(build_id: int) -> None:
    """Look inside an archive that is home."""
    inside_here_run(build_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def read_had(source_id: int) -> None:
    """Read what was declared as already here."""
    had_run(source_id, proofs=landing_proofs)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def count_had(resource_id: int) -> None:
    """Count how much of a resource is already here."""
    cover_count(resource_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def pack_build(build_id: int) -> None:
    """Take a build further towards *packed*."""
    pack_run(build_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def examine_link(examination_id: int) -> None:
    """Examine a host's link, and keep what was found with its advice."""
    examination_run(examination_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def adopt_bytes(adoption_id: int) -> None:
    """Compare bytes that are here with the source, and take over what was agreed to."""
    adoption_run(adoption_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def verify_build(build_id: int) -> None:
    """Read a received build back."""
    verify_run(build_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def recheck_build(build_id: int) -> None:
    """Read a landed build back once more."""
    recheck_run(build_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def open_build(build_id: int) -> None:
    """Read a verified build to its end."""
    open_run(build_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def run_unpack(unpack_id: int) -> None:
    """Make usable files of an opened build."""
    unpack_run(unpack_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def compare_pack(item_id: int) -> None:
    """See what the latest scans found otherwise than a pack holds."""
    drift_run(item_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def make_report(build_id: int) -> None:
    """Write an opened build's first report."""
    report_run(build_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def reckon_states(scan_id: int) -> None:
    """Tell what becomes of each entry of a listing."""
    entry_states_run(scan_id)


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def take_sample(sample_id: int) -> None:
    """Say about what a list comes to when it is packed."""
    sample_run(sample_id)
