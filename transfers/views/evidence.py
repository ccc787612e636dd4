"""Evidence: what was verified and opened, its reports, and their files to take away."""

from __future__ import annotations

import tempfile
import zipfile
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import FileResponse, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from calculet.http import PersonRequest
from calculet.people.roles import Act, require
from transfers.engine.proof_files import CHUNKS, MEMBERS, SUMS
from transfers.models import EntryList, Report
from transfers.selectors.builds import check_sums, faults_of, landing_path
from transfers.selectors.evidence import (
    ReportFileGone,
    builds_with_evidence,
    members_page,
    report_files,
    report_open,
    report_path,
    report_text,
)
from transfers.services import reports
from transfers.views.acts import REFUSALS, act_first, rights, sentences_of
from transfers.views.find import build_numbered, report_numbered
from transfers.views.waiting import pack_address

BUILDS_ON_PAGE, CHUNKS_ON_PAGE, MEMBERS_ON_PAGE = 50, 100, 200
_ZIP_IN_MEMORY_BYTES = 8 * 2**20
# Shown in the browser as what they are; everything else is taken away as bytes.
_TEXT_ENDINGS = (".sha256", ".json", ".txt", "SHA256SUMS")


@require_safe
def evidence(request: PersonRequest) -> HttpResponse:
    """Builds that were verified or opened, and their reports."""
    require(request.user, Act.REPORT_READ)
    page = Paginator(builds_with_evidence(), BUILDS_ON_PAGE).get_page(request.GET.get("page"))
    return render(request, "transfers/evidence.html", {"page": page, **rights(request)})


@require_safe
def report(request: PersonRequest, pk: int) -> HttpResponse:
    """One report: facts, checksums, chunks, members, checks, and the files of its folder."""
    require(request.user, Act.REPORT_READ)
    row = report_numbered(pk)
    build = row.build
    chunks = Paginator(build.chunks.order_by("index"), CHUNKS_ON_PAGE).get_page(request.GET.get("chunks"))
    faults, fault_count = faults_of(build)
    context: dict[str, Any] = {
        "report": row,
        "build": build,
        "host": build.pack.plan.host,
        "sums_text": report_text(row, SUMS),
        "files": report_files(row),
        "folder": report_path(row),
        "landing_path": landing_path(build),
        "chunks": chunks,
        "chunks_from": chunks.start_index(),
        "sums": check_sums(build),
        "faults": faults,
        "fault_count": fault_count,
        "newer": build.reports.filter(made_at__gt=row.made_at).first(),
        "sums_name": SUMS,
        "chunks_name": CHUNKS,
        "members_name": MEMBERS,
        **rights(request),
        **_members(request, build.member_list or build.entry_list),
    }
    return render(request, "transfers/report.html", context)


def _members(request: PersonRequest, entry_list: EntryList) -> dict[str, Any]:
    pages = Paginator(range(entry_list.entry_count), MEMBERS_ON_PAGE)
    page = pages.get_page(request.GET.get("members"))
    try:
        return {"members": page, "member_lines": members_page(entry_list, page.number, MEMBERS_ON_PAGE)}
    except ValueError as error:
        return {"members": page, "member_lines": [], "members_problem": str(error)}


@require_safe
def report_file(request: PersonRequest, pk: int, name: str) -> HttpResponseBase:
    """One file of the report's folder. Names that are not plain files in it are not found."""
    require(request.user, Act.REPORT_READ)
    row = report_numbered(pk)
    try:
        file = report_open(row, name)
    except ReportFileGone as gone:
        return _gone(request, row, gone)
    is_text = name.endswith(_TEXT_ENDINGS)
    kind = "text/plain; charset=utf-8" if is_text else "application/octet-stream"
    response = FileResponse(file, as_attachment=True, filename=name, content_type=kind)
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


@require_safe
def report_zip(request: PersonRequest, pk: int) -> HttpResponseBase:
    """The whole folder as one zip; the packs themselves stay in the landing."""
    require(request.user, Act.REPORT_READ)
    row = report_numbered(pk)
    build = row.build
    top = f"{build.pack.plan.host.name}-{build.pack.name}-{build.number}-report"
    spool = tempfile.SpooledTemporaryFile(max_size=_ZIP_IN_MEMORY_BYTES)  # noqa: SIM115 (closed by the response)
    try:
        with zipfile.ZipFile(spool, "w", zipfile.ZIP_DEFLATED) as packed:
            files = report_files(row)
            if not files:
                raise ReportFileGone(_("The folder of this report holds no file, or is gone. Make the report again."))
            for one in files:
                with report_open(row, one.name) as source, packed.open(f"{top}/{one.name}", "w") as target:
                    while piece := source.read(2**20):
                        target.write(piece)
    except ReportFileGone as gone:
        spool.close()
        return _gone(request, row, gone)
    spool.seek(0)
    response = FileResponse(spool, as_attachment=True, filename=f"{top}.zip", content_type="application/zip")
    response["Cache-Control"] = "private, no-store"
    return response


def _gone(request: PersonRequest, row: Report, gone: ReportFileGone) -> HttpResponse:
    sentence = {"title": _("This file is not there"), "sentence": str(gone)}
    return render(request, "error.html", sentence, status=404)


@require_POST
def report_make(request: PersonRequest, host: str, pack: str, number: int) -> HttpResponse:
    """Make a report folder of the build as it stands now."""
    require(request.user, Act.REPORT_MAKE)
    build = build_numbered(host, pack, number)
    try:
        made = act_first(request, lambda actor: reports.report_make(build=build, actor=actor))
    except REFUSALS as error:
        for sentence in sentences_of(error):
            messages.error(request, sentence)
        return redirect(pack_address(build))
    except OSError as error:
        where = landing_path(build)
        messages.error(
            request,
            _("The report could not be written below “%(folder)s”: %(why)s. Make room or rights there, then try again.")
            % {"folder": where, "why": error.strerror or error},
        )
        return redirect(pack_address(build))
    messages.success(request, _("The report is made."))
    return redirect("transfers:report", made.pk)
