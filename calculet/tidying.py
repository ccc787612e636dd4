"""Removes rows that have expired and mean nothing any more. Events and everything that proves something stay."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.sessions.models import Session
from django.utils import timezone

from calculet.http import forget_old_act_keys
from calculet.people.models import OneTimeLink

LINKS_KEPT = timedelta(days=30)


def tidy() -> None:
    """Remove keys of forms, sessions and one-time links that nobody can use any more. May run at any time, twice."""
    now = timezone.now()
    forget_old_act_keys()
    Session.objects.filter(expire_date__lt=now).delete()
    OneTimeLink.objects.filter(expires_at__lt=now - LINKS_KEPT).delete()
