"""How long pages of the inventory take, by the number of entries of a listing: browsing, searching, filtering, sorting.

    python -m benchmarks.inventory_pages [--json] [--sizes N,N,…] [--repeats N] [--postgres]

Whole requests through every layer of the product (session, permissions, queries, templates), by Django's own client in
one process, after one request that is not counted. Told are the middle and the 95th percentile of the clock, and the
95th percentile of the processor's time, by which machines that others use as well can be compared.
"""

from __future__ import annotations

import argparse
import sys
import time

from django.test import Client
from django.urls import reverse

from benchmarks import inventory_bed as bed
from benchmarks.listings import RARE_NAME, ROOT, listing
from calculet.actors import Actor
from inventory.columns import columns_forget, columns_of
from inventory.models import Entry, Resource, Scan
from transfers.services.entry_states import entry_states_run

PROMISED_MS = 150.0


def measure(given: argparse.Namespace, size: int, actor: Actor) -> list[bed.Figure]:
    """Store a listing, then ask for its pages."""
    scan = bed.scan_recorded("project", ROOT, lambda: listing(size), actor)
    figures = []
    columns_forget(scan)
    began = time.perf_counter()
    columns_of(scan)
    figures.append(bed.Figure("make the columns anew, once", size, (time.perf_counter() - began) * 1000, "ms"))
    began = time.perf_counter()
    entry_states_run(scan.pk)
    figures.append(bed.Figure("reckon the states, once", size, (time.perf_counter() - began) * 1000, "ms"))
    client = Client(SERVER_NAME="localhost")
    assert actor.user is not None
    client.force_login(actor.user, backend="django.contrib.auth.backends.ModelBackend")
    for what, address, asked in pages(scan):
        if client.get(address, asked).status_code != 200:
            raise RuntimeError(f"{what} was refused")
        middle, late, worked = bed.percentiles(lambda at=address, words=asked: client.get(at, words), given.repeats)  # type: ignore[misc]
        figures.append(bed.Figure(f"{what}, median", size, middle, "ms"))
        figures.append(bed.Figure(f"{what}, p95", size, late, "ms", PROMISED_MS))
        figures.append(bed.Figure(f"{what}, p95 of the processor", size, worked, "ms"))
    return figures


def pages(scan: Scan) -> list[tuple[str, str, dict[str, str]]]:
    """What is asked for: a name, an address and its query."""
    listed = reverse("inventory:entries", args=[scan.pk])
    everywhere = reverse("inventory:search")
    folder = scan.entries.filter(kind=Entry.Kind.FOLDER).order_by("-entries_below")[2:3].get()
    tier = str(Resource.objects.get(pk=scan.resource_id).tier_id)
    return [
        ("first page with its picture", listed, {}),
        ("a folder", listed, {"in": str(folder.name)}),
        ("the resource's page", reverse("inventory:resource", args=[scan.resource_id]), {}),
        ("a rare name, everywhere", everywhere, {"name": RARE_NAME.decode()}),
        ("a name that is nowhere", everywhere, {"name": "nowhere-at-all"}),
        ("a common name, everywhere", everywhere, {"name": "block"}),
        ("a pattern, everywhere", everywhere, {"name": "*_9?9*.c"}),
        ("a common name of one tier", everywhere, {"name": "*.py", "tier": tier}),
        ("of a size", listed, {"least": "1 GB"}),
        ("of a kind", listed, {"kind": "link"}),
        ("of a state", listed, {"state": "unexplained", "kind": "file"}),
        ("of a state that none is in", listed, {"state": "verified"}),
        ("largest first", listed, {"sort": "size", "kind": "file"}),
        ("a pattern, newest first", listed, {"name": "*.bin", "sort": "time"}),
        ("without a digest", listed, {"bare": "on", "name": "*.log"}),
    ]


if __name__ == "__main__":
    sys.exit(bed.run("Pages of the inventory", "benchmarks.inventory_pages", measure))
