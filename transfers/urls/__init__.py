"""Addresses of the transfers application, one module an area of the product."""

from __future__ import annotations

from transfers.urls import evidence, here, links, packs, plans

app_name = "transfers"

urlpatterns = [*packs.urlpatterns, *links.urlpatterns, *plans.urlpatterns, *evidence.urlpatterns, *here.urlpatterns]
