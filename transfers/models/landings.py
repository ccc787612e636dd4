"""Landings: the local folders that packs arrive in."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Landing(models.Model):
    """A local folder of one site. Workers of that site serve it."""

    name = models.SlugField(max_length=63, unique=True)
    path = models.CharField(max_length=1024)
    site = models.SlugField(max_length=63, default="home")
    is_default = models.BooleanField(default=False)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["is_default"], condition=models.Q(is_default=True), name="one_default_landing"
            ),
        ]

    def __str__(self) -> str:
        return self.name
