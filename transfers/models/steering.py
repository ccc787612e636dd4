"""How a host's link is driven: its number of lanes, its limits, and what its lanes did minute by minute."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from inventory.models import Host

EVERYTHING = "all"


class LaneSetting(models.Model):
    """A host's number of lanes. Without a row it is steered, up to what the installation allows."""

    host = models.OneToOneField(Host, on_delete=models.CASCADE, related_name="lane_setting")
    level = models.PositiveSmallIntegerField(null=True, blank=True)  # null: `auto`, steered by what lanes bring
    most = models.PositiveSmallIntegerField(null=True, blank=True)  # a host shared with others: no more than these
    trial = models.ForeignKey(  # the trial that the level was chosen after
        "transfers.Trial", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(level__isnull=True) | Q(level__gte=1, level__lte=256), name="lane_level_between_1_and_256"
            ),
            models.CheckConstraint(
                condition=Q(most__isnull=True) | Q(most__gte=1, most__lte=256), name="lane_cap_between_1_and_256"
            ),
        ]

    def __str__(self) -> str:
        return f"lanes of {self.host}"


class BandwidthLimit(models.Model):
    """A limit of one host, or (without a host) of all links together: for all hours, and by hours of the week."""

    scope = models.CharField(max_length=80, unique=True)  # EVERYTHING, or the host's name at the time
    host = models.OneToOneField(Host, null=True, on_delete=models.CASCADE, related_name="bandwidth_limit")
    bytes_per_second = models.PositiveBigIntegerField(null=True, blank=True)  # null: none
    windows = models.JSONField(default=list)  # Window.as_json(), in the person's order
    time_zone = models.CharField(max_length=64, default="UTC")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(host__isnull=False) | Q(scope=EVERYTHING), name="limit_of_a_host_or_of_all"
            ),
        ]

    def __str__(self) -> str:
        return f"limit of {self.host}" if self.host is not None else "limit of all links"


class LaneMinute(models.Model):
    """What each lane of a link did in one minute: [number, bytes, silent seconds, redials] each."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="lane_minutes")
    at = models.DateTimeField()  # the minute's begin
    seconds = models.FloatField(default=0)  # measured of it
    new_bytes = models.PositiveBigIntegerField(default=0)
    refusals = models.PositiveIntegerField(default=0)
    lanes = models.JSONField(default=list)

    class Meta:
        ordering: ClassVar = ["host", "at"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["host", "at"], name="lane_minute_once_per_host"),
        ]

    def __str__(self) -> str:
        return f"lanes of {self.host} {self.at:%H:%M}"
