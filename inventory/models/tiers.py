"""Tiers of value, and proposals to change what the team agreed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from inventory.models.hosts import Host


class Tier(models.Model):
    """An ordered class of value; position 1 comes first."""

    position = models.PositiveSmallIntegerField(unique=True)
    name = models.CharField(max_length=120)
    note = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["position"]

    def __str__(self) -> str:
        return f"{self.position} {self.name}"


class ProposalState(models.TextChoices):
    DRAFT = "draft", "draft"
    PROPOSED = "proposed", "proposed"
    APPROVED = "approved", "approved"
    DECLINED = "declined", "declined"
    WITHDRAWN = "withdrawn", "withdrawn"


class Proposal(models.Model):
    """A change to tiers and resources that waits for another person. Approval binds to the digest of its changes.

    draft ──> proposed ──> approved | declined | withdrawn
      └──> withdrawn
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        ProposalState.DRAFT: frozenset({ProposalState.PROPOSED, ProposalState.WITHDRAWN}),
        ProposalState.PROPOSED: frozenset({ProposalState.APPROVED, ProposalState.DECLINED, ProposalState.WITHDRAWN}),
        ProposalState.APPROVED: frozenset(),
        ProposalState.DECLINED: frozenset(),
        ProposalState.WITHDRAWN: frozenset(),
    }

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="proposals")
    state = models.CharField(max_length=16, choices=ProposalState.choices, default=ProposalState.PROPOSED)
    title = models.CharField(max_length=200)
    changes = models.JSONField()  # [{"resource", "field", "from", "to"}, …]
    digest = models.CharField(max_length=64)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    editors = models.JSONField(default=list, blank=True)  # ids of people who edited the draft: none of them decides
    created_at = models.DateTimeField(auto_now_add=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_note = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(decided_by__isnull=True)
                | ~Q(state="approved")
                | Q(author__isnull=True)
                | ~Q(decided_by=F("author")),
                name="proposal_is_approved_by_another_person",
            ),
            models.UniqueConstraint(fields=["host"], condition=Q(state="draft"), name="one_draft_of_tiers_per_host"),
        ]

    def __str__(self) -> str:
        return self.title


class PlanFileLoad(models.Model):
    """One plan file that was loaded, by its digest: the same file again changes nothing."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="plan_file_loads")
    file_name = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)
    loaded_at = models.DateTimeField(auto_now_add=True)
    loaded_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering: ClassVar = ["-loaded_at"]

    def __str__(self) -> str:
        return f"{self.file_name} {self.digest[:12]}"
