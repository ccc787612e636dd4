"""Adoptions: what runs, what is due, and which earlier build's bytes may serve again."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django.utils import timezone

from transfers.models import ADOPTION_ACTIVE, Adoption, AdoptionState, Build, BuildState
from transfers.selectors.specs import build_spec, landed_path

_LANDED = (BuildState.VERIFIED, BuildState.OPENED, BuildState.PERMITTED, BuildState.CLEARED)
_WAITING = (BuildState.PLANNED, BuildState.PACKING, BuildState.NEEDS_DECISION)  # for digests at the source


def adoptions_active(build: Build) -> QuerySet[Adoption]:
    """Those that keep the build from being fetched: at most one."""
    return Adoption.objects.filter(build=build, state__in=ADOPTION_ACTIVE)


def adoptions_of(build: Build) -> list[Adoption]:
    """All of a build, the newest first."""
    return list(Adoption.objects.filter(build=build).select_related("former", "requested_by"))


def adoptions_compared() -> list[Adoption]:
    """Those that wait for a person's word."""
    rows = Adoption.objects.filter(state=AdoptionState.COMPARED)
    return list(rows.select_related("build__pack__plan__host").order_by("requested_at"))


def adoptions_due() -> list[int]:
    """Those that an act should take further now."""
    now = timezone.now()
    running = (AdoptionState.QUEUED, AdoptionState.COMPARING, AdoptionState.COPYING)
    rows = Adoption.objects.filter(Q(not_before__isnull=True) | Q(not_before__lte=now), state__in=running)
    return list(rows.exclude(build__state__in=_WAITING).order_by("pk").values_list("pk", flat=True))


def has_landed(build: Build) -> bool:
    """True when the build's content has its final name on the disk."""
    return landed_path(build).exists()


def former_with_bytes(build: Build) -> Build | None:
    """The newest earlier build of the pack, made in the same way, that brought bytes which lie here still."""
    rows = build.pack.builds.filter(number__lt=build.number, mode=build.mode, packed_at__isnull=False)
    for former in rows.select_related("pack__plan__host", "landing", "entry_list", "member_list").order_by("-number"):
        if former.state in _LANDED or former.received_bytes:
            spec = build_spec(former)
            if has_landed(former) or (spec.folder / spec.incoming_name).exists():
                return former
    return None
