"""Addresses of the first page and of packs. Nothing but packs stands below a host, so no pack's name is taken."""

from __future__ import annotations

from django.urls import URLPattern, path

from transfers.views import adoptions, builds, evidence, overview, packs

_PACK = "packs/<slug:host>/<slug:pack>/"
_BUILD = f"{_PACK}builds/<int:number>/"

urlpatterns: list[URLPattern] = [
    path("", overview.overview, name="overview"),
    path("packs/", packs.packs, name="packs"),
    path(_PACK, packs.pack, name="pack"),
    path(f"{_PACK}pause/", packs.pack_pause, name="pack-pause"),
    path(f"{_PACK}resume/", packs.pack_resume, name="pack-resume"),
    path(f"{_PACK}hold/", packs.pack_hold, name="pack-hold"),
    path(f"{_PACK}release/", packs.pack_release, name="pack-release"),
    path(f"{_PACK}place/", packs.pack_place, name="pack-place"),
    path(f"{_PACK}adopt/", adoptions.adopt, name="adopt"),
    path(f"{_PACK}adopt/<int:pk>/leave/", adoptions.adoption_leave, name="adoption-leave"),
    path(f"{_PACK}adopt/<int:pk>/<str:way>/", adoptions.adoption_accept, name="adoption-accept"),
    path(_BUILD, packs.build, name="build"),
    path(f"{_BUILD}retry/", builds.build_retry, name="build-retry"),
    path(f"{_BUILD}replace/", builds.build_replace, name="build-replace"),
    path(f"{_BUILD}accept/", builds.deviations_accept, name="build-accept"),
    path(f"{_BUILD}unpack/", builds.unpack, name="build-unpack"),
    path(f"{_BUILD}recheck/", builds.recheck, name="build-recheck"),
    path(f"{_BUILD}report/", evidence.report_make, name="report-make"),
]
