"""Addresses of the whole product. Applications are included by name, so that the base imports none of them."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, URLResolver, include, path
from django.views.i18n import set_language

from calculet.pages import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("transfers.urls")),
    path("inventory/", include("inventory.urls")),
    path("people/", include("calculet.people.urls")),
    path("audit/", include("calculet.audit.urls")),
    path("language/", login_not_required(set_language), name="set-language"),
    path("healthz", views.healthz, name="healthz"),
]

handler400 = "calculet.pages.views.bad_request"
handler403 = "calculet.pages.views.refused"
handler404 = "calculet.pages.views.not_found"
handler500 = "calculet.pages.views.broken"
