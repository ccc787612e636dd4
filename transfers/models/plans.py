"""Plans: what goes into which pack, version by version, and who approved which version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from inventory.models import Host, RemoteNameField, Resource
from inventory.remote.names import RemoteName
from transfers.engine.slices import Stretch


def no_name() -> RemoteName:
    """No bound by name."""
    return RemoteName(b"")


class EntryList(models.Model):
    """An explicit list of members, named by the SHA-256 of its canonical form and never changed.

    `content` is that canonical form (see `transfers.engine.members`) compressed by zstd.
    """

    digest = models.CharField(max_length=64, unique=True)
    entry_count = models.PositiveBigIntegerField()
    file_count = models.PositiveBigIntegerField()
    total_bytes = models.PositiveBigIntegerField()
    content = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.entry_count} entries {self.digest[:12]}"


class Plan(models.Model):
    """A host's plan. What is in force is its newest approved revision."""

    host = models.OneToOneField(Host, on_delete=models.PROTECT, related_name="plan")
    note = models.TextField(blank=True)
    clear_by = models.DateField(null=True, blank=True)  # the host will be cleared on that day
    # What somebody states for forecasts, as long as nothing was measured.
    stated_bytes_per_second = models.PositiveBigIntegerField(null=True, blank=True)
    stated_packed_percent = models.PositiveSmallIntegerField(null=True, blank=True)  # size after packing, of before

    def __str__(self) -> str:
        return f"plan of {self.host}"


class RevisionState(models.TextChoices):
    DRAFT = "draft", "draft"
    PROPOSED = "proposed", "proposed"
    APPROVED = "approved", "approved"
    DECLINED = "declined", "declined"
    WITHDRAWN = "withdrawn", "withdrawn"
    SUPERSEDED = "superseded", "superseded"


class Revision(models.Model):
    """A version of a plan. Its items may change while it is a draft; from *proposed* on it is fixed by its digest.

    draft ──> proposed ──> approved ──> superseded
      │           ├──────> declined
      └───────────┴──────> withdrawn
    """

    TRANSITIONS: ClassVar[Mapping[str, frozenset[str]]] = {
        RevisionState.DRAFT: frozenset({RevisionState.PROPOSED, RevisionState.WITHDRAWN}),
        RevisionState.PROPOSED: frozenset({RevisionState.APPROVED, RevisionState.DECLINED, RevisionState.WITHDRAWN}),
        RevisionState.APPROVED: frozenset({RevisionState.SUPERSEDED}),
        RevisionState.DECLINED: frozenset(),
        RevisionState.WITHDRAWN: frozenset(),
        RevisionState.SUPERSEDED: frozenset(),
    }

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=RevisionState.choices, default=RevisionState.DRAFT)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    note = models.TextField(blank=True)
    digest = models.CharField(max_length=64, blank=True)  # set when proposed
    created_at = models.DateTimeField(auto_now_add=True)
    proposed_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["plan", "-number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["plan", "number"], name="revision_number_once_per_plan"),
            models.UniqueConstraint(
                fields=["plan"], condition=Q(state="approved"), name="one_revision_in_force_per_plan"
            ),
            models.UniqueConstraint(fields=["plan"], condition=Q(state="draft"), name="one_draft_per_plan"),
        ]

    def __str__(self) -> str:
        return f"{self.plan} revision {self.number}"


class Mode(models.TextChoices):
    ARCHIVE = "archive", "archive"  # made on the host from a list of entries
    FILES = "files", "files"  # fetched as they are
    EXISTING = "existing", "existing archive"  # one archive or image that is there already
    PARTS = "parts", "set of parts"  # a set of chunk files that is there already


class Item(models.Model):
    """One pack's content in one revision. `entry_list` is what was previewed and what will be packed."""

    revision = models.ForeignKey(Revision, on_delete=models.CASCADE, related_name="items")
    pack = models.ForeignKey("transfers.Pack", on_delete=models.PROTECT, related_name="items")
    position = models.PositiveIntegerField(default=0)
    mode = models.CharField(max_length=16, choices=Mode.choices, default=Mode.ARCHIVE)
    resources = models.ManyToManyField(Resource, related_name="items")
    include_rules = models.JSONField(default=list)  # patterns with the meaning of gitignore; none: everything
    exclude_rules = models.JSONField(default=list)
    chunk_bytes = models.PositiveBigIntegerField(default=64 * 2**20)
    entry_list = models.ForeignKey(EntryList, null=True, on_delete=models.PROTECT, related_name="items")
    # Set: of what the rules give, only what that pack does not hold as it lies on the host now.
    delta_of = models.ForeignKey(
        "transfers.Pack", null=True, blank=True, on_delete=models.PROTECT, related_name="delta_items"
    )
    keeps_list = models.BooleanField(default=False)  # the list stays as it was approved, whatever later scans found
    # Only names from the first on and before the end, in the order of lists; empty: no bound. Splitting makes them.
    first_name = RemoteNameField(default=no_name, blank=True)
    end_name = RemoteNameField(default=no_name, blank=True)
    # Leave out what a pack before this one carries with the same digest; see `transfers.engine.satisfied`.
    leaves_out_carried = models.BooleanField(default=False)
    satisfied_list = models.ForeignKey(EntryList, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    # Packs that carry content of this one: [{"pack", "list" (its digest), "files", "bytes"}], left out or not.
    carriers = models.JSONField(default=list)
    came_of = models.JSONField(default=list)  # names of packs whose content it took over by a split or a merge
    # Leave out what is already here by a declaration (see inventory.models.had), as the preview found it.
    leaves_out_here = models.BooleanField(default=False)
    here_list = models.ForeignKey(EntryList, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    # What the preview said, kept so that the approver sees what the author saw.
    excluded_count = models.PositiveBigIntegerField(default=0)
    excluded_bytes = models.PositiveBigIntegerField(default=0)
    warnings = models.JSONField(default=list)  # sentences
    looked_at = models.JSONField(default=dict)  # see `transfers.services.list_reuse`

    class Meta:
        ordering: ClassVar = ["revision", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["revision", "pack"], name="pack_once_per_revision"),
            models.CheckConstraint(condition=Q(chunk_bytes__gte=2**20), name="chunk_is_a_mebibyte_or_more"),
        ]

    def __str__(self) -> str:
        return f"{self.pack} in {self.revision}"

    @property
    def stretch(self) -> Stretch:
        """The names that it is bound to."""
        return Stretch(self.first_name.raw, self.end_name.raw)


class Decision(models.TextChoices):
    APPROVE = "approve", "approve"
    DECLINE = "decline", "decline"


class Approval(models.Model):
    """One person's decision on one revision's digest. The author is repeated so that the database keeps the rule."""

    revision = models.ForeignKey(Revision, on_delete=models.CASCADE, related_name="approvals")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    decision = models.CharField(max_length=16, choices=Decision.choices)
    digest = models.CharField(max_length=64)
    note = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["at"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["revision", "person"], name="one_decision_per_person_and_revision"),
            models.CheckConstraint(
                condition=~Q(decision="approve") | ~Q(person=F("author")), name="authors_do_not_approve_their_own"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.person} {self.decision} {self.revision}"
