"""What the link doctor found, examination by examination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from inventory.models import Host


class ExaminationState(models.TextChoices):
    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    FINISHED = "finished", "finished"
    FAILED = "failed", "failed"


class LinkExamination(models.Model):
    """One examination of a host's link.

    queued ──> running ──> finished | failed
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        ExaminationState.QUEUED: frozenset({ExaminationState.RUNNING}),
        ExaminationState.RUNNING: frozenset({ExaminationState.FINISHED, ExaminationState.FAILED}),
        ExaminationState.FINISHED: frozenset(),
        ExaminationState.FAILED: frozenset(),
    }

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="link_examinations")
    state = models.CharField(max_length=16, choices=ExaminationState.choices, default=ExaminationState.QUEUED)
    facts = models.JSONField(default=dict)  # transfers.doctor.facts.Facts
    history = models.JSONField(default=dict)  # transfers.doctor.facts.LinkHistory, as it was then
    advice = models.JSONField(default=list)  # [{"kind", "subject", "sentence", "figures"}, …]
    problem = models.TextField(blank=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-requested_at", "-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["host"], condition=Q(state__in=["queued", "running"]), name="one_examination_at_a_time_per_host"
            ),
        ]

    def __str__(self) -> str:
        return f"examination {self.pk} of the link of {self.host}"
