"""Addresses of evidence."""

from __future__ import annotations

from django.urls import URLPattern, path

from transfers.views import evidence

urlpatterns: list[URLPattern] = [
    path("evidence/", evidence.evidence, name="evidence"),
    path("evidence/<int:pk>/", evidence.report, name="report"),
    path("evidence/<int:pk>/files/<str:name>", evidence.report_file, name="report-file"),
    path("evidence/<int:pk>/zip/", evidence.report_zip, name="report-zip"),
]
