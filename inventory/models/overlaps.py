"""What was measured of the bytes that lie twice."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from inventory.models.resources import Resource
from inventory.models.scans import Scan


class OverlapMeasure(models.Model):
    """One measuring of every resource's latest listing against every other's. The newest finished one is shown."""

    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    problem = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-requested_at"]

    def __str__(self) -> str:
        return f"overlaps {self.pk}"


class OverlapSet(models.Model):
    """A resource as it took part in a measuring. Bytes are those of its files, without empty ones."""

    measure = models.ForeignKey(OverlapMeasure, on_delete=models.CASCADE, related_name="sets")
    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="+")
    scan = models.ForeignKey(Scan, null=True, on_delete=models.SET_NULL, related_name="+")
    files = models.PositiveBigIntegerField()
    size_bytes = models.PositiveBigIntegerField()
    digested_bytes = models.PositiveBigIntegerField()
    copies_files = models.PositiveBigIntegerField(default=0)  # the same bytes again within the resource itself
    copies_bytes = models.PositiveBigIntegerField(default=0)
    archives = models.PositiveIntegerField(default=0)  # what lies inside them stands for them

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["measure", "resource"], name="overlap_set_once_per_measure"),
        ]

    def __str__(self) -> str:
        return str(self.resource)


class Overlap(models.Model):
    """What of one resource lies in another as well: by digest, and maybe (by name and size, without both digests)."""

    measure = models.ForeignKey(OverlapMeasure, on_delete=models.CASCADE, related_name="overlaps")
    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="overlaps")
    other = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="+")
    files = models.PositiveBigIntegerField()
    size_bytes = models.PositiveBigIntegerField()
    maybe_files = models.PositiveBigIntegerField()
    maybe_bytes = models.PositiveBigIntegerField()
    is_nested = models.BooleanField(default=False)  # one lies inside the other: the same files, not copies

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["measure", "resource", "other"], name="overlap_once_per_pair"),
        ]

    def __str__(self) -> str:
        return f"{self.resource} in {self.other}"


class DeclaredOverlap(models.Model):
    """What somebody says before digests exist: so much of a resource lies in another one as well."""

    resource = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="declared_overlaps")
    other = models.ForeignKey(Resource, on_delete=models.CASCADE, related_name="+")
    percent = models.PositiveSmallIntegerField()  # of the resource's bytes
    note = models.CharField(max_length=500, blank=True)
    declared_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    declared_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["resource", "other"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["resource", "other"], name="overlap_declared_once_per_pair"),
            models.CheckConstraint(condition=models.Q(percent__lte=100), name="overlap_declared_up_to_all"),
            models.CheckConstraint(condition=~models.Q(resource=models.F("other")), name="overlap_declared_of_two"),
        ]

    def __str__(self) -> str:
        return f"{self.resource} in {self.other}: {self.percent} %"
