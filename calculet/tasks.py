"""Background work of the base."""

from __future__ import annotations

from celery import shared_task

from calculet.tidying import tidy


@shared_task(queue="control", ignore_result=True)  # type: ignore[untyped-decorator]
def tidy_up() -> None:
    """Remove what has expired, once a day."""
    tidy()
