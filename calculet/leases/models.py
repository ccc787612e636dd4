"""Leases: who may work on what, so that any task may run twice."""

from __future__ import annotations

from django.db import models


class Lease(models.Model):
    """Who may work on what (`host:3`, `build:17`). `fence` rises with each owner, and an older owner is refused."""

    name = models.CharField(max_length=64, unique=True)
    owner = models.CharField(max_length=128, blank=True)  # empty: free
    fence = models.PositiveBigIntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    stop_requested = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.name} held by {self.owner or 'nobody'}"
