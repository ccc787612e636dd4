"""People, their one-time links, and the keys that make an act happen once."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.utils.crypto import salted_hmac

from calculet.people.roles import Act, Role, may, roles_of


class Person(AbstractUser):
    """Somebody who signs in. Roles are groups; `is_staff` and `is_superuser` mean nothing on our pages."""

    # Raised to end every session of the person at once: it is part of what a session is bound to.
    session_epoch = models.PositiveIntegerField(default=0)

    roles_read: frozenset[Role] | None = None  # kept by `roles_of` for the life of the instance

    class Meta(AbstractUser.Meta):
        verbose_name = "person"
        verbose_name_plural = "people"
        ordering: ClassVar = ["username"]

    def get_session_auth_hash(self) -> str:
        return self._session_hash()

    def get_session_auth_fallback_hash(self) -> list[str]:
        """No older keys: an installation has one secret key."""
        return []

    def _session_hash(self) -> str:
        bound = f"{self.password}:{self.session_epoch}"
        return salted_hmac("calculet.people.Person.session", bound, algorithm="sha256").hexdigest()

    @property
    def shown_name(self) -> str:
        """The full name where there is one, else the sign-in name."""
        return self.get_full_name() or self.username

    @property
    def roles(self) -> frozenset[Role]:
        return roles_of(self)

    def may(self, act: Act) -> bool:
        """True when one of the person's roles covers the act."""
        return may(self, act)


class OneTimeLink(models.Model):
    """A link that lets its holder set a password once. Only the token's SHA-256 is kept.

    `person` is null for the link that makes the first admin.
    """

    class Purpose(models.TextChoices):
        SETUP = "setup", "first admin"
        PASSWORD = "password", "set a password"

    purpose = models.CharField(max_length=16, choices=Purpose.choices)
    person = models.ForeignKey(Person, null=True, on_delete=models.CASCADE, related_name="one_time_links")
    token_sha256 = models.CharField(max_length=64, unique=True)
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(purpose="setup", person__isnull=True) | Q(purpose="password", person__isnull=False),
                name="one_time_link_names_its_person",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_purpose_display()} link of {self.made_at:%Y-%m-%d %H:%M}"


class ActKey(models.Model):
    """A key that a form carries, so that sending it twice does the act once."""

    key = models.CharField(max_length=64, unique=True)
    person_id = models.BigIntegerField(null=True)
    claimed_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key
