"""Resources: what on a host is worth naming."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from inventory.models.fields import RemoteNameField
from inventory.models.hosts import DigestPolicy, Host
from inventory.models.tiers import Tier


class ResourceKind(models.TextChoices):
    FOLDER = "folder", "folder"
    FILE = "file", "file"
    ARCHIVE = "archive", "archive"
    IMAGE = "image", "container image"
    PARTS = "parts", "set of parts"
    REPOSITORY = "repository", "repository"
    STORE = "store", "container store"
    PARAMETERS = "parameters", "model parameters"
    OTHER = "other", "other"


class SizeBasis(models.TextChoices):
    """How far a size can be trusted; the three are never mixed up on a page."""

    EXACT = "exact", "exact"  # measured by a scan of ours
    DECLARED = "declared", "declared"  # somebody stated this number of bytes
    ABOUT = "about", "about"  # somebody's estimate
    UNKNOWN = "unknown", "unknown"


class Resource(models.Model):
    """Something on a host with a value. `path` is empty for what has no one place (a selection, an idea of a pack)."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="resources")
    name = models.CharField(max_length=120)
    path = RemoteNameField(default=b"", blank=True)
    kind = models.CharField(max_length=16, choices=ResourceKind.choices, default=ResourceKind.FOLDER)
    tier = models.ForeignKey(Tier, null=True, blank=True, on_delete=models.PROTECT, related_name="resources")
    position = models.PositiveIntegerField(default=0)  # within the tier
    size_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    size_basis = models.CharField(max_length=16, choices=SizeBasis.choices, default=SizeBasis.UNKNOWN)
    value = models.TextField(blank=True)
    recommendation = models.TextField(blank=True)
    loaded = models.JSONField(
        null=True, blank=True
    )  # the values the last plan file gave, to tell the team's own changes
    # Written by transfers, so that the inventory can show it without knowing transfers.
    planned = models.BooleanField(default=False)
    verified_bytes = models.PositiveBigIntegerField(default=0)
    stale_since = models.DateTimeField(null=True, blank=True)
    digest_policy = models.CharField(max_length=8, choices=DigestPolicy.choices, blank=True)  # empty: as its host
    digest_over_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["tier__position", "position", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["host", "name"], name="resource_name_once_per_host"),
            models.CheckConstraint(
                condition=~models.Q(digest_policy="over") | models.Q(digest_over_bytes__isnull=False),
                name="resource_digest_policy_has_its_size",
            ),
            models.CheckConstraint(
                condition=models.Q(size_bytes__isnull=True, size_basis="unknown")
                | (models.Q(size_bytes__isnull=False) & ~models.Q(size_basis="unknown")),
                name="resource_size_has_a_basis",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.host}: {self.name}"
