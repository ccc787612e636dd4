"""Capabilities: what the team can do once certain packs are usable."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from transfers.models.packs import Pack
from transfers.models.plans import Plan


class Capability(models.Model):
    """Usable when, in each of its groups of needs, at least one pack is *opened*."""

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="capabilities")
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    position = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["plan", "position", "name"]
        verbose_name_plural = "capabilities"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["plan", "name"], name="capability_name_once_per_plan"),
        ]

    def __str__(self) -> str:
        return self.name


class CapabilityNeed(models.Model):
    """One pack in one group of a capability: every group must be met, by any one of its packs."""

    capability = models.ForeignKey(Capability, on_delete=models.CASCADE, related_name="needs")
    group = models.PositiveSmallIntegerField(default=0)
    pack = models.ForeignKey(Pack, on_delete=models.CASCADE, related_name="needed_by")

    class Meta:
        ordering: ClassVar = ["capability", "group", "pack"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["capability", "group", "pack"], name="pack_once_per_need_group"),
        ]

    def __str__(self) -> str:
        return f"{self.capability} needs {self.pack}"
