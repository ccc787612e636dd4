"""Addresses of plans."""

from __future__ import annotations

from django.urls import URLPattern, path

from transfers.views import (
    deltas,
    forecasts,
    packs,
    plan_files,
    plan_items,
    plan_scripts,
    plans,
    reshaping,
    revisions,
    rule_counts,
)

_PLAN = "plans/<slug:host>/"
_REVISION = f"{_PLAN}revisions/<int:number>/"

urlpatterns: list[URLPattern] = [
    path("plans/", plans.plan_index, name="plan-index"),
    path(_PLAN, plans.plan, name="plan"),
    path(f"{_PLAN}order/", packs.order, name="order"),
    path(f"{_PLAN}times/", forecasts.times, name="times"),
    path(f"{_PLAN}forecast/", forecasts.forecast, name="forecast"),
    path(f"{_PLAN}forecast/clear-by/", forecasts.clear_by_state, name="clear-by-state"),
    path(f"{_PLAN}forecast/rate/", forecasts.rate_state, name="rate-state"),
    path(f"{_PLAN}draft/", plans.draft_start, name="draft-start"),
    path(f"{_PLAN}draft/propose/", plans.draft_propose, name="draft-propose"),
    path(f"{_PLAN}draft/withdraw/", plans.draft_discard, name="draft-withdraw"),
    path(f"{_PLAN}draft/items/new/", plan_items.item_new, name="item-new"),
    path(f"{_PLAN}draft/items/counts/", rule_counts.rule_counts_typed, name="item-counts"),
    path(f"{_PLAN}draft/items/<int:pk>/", plan_items.item_edit, name="item"),
    path(f"{_PLAN}draft/items/<int:pk>/remove/", plan_items.item_remove, name="item-remove"),
    path(f"{_PLAN}draft/delta/<slug:pack>/", deltas.delta_add, name="delta-add"),
    path(f"{_PLAN}packs/<slug:pack>/reshape/", reshaping.reshape, name="reshape"),
    path(f"{_PLAN}packs/<slug:pack>/split/", reshaping.split, name="pack-split"),
    path(f"{_PLAN}packs/<slug:pack>/copy/", reshaping.copy, name="pack-copy"),
    path(f"{_PLAN}merge/", reshaping.merge, name="merge"),
    path(f"{_PLAN}merge/packs/", reshaping.merge_packs, name="packs-merge"),
    path(f"{_PLAN}items/<int:pk>/sample/", reshaping.sample, name="item-sample"),
    path(f"{_PLAN}compare/", revisions.compare, name="compare"),
    path(_REVISION, revisions.revision, name="revision"),
    path(f"{_REVISION}approve/", revisions.revision_approve, name="revision-approve"),
    path(f"{_REVISION}decline/", revisions.revision_decline, name="revision-decline"),
    path(f"{_REVISION}withdraw/", revisions.revision_withdraw, name="revision-withdraw"),
    path(f"{_PLAN}load/", plan_files.plan_load, name="plan-load"),
    path(f"{_PLAN}export/", plan_files.plan_export, name="plan-export"),
    path(f"{_PLAN}export/script/", plan_scripts.plan_script, name="plan-script"),
]
