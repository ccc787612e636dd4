"""Background work of the audit log."""

from __future__ import annotations

from celery import shared_task

from calculet.audit.anchoring import anchor_run


@shared_task(ignore_result=True)  # type: ignore[untyped-decorator]
def anchor_chain(day: int) -> None:
    """Anchor the chain's head for a day, given as its ordinal number; the whole chain is walked before."""
    anchor_run(day)
