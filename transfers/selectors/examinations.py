"""What the link doctor goes by beside its own examination, and what it found before."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Sum
from django.utils import timezone

from inventory.models import Host
from inventory.remote.names import RemoteName
from transfers.doctor.facts import LinkHistory
from transfers.models import Build, ExaminationState, GoodputMinute, LaneMinute, LinkExamination
from transfers.selectors.goodput import pace_of

HISTORY = timedelta(days=7)
REFUSALS_WITHIN = timedelta(days=1)
ENOUGH_SECONDS = 60.0  # of one number of lanes
SHOWN = 20


def link_history(host: Host) -> LinkHistory:
    """The number of lanes that brought most in the last days, and what sshd turned away in the last day."""
    now = timezone.now()
    rows = GoodputMinute.objects.filter(host=host, at__gt=now - HISTORY).values_list("lanes")
    rates = {
        lanes: (new_bytes / seconds, seconds)
        for lanes, seconds, new_bytes in rows.annotate(Sum("seconds"), Sum("new_bytes")).order_by("lanes")
        if seconds >= ENOUGH_SECONDS and lanes
    }
    refused = LaneMinute.objects.filter(host=host, at__gt=now - REFUSALS_WITHIN).aggregate(Sum("refusals"))
    best = max(rates, key=lambda lanes: rates[lanes][0], default=None)
    return LinkHistory(
        best_bytes_per_second=rates[best][0] if best is not None else None,
        best_lanes=best,
        measured_seconds=rates[best][1] if best is not None else 0.0,
        refusals=refused["refusals__sum"] or 0,
        is_fetching=pace_of(host).is_running,
    )


def examined_file(host: Host) -> RemoteName | None:
    """A file of the team's on the host, of which the disk's rate may be read: that of the newest pack in one file."""
    builds = Build.objects.filter(pack__plan__host=host, packed_at__isnull=False).exclude(source_path=b"")
    newest = builds.order_by("-packed_at").first()
    return newest.source_path if newest is not None else None


def examinations_of(host: Host) -> list[LinkExamination]:
    """The newest ones, the newest first."""
    return list(LinkExamination.objects.filter(host=host).select_related("requested_by")[:SHOWN])


def examinations_due() -> list[int]:
    """Those that are asked for or were cut off."""
    waiting = (ExaminationState.QUEUED, ExaminationState.RUNNING)
    rows = LinkExamination.objects.filter(state__in=waiting)
    return list(rows.order_by("pk").values_list("pk", flat=True))
