"""Addresses of links: lanes, trials, limits."""

from __future__ import annotations

from django.urls import URLPattern, path

from transfers.views import examinations, links

_LINK = "links/<slug:host>/"

urlpatterns: list[URLPattern] = [
    path("links/", links.links, name="links"),
    path("limits/all/", links.limit_of_all, name="limit-of-all"),
    path(_LINK, links.link, name="link"),
    path(f"{_LINK}doctor/", examinations.doctor, name="link-doctor"),
    path(f"{_LINK}lanes/", links.level_choose, name="level-choose"),
    path(f"{_LINK}cap/", links.lane_cap, name="lane-cap"),
    path(f"{_LINK}limit/", links.limit, name="limit"),
    path(f"{_LINK}trials/", links.trial_start, name="trial-start"),
    path(f"{_LINK}trials/<int:pk>/", links.trial, name="trial"),
    path(f"{_LINK}trials/<int:pk>/stop/", links.trial_stop, name="trial-stop"),
]
