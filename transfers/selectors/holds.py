"""Holds that end by a condition, and which of them it is time to end."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from transfers.models import Item, Pack, RevisionState
from transfers.selectors.board import USABLE
from transfers.selectors.goodput import pace_of


def holds_due(*, at: datetime | None = None) -> list[tuple[Pack, str]]:
    """Packs on hold whose condition is met, each with the condition in words."""
    now = at or timezone.now()
    bound = Q(hold_until_at__isnull=False) | Q(hold_until_rest=True) | Q(hold_until_rate__isnull=False)
    found = []
    for pack in Pack.objects.filter(bound, on_hold=True).select_related("plan__host").order_by("plan", "position"):
        met = _met(pack, now)
        if met:
            found.append((pack, met))
    return found


def _met(pack: Pack, now: datetime) -> str:
    if pack.hold_until_at is not None and pack.hold_until_at <= now:
        return "its time has come"
    if pack.hold_until_rest and is_rest_opened(pack):
        return "everything else is opened"
    if pack.hold_until_rate is not None:
        rate = pace_of(pack.plan.host, now=now).mean_bytes_per_second
        if rate is not None and rate >= pack.hold_until_rate:
            return f"the link brings {round(rate)} bytes a second"
    return ""


def is_rest_opened(pack: Pack) -> bool:
    """True when every other pack in force that nobody holds is opened; False when there is none."""
    others = Item.objects.filter(
        revision__plan=pack.plan_id, revision__state=RevisionState.APPROVED, pack__on_hold=False
    ).exclude(pack=pack)
    opened = others.filter(pack__builds__state__in=USABLE).values("pk")
    return others.exists() and not others.exclude(pk__in=opened).exists()
