"""Lists that people had: checksum files, listings, spreadsheets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models

from inventory.models.fields import RemoteNameField
from inventory.models.hosts import Host
from inventory.models.resources import Resource
from inventory.models.scans import Scan


class ListState(models.TextChoices):
    PREVIEWED = "previewed", "previewed"
    IMPORTED = "imported", "imported"
    DISCARDED = "discarded", "discarded"


class ImportedList(models.Model):
    """One list as it came, byte for byte, and what it was taken for. Nothing else is made before it is *imported*.

    previewed ──> imported | discarded
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        ListState.PREVIEWED: frozenset({ListState.IMPORTED, ListState.DISCARDED}),
        ListState.IMPORTED: frozenset(),
        ListState.DISCARDED: frozenset(),
    }

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="lists")
    resource_name = models.CharField(max_length=120)  # made when the host has none of that name
    resource = models.ForeignKey(Resource, null=True, blank=True, on_delete=models.SET_NULL, related_name="lists")
    root = RemoteNameField(default=b"", blank=True)  # what absolute names are relative to
    state = models.CharField(max_length=16, choices=ListState.choices, default=ListState.PREVIEWED)
    format_name = models.CharField(max_length=16)
    file_name = models.CharField(max_length=255)
    content = models.BinaryField()  # zstd of the file
    digest = models.CharField(max_length=64)  # SHA-256 of the file, in hex
    scan = models.OneToOneField(Scan, null=True, blank=True, on_delete=models.SET_NULL, related_name="source_list")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.file_name} {self.digest[:12]}"
