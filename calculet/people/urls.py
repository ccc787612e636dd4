"""Addresses about people and sign-in."""

from __future__ import annotations

from django.urls import path

from calculet.people import views

app_name = "people"

urlpatterns = [
    path("", views.people_list, name="list"),
    path("self/", views.self_page, name="self"),
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("link/<str:token>/", views.one_time_link, name="link"),
    path("<int:pk>/", views.person_page, name="person"),
    path("<int:pk>/roles/", views.person_roles, name="roles"),
    path("<int:pk>/link/", views.person_link, name="new-link"),
    path("<int:pk>/active/", views.person_active, name="active"),
]
