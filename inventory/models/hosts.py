"""Hosts, the ways to reach them, and the keys that they were pinned by."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from inventory.models.fields import RemoteNameField


class DigestPolicy(models.TextChoices):
    """Which digests are taken at the source by themselves, once a scan has finished."""

    NEVER = "never", "never"
    OVER = "over", "of files from a size on"
    ALL = "all", "of all files"


class Host(models.Model):
    """A remote machine reached by SSH. Its staging path is the only place there that we write to."""

    name = models.SlugField(max_length=63, unique=True)
    note = models.TextField(blank=True)
    staging_path = RemoteNameField()
    lanes = models.PositiveSmallIntegerField(default=8)
    no_data_timeout_seconds = models.PositiveIntegerField(default=600)
    probe = models.JSONField(null=True, blank=True)  # ProbeReport.as_json(), null until first probed
    probed_at = models.DateTimeField(null=True, blank=True)
    problem = models.TextField(blank=True)  # the last sentence that stopped work on this host; empty when well
    digest_policy = models.CharField(max_length=8, choices=DigestPolicy.choices, default=DigestPolicy.NEVER)
    digest_over_bytes = models.PositiveBigIntegerField(null=True, blank=True)  # from this size on, for OVER
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~Q(digest_policy="over") | Q(digest_over_bytes__isnull=False),
                name="host_digest_policy_has_its_size",
            ),
            models.CheckConstraint(condition=Q(lanes__gte=1) & Q(lanes__lte=256), name="host_lanes_between_1_and_256"),
        ]

    def __str__(self) -> str:
        return self.name


class Channel(models.Model):
    """One way to move a host's bytes. The lowest position is tried first."""

    class Kind(models.TextChoices):
        DIRECT = "ssh", "direct SSH"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="channels")
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.DIRECT)
    position = models.PositiveSmallIntegerField(default=0)
    address = models.CharField(max_length=255)
    port = models.PositiveIntegerField(default=22)
    username = models.CharField(max_length=64)
    key_name = models.CharField(max_length=255, blank=True)  # a file below the key directory; empty: the agent

    class Meta:
        ordering: ClassVar = ["host", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["host", "position"], name="channel_position_once_per_host"),
            models.CheckConstraint(condition=Q(port__gte=1) & Q(port__lte=65535), name="channel_port_is_a_port"),
        ]

    def __str__(self) -> str:
        return f"{self.username}@{self.address}:{self.port}"


class HostKey(models.Model):
    """A host key that a person pinned after seeing its fingerprint. At most one per channel is in force."""

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="host_keys")
    key_type = models.CharField(max_length=64)
    blob = models.BinaryField()
    fingerprint = models.CharField(max_length=64)
    pinned_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    pinned_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-pinned_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["channel"], condition=Q(retired_at__isnull=True), name="one_host_key_in_force_per_channel"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.key_type} {self.fingerprint}"
