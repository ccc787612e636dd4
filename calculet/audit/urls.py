"""Addresses of the audit log."""

from __future__ import annotations

from django.urls import path

from calculet.audit import views

app_name = "audit"

urlpatterns = [
    path("", views.log, name="log"),
    path("chain/", views.chain, name="chain"),
    path("verify/", views.verify, name="verify"),
    path("export/", views.export, name="export"),
    path("views/", views.view_save, name="view-save"),
    path("views/<int:pk>/remove/", views.view_remove, name="view-remove"),
]
