"""What there is to do now. The tick and the links ask here; pages do as well, so that they show the same."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from inventory.models import Host
from transfers.models import ADOPTION_ACTIVE, Adoption, Build, BuildState, RevisionState, Unpack, UnpackState
from transfers.selectors.allowance import is_quiet
from transfers.selectors.satisfying import carriers_awaited

LINK_PAUSE_SECONDS = 15  # after a link that ended with a problem; a person who mends it may clear it at once
LONGEST_PAUSE = timedelta(minutes=10)  # nothing waits longer; a time beyond was set before a clock was set back
PACKING_AT_ONCE = 2  # builds of one host that are made at the same time


def builds_in_force() -> QuerySet[Build]:
    """Builds of packs that the plan in force names, in execution order; replaced ones are left out."""
    return (
        Build.objects.filter(pack__items__revision__state=RevisionState.APPROVED)
        .exclude(state=BuildState.REPLACED)
        .select_related("pack__plan__host", "landing", "entry_list", "member_list")
        .order_by("pack__position", "pack__name", "number")
    )


def _is_due() -> Q:
    now = timezone.now()
    return Q(not_before__isnull=True) | Q(not_before__lte=now) | Q(not_before__gt=now + LONGEST_PAUSE)


def _is_free() -> Q:
    return Q(pack__is_paused=False, pack__on_hold=False)


def builds_to_pack() -> list[Build]:
    """Builds whose packing should be begun or looked after, at most a few of a host at once."""
    chosen: list[Build] = []
    by_host: dict[int, int] = {}
    going = builds_in_force().filter(state=BuildState.PACKING)
    waiting = builds_in_force().filter(_is_free(), state=BuildState.PLANNED)
    for build in [*going, *waiting]:
        host_id = build.pack.plan.host_id
        by_host[host_id] = by_host.get(host_id, 0) + 1
        is_begun = build.state == BuildState.PACKING
        if (is_begun or by_host[host_id] <= PACKING_AT_ONCE) and _due(build):
            chosen.append(build)
    return chosen


def _due(build: Build) -> bool:
    now = timezone.now()
    return build.not_before is None or not now < build.not_before <= now + LONGEST_PAUSE


def builds_to_fetch(host: Host) -> QuerySet[Build]:
    """Builds that the host's link should bring now, in execution order."""
    return _builds_fetchable().filter(pack__plan__host=host)


def _builds_fetchable() -> QuerySet[Build]:
    """Packed and free, and no bytes that are here already are being compared with them."""
    ready = builds_in_force().filter(_is_free(), state__in=[BuildState.PACKED, BuildState.FETCHING])
    return ready.exclude(pk__in=Adoption.objects.filter(state__in=ADOPTION_ACTIVE).values("build"))


def hosts_to_link() -> list[Host]:
    """Hosts whose link has something to bring and may. One that ended with a problem is given a pause first."""
    hosts = Host.objects.filter(pk__in=_builds_fetchable().values("pack__plan__host"))
    now = timezone.now()
    just_ended = (now - timedelta(seconds=LINK_PAUSE_SECONDS), now + LONGEST_PAUSE)
    ready = hosts.exclude(~Q(problem=""), link_status__at__range=just_ended)
    return [host for host in ready if not is_quiet(host, at=now)]


def is_more_expected(host: Host) -> bool:
    """True while packs of the host are being made, so that its lanes need not be dialled anew."""
    return builds_in_force().filter(_is_free(), pack__plan__host=host, state=BuildState.PACKING).exists()


def builds_in_state(state: str) -> QuerySet[Build]:
    """Builds that wait for the next local step, whatever the plan in force says by now: their bytes are here."""
    return Build.objects.filter(_is_due(), state=state).order_by(F("pack__position"), "pk")


def builds_to_open() -> list[Build]:
    """Verified builds, but those that wait for packs that carry files of theirs."""
    rows = builds_in_state(BuildState.VERIFIED).select_related("pack", "item")
    return [build for build in rows if not carriers_awaited(build)]


def unpacks_to_run() -> list[Unpack]:
    """Unpack acts that are asked for or were cut off, but those that said that they wait for packs and still do."""
    rows = Unpack.objects.filter(state__in=[UnpackState.QUEUED, UnpackState.RUNNING]).order_by("requested_at")
    found = rows.select_related("build__pack", "build__item")
    return [one for one in found if not (one.problem and carriers_awaited(one.build))]
