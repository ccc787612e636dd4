"""Environment snapshots: taking one, reading its files, comparing two, taking one away."""

from __future__ import annotations

import difflib
import io
import tarfile
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from calculet.actors import Actor
from calculet.http import PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory.manifests.sums import line_of
from inventory.models import Host, ScanState, Snapshot
from inventory.services import snapshot_offers, snapshots
from inventory.tasks import offer_snapshot, send_soon, take_snapshot
from inventory.views.acts import act_and_return

LINES_SHOWN = 2000
LINES_COMPARED = 20_000
SNAPSHOTS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class FileDifference:
    """One file in two snapshots; `lines` are those that differ, each with “+”, “-” or a blank before it."""

    name: str
    lines: list[str]
    is_cut: bool

    @property
    def is_same(self) -> bool:
        return not self.lines


@require_safe
def snapshot_list(request: PersonRequest, name: str) -> HttpResponse:
    """A host's snapshots, newest first."""
    require(request.user, Act.VIEW)
    host = get_object_or_404(Host, name=name)
    rows = list(Snapshot.objects.filter(host=host).select_related("requested_by").order_by("-requested_at", "-pk"))
    context = {
        "host": host,
        "snapshots": rows[:SNAPSHOTS_SHOWN],
        "finished": [row for row in rows if row.state == ScanState.FINISHED],
        "is_under_way": any(row.state in (ScanState.QUEUED, ScanState.RUNNING) for row in rows),
        "may_scan": request.user.may(Act.SCAN),
    }
    return page_or_part(request, "inventory/snapshots.html", "live", context)


@require_POST
def snapshot_take(request: PersonRequest, name: str) -> HttpResponse:
    """Ask for a snapshot."""
    require(request.user, Act.SCAN)
    host = get_object_or_404(Host, name=name)
    return act_and_return(
        request,
        lambda actor: send_soon(take_snapshot, snapshots.snapshot_request(host=host, actor=actor).pk),
        reverse("inventory:snapshots", args=[host.name]),
        done=_("A snapshot is asked for; nothing is written on the host."),
    )


@require_POST
def snapshot_offer(request: PersonRequest, pk: int) -> HttpResponse:
    """Make a resource of a snapshot, so that a pack can carry it."""
    require(request.user, Act.RESOURCE_EDIT)
    row = get_object_or_404(Snapshot.objects.select_related("host"), pk=pk)

    def offer(actor: Actor) -> None:
        snapshot_offers.snapshot_offer(snapshot=row, actor=actor)
        send_soon(offer_snapshot, row.pk)

    return act_and_return(
        request,
        offer,
        reverse("inventory:snapshot", args=[row.pk]),
        done=_(
            "Its files are written into our staging folder on the host and listed there; then a pack can carry them."
        ),
    )


@require_safe
def snapshot_shown(request: PersonRequest, pk: int) -> HttpResponse:
    """A snapshot's files; `?with=` compares it with an earlier one of the same host."""
    require(request.user, Act.VIEW)
    row = get_object_or_404(Snapshot.objects.select_related("host", "resource"), pk=pk, state=ScanState.FINISHED)
    others = Snapshot.objects.filter(host=row.host, state=ScanState.FINISHED).exclude(pk=row.pk)
    chosen = request.GET.get("with", "")
    other = (
        get_object_or_404(others, pk=int(chosen))
        if chosen.isascii() and chosen.isdigit() and len(chosen) < 19
        else None
    )
    context = {
        "snapshot": row,
        "host": row.host,
        "others": others.order_by("-finished_at", "-pk")[:SNAPSHOTS_SHOWN],
        "other": other,
        "may_offer": request.user.may(Act.RESOURCE_EDIT) and request.user.may(Act.SCAN),
        "differences": _differences(other, row) if other is not None else [],
        "files": [] if other is not None else [(file, _text(file.raw)) for file in row.files.order_by("name")],
    }
    return render(request, "inventory/snapshot.html", context)


@require_safe
def snapshot_archive(request: PersonRequest, pk: int) -> HttpResponse:
    """A snapshot's files as one .tar, with their SHA256SUMS."""
    require(request.user, Act.VIEW)
    row = get_object_or_404(Snapshot.objects.select_related("host"), pk=pk, state=ScanState.FINISHED)
    held = io.BytesIO()
    files = [(file.name, file.raw, file.sha256) for file in row.files.order_by("name")]
    sums = b"".join(line_of(sha256, name.encode()) for name, _raw, sha256 in files)
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, raw in [*((name, raw) for name, raw, _sha256 in files), ("SHA256SUMS", sums)]:
            member = tarfile.TarInfo(f"environment/{name}")
            member.size = len(raw)
            member.mtime = int(row.finished_at.timestamp()) if row.finished_at is not None else 0
            archive.addfile(member, io.BytesIO(raw))
    response = HttpResponse(held.getvalue(), content_type="application/x-tar")
    response["Content-Disposition"] = f'attachment; filename="{row.host.name}-environment-{row.pk}.tar"'
    return response


def _differences(before: Snapshot, after: Snapshot) -> list[FileDifference]:
    old, new = ({file.name: file for file in row.files.all()} for row in (before, after))
    found = []
    for name in sorted(old.keys() | new.keys()):
        if name in old and name in new and old[name].sha256 == new[name].sha256:
            found.append(FileDifference(name, [], is_cut=False))
            continue
        one, other = (_text(files[name].raw).splitlines() if name in files else [] for files in (old, new))
        lines = list(difflib.unified_diff(one[:LINES_COMPARED], other[:LINES_COMPARED], lineterm="", n=1))[2:]
        found.append(FileDifference(name, lines[:LINES_SHOWN], is_cut=len(lines) > LINES_SHOWN))
    return found


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
