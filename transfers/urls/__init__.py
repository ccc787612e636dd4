"""Addresses of the transfers application, one module an area of the product."""

from __future__ import annotations

from transfers.urls import evidence, packs, plans

app_name = "transfers"

urlpatterns = [*packs.urlpatterns, *plans.urlpatterns, *evidence.urlpatterns]
