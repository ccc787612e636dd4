"""Forecasts that were kept, to be compared with what happened."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from transfers.models.packs import Build


class KeptForecast(models.Model):
    """What was forecast for a build when work on it began: when it would be opened."""

    build = models.OneToOneField(Build, on_delete=models.CASCADE, related_name="kept_forecast")
    made_at = models.DateTimeField()
    expected_at = models.DateTimeField()
    likely_by_at = models.DateTimeField()
    basis = models.CharField(max_length=16)  # "measured" or "stated"
    bytes_per_second = models.FloatField()  # in the middle of what it was drawn from

    class Meta:
        ordering: ClassVar = ["-made_at"]

    def __str__(self) -> str:
        return f"forecast of {self.build}"
