"""What becomes of each entry of a listing, as it was reckoned last. Written by transfers, which knows packs."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from inventory.models.resources import Resource
from inventory.models.scans import Scan


class EntryState(models.TextChoices):
    """An entry is in exactly one of these. The value is the letter that stands for it in `EntryStates.content`."""

    VERIFIED = "v", "verified"  # a build that carries it is verified at least, and its content there is the same
    PLANNED = "p", "planned"  # in a draft, a proposal or the revision in force, or in a build on its way
    UNEXPLAINED = "u", "unexplained"


class EntryStates(models.Model):
    """The states of a listing's entries, one letter each in the order of names, compressed by zstd.

    `basis` tells what they were reckoned from; when that changed, they are reckoned anew.
    """

    scan = models.OneToOneField(Scan, on_delete=models.CASCADE, related_name="states")
    basis = models.CharField(max_length=64)
    content = models.BinaryField()
    reckoned_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"states of {self.scan}"


class StateSum(models.Model):
    """What a listing holds of one state below one resource: that of the listing, or one that lies inside it.

    An entry counts for the innermost resource only, so that sums of one listing never count anything twice.
    """

    scan = models.ForeignKey(Scan, on_delete=models.CASCADE, related_name="state_sums")
    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="+")
    state = models.CharField(max_length=1, choices=EntryState.choices)
    entries = models.PositiveBigIntegerField()
    files = models.PositiveBigIntegerField()
    size_bytes = models.PositiveBigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["scan", "resource", "state"], name="state_sum_once_per_scan"),
        ]

    def __str__(self) -> str:
        return f"{self.state} of {self.resource} in {self.scan}"
