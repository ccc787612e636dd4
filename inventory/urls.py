"""Addresses of the inventory."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "inventory"

urlpatterns: list[URLPattern] = []
