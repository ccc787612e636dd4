"""What a pack's list was made from, and what later scans found otherwise."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from inventory.models import Resource, Scan
from transfers.models.plans import Item


class ItemBasis(models.Model):
    """The scan of one resource that an item's list was made from, and the latest one that it was compared with."""

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="bases")
    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="+")
    scan = models.ForeignKey(Scan, null=True, on_delete=models.SET_NULL, related_name="+")
    scanned_at = models.DateTimeField()
    compared = models.ForeignKey(Scan, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering: ClassVar = ["item", "resource"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["item", "resource"], name="one_basis_per_item_and_resource"),
        ]

    def __str__(self) -> str:
        return f"{self.item} on {self.scan}"


class ItemDrift(models.Model):
    """How the host differs from what an item's pack holds, as the latest scans found it. Counts are of all paths.

    `names` are the first ones: [{"name", "what", "size_before", "size_after"}, …], names escaped.
    """

    item = models.OneToOneField(Item, on_delete=models.CASCADE, related_name="drift")
    since = models.DateTimeField()  # when the scan finished that showed the first difference
    added = models.PositiveBigIntegerField(default=0)
    changed = models.PositiveBigIntegerField(default=0)
    removed = models.PositiveBigIntegerField(default=0)
    bytes_to_bring = models.PositiveBigIntegerField(default=0)  # of the added and changed files, as they are now
    names = models.JSONField(default=list)
    doubt = models.TextField(blank=True)  # why there may be more; a sentence

    class Meta:
        ordering: ClassVar = ["item"]

    def __str__(self) -> str:
        return f"drift of {self.item}"

    @property
    def to_bring(self) -> int:
        """Paths that a delta pack would carry."""
        return self.added + self.changed

    @property
    def count(self) -> int:
        return self.added + self.changed + self.removed
