"""What links measured while they ran."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from inventory.models import Channel, Host


class LinkStatus(models.Model):
    """A host's link as it is now: one row a host, written about once a second while a link runs."""

    host = models.OneToOneField(Host, on_delete=models.CASCADE, related_name="link_status")
    at = models.DateTimeField()
    bytes_per_second = models.FloatField(default=0)
    lanes = models.JSONField(default=list)  # LaneReading as dictionaries
    refusals = models.PositiveIntegerField(default=0)
    redials = models.PositiveIntegerField(default=0)
    allowed_bytes_per_second = models.FloatField(null=True)  # by the limits in force; null: no limit
    problem = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"link of {self.host}"


class GoodputSample(models.Model):
    """Distinct bytes made durable in an interval, for charts and forecasts."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="goodput_samples")
    at = models.DateTimeField()
    seconds = models.FloatField()
    new_bytes = models.PositiveBigIntegerField()
    wire_bytes = models.PositiveBigIntegerField()
    lanes = models.PositiveSmallIntegerField()

    class Meta:
        ordering: ClassVar = ["host", "at"]
        indexes: ClassVar = [models.Index(fields=["host", "at"], name="goodput_of_host_by_time")]

    def __str__(self) -> str:
        return f"{self.host} {self.at:%H:%M:%S} {self.new_bytes} bytes"


class GoodputMinute(models.Model):
    """The samples of one minute over one channel and with one number of lanes: what forecasts are drawn from.

    Those that a bandwidth limit held back are summed apart: they do not tell what the link can do.
    """

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="goodput_minutes")
    channel = models.ForeignKey(Channel, null=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField()  # the minute's begin
    lanes = models.PositiveSmallIntegerField()
    is_limited = models.BooleanField(default=False)
    seconds = models.FloatField()
    new_bytes = models.PositiveBigIntegerField()

    class Meta:
        ordering: ClassVar = ["host", "at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["host", "at", "channel", "lanes", "is_limited"],
                name="goodput_minute_once_per_channel_and_lanes",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.host} {self.at:%H:%M} {self.new_bytes} bytes over {self.lanes} lanes"


class LaneDecision(models.Model):
    """A change of the number of lanes, with its figures and its reason in words."""

    class Source(models.TextChoices):
        STEERING = "steering", "steering"
        TRIAL = "trial", "trial"
        PERSON = "person", "person"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="lane_decisions")
    at = models.DateTimeField()
    lanes = models.PositiveSmallIntegerField()
    source = models.CharField(max_length=16, choices=Source.choices, default=Source.STEERING)
    bytes_per_second = models.FloatField(null=True)  # measured before it, with the interval that it lies in
    low_bytes_per_second = models.FloatField(null=True)
    high_bytes_per_second = models.FloatField(null=True)
    reason = models.TextField()

    class Meta:
        ordering: ClassVar = ["host", "-at", "-pk"]

    def __str__(self) -> str:
        return f"{self.host}: {self.lanes} lanes"
