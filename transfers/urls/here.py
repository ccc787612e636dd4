"""Addresses of what is already here."""

from __future__ import annotations

from django.urls import URLPattern, path

from transfers.views import had

_SOURCE = "already-here/<int:pk>/"

urlpatterns: list[URLPattern] = [
    path("already-here/", had.here, name="here"),
    path(_SOURCE, had.here_source, name="here-source"),
    path(f"{_SOURCE}<slug:act>/", had.here_act, name="here-act"),
]
