"""Addresses of the inventory."""

from __future__ import annotations

from django.urls import URLPattern, path

from inventory.views import (
    board,
    browse,
    hosts,
    insides,
    lists,
    overlaps,
    policies,
    proposals,
    resources,
    snapshots,
    tiers,
)

app_name = "inventory"

_HOST = "hosts/<slug:name>/"
_RESOURCE = "resources/<int:pk>/"
_PROPOSAL = "proposals/<int:pk>/"

urlpatterns: list[URLPattern] = [
    path("", board.index, name="index"),
    path(_RESOURCE, resources.resource, name="resource"),
    path(f"{_RESOURCE}change/", resources.resource_change, name="resource-change"),
    path(f"{_RESOURCE}scan/", resources.resource_scan, name="resource-scan"),
    path(f"{_RESOURCE}digests/", resources.resource_digests, name="resource-digests"),
    path(f"{_RESOURCE}digest-policy/", policies.resource_policy, name="resource-policy"),
    path("digests/<int:pk>/cancel/", resources.digests_cancel, name="digests-cancel"),
    path(f"{_RESOURCE}inside/", insides.resource_inside, name="resource-inside"),
    path("inside/<int:pk>/", insides.inside_archive, name="inside"),
    path("inside/runs/<int:pk>/cancel/", insides.inside_cancel, name="inside-cancel"),
    path("scans/<int:pk>/", browse.entries, name="entries"),
    path("scans/<int:pk>/changes/", resources.scan_changes, name="scan-changes"),
    path("scans/<int:pk>/cancel/", resources.scan_cancel, name="scan-cancel"),
    path("scans/<int:pk>/export/", lists.scan_export, name="scan-export"),
    path("lists/<int:pk>/", lists.list_shown, name="list"),
    path("lists/<int:pk>/import/", lists.list_import, name="list-import"),
    path("lists/<int:pk>/discard/", lists.list_discard, name="list-discard"),
    path("search/", browse.search, name="search"),
    path("overlaps/", overlaps.overlap_list, name="overlaps"),
    path("overlaps/measure/", overlaps.overlap_measure, name="overlap-measure"),
    path("overlaps/declare/", overlaps.overlap_declare, name="overlap-declare"),
    path("overlaps/<int:pk>/withdraw/", overlaps.overlap_withdraw, name="overlap-withdraw"),
    path("proposals/", proposals.proposal_list, name="proposals"),
    path(f"{_PROPOSAL}approve/", proposals.proposal_approve, name="proposal-approve"),
    path(f"{_PROPOSAL}decline/", proposals.proposal_decline, name="proposal-decline"),
    path(f"{_PROPOSAL}withdraw/", proposals.proposal_withdraw, name="proposal-withdraw"),
    path("hosts/", hosts.host_list, name="hosts"),
    path("hosts/add/new/", hosts.host_add, name="host-add"),  # two parts, so that a host may be called “add”
    path(_HOST, hosts.host, name="host"),
    path(f"{_HOST}change/", hosts.host_change, name="host-change"),
    path(f"{_HOST}digest-policy/", policies.host_policy, name="host-policy"),
    path(f"{_HOST}look/", hosts.host_look, name="host-look"),
    path(f"{_HOST}pin/", hosts.host_pin, name="host-pin"),
    path(f"{_HOST}probe/", hosts.host_probe, name="host-probe"),
    path(f"{_HOST}resources/add/", resources.resource_add, name="resource-add"),
    path(f"{_HOST}lists/add/", lists.list_add, name="list-add"),
    path("snapshots/<int:pk>/offer/", snapshots.snapshot_offer, name="snapshot-offer"),
    path("snapshots/<int:pk>/", snapshots.snapshot_shown, name="snapshot"),
    path("snapshots/<int:pk>/archive/", snapshots.snapshot_archive, name="snapshot-archive"),
    path(f"{_HOST}environment/", snapshots.snapshot_list, name="snapshots"),
    path(f"{_HOST}environment/take/", snapshots.snapshot_take, name="snapshot-take"),
    path(f"{_HOST}tiers/", tiers.tier_board, name="tiers"),
    path(f"{_HOST}tiers/edit/", tiers.tier_edit, name="tiers-edit"),
    path(f"{_HOST}tiers/propose/", tiers.tier_propose, name="tiers-propose"),
    path(f"{_HOST}tiers/discard/", tiers.tier_discard, name="tiers-discard"),
    path(f"{_HOST}scan/", board.scan_all, name="scan-all"),
]
