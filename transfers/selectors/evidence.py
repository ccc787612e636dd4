"""Evidence for pages: builds that were verified, their reports, and the files of a report folder.

Files are read only below the folder that a report's row names, below its landing, and no link is followed on the way.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from inventory.remote.names import escape
from transfers.models import Build, BuildState, EntryList, Report
from transfers.selectors.board import builds_for_pages
from transfers.selectors.lists import members_between

EVIDENT = [BuildState.VERIFIED, BuildState.OPENED, BuildState.PERMITTED, BuildState.CLEARED]
_MOST_FILES = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)  # what a report's files are called; never a path


class ReportFileGone(Exception):
    """A file of a report cannot be read. `str()` is the sentence to show."""


@dataclass(frozen=True, slots=True)
class ReportFile:
    """One file of a report folder."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MemberLine:
    """One member of a build's list, name escaped."""

    name: str
    kind: str
    size_bytes: int
    sha256: str


def builds_with_evidence() -> QuerySet[Build, Build]:
    """Builds that were verified or more, newest first, each with its reports."""
    return (
        builds_for_pages()
        .filter(state__in=EVIDENT)
        .prefetch_related(Prefetch("reports", queryset=Report.objects.order_by("-made_at")))
        .order_by("-verified_at", "-pk")
    )


def reports_for_pages() -> QuerySet[Report, Report]:
    """Reports with their builds, without the content of lists."""
    return Report.objects.select_related(
        "build__pack__plan__host", "build__landing", "build__entry_list", "build__member_list", "build__item__revision"
    ).defer("build__entry_list__content", "build__member_list__content")


def report_path(report: Report) -> Path:
    """The report's folder on this machine."""
    return Path(report.build.landing.path) / report.folder


def report_files(report: Report) -> list[ReportFile]:
    """The plain files of the folder by name; empty when the folder is gone. Links are left out."""
    try:
        with _folder(report) as folder:
            names = sorted(os.listdir(folder))[:_MOST_FILES]  # noqa: PTH208 (by handle: no link is followed)
            found = [(name, os.stat(name, dir_fd=folder, follow_symlinks=False)) for name in names]
    except (OSError, ReportFileGone):
        return []
    return [
        ReportFile(name, facts.st_size)
        for name, facts in found
        if stat.S_ISREG(facts.st_mode) and _NAME.fullmatch(name)
    ]


def report_open(report: Report, name: str) -> BinaryIO:
    """Open one plain file of the folder for reading; the caller closes it. Raises ReportFileGone.

    `name` must be the name of a file that lies directly in the folder: no path, no link, nothing hidden.
    """
    shown = escape(os.fsencode(name))
    if _NAME.fullmatch(name) is None:
        raise ReportFileGone(_("“%(name)s” is not a file of this report. Nothing was read.") % {"name": shown})
    try:
        with _folder(report) as folder:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise _gone(report, name, error) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ReportFileGone(_("“%(name)s” is not a plain file. Nothing was read.") % {"name": shown})
    return os.fdopen(handle, "rb")


def report_text(report: Report, name: str, limit_bytes: int = 65_536) -> str:
    """The beginning of a text file of the folder for a page, escaped line by line; empty when it is not there."""
    try:
        with report_open(report, name) as file:
            content = file.read(limit_bytes + 1)
    except (OSError, ReportFileGone):
        return ""
    lines = content[:limit_bytes].split(b"\n")
    if len(content) > limit_bytes:
        lines[-1] = "…".encode()
    return "\n".join(_plain(line) for line in lines)


def _plain(line: bytes) -> str:
    """A line of a checksum file: its own escapes stand; only what is not text is shown as bytes."""
    return escape(line).replace("\\\\", "\\")


@contextmanager
def _folder(report: Report) -> Iterator[int]:
    """A handle of the report's folder, walked to from the landing without following a link. Raises OSError."""
    parts = PurePosixPath(report.folder).parts
    if not parts or PurePosixPath(report.folder).is_absolute() or ".." in parts:
        raise ReportFileGone(_("The report's row names a folder outside its landing. Nothing was read."))
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(report.build.landing.path, flags)
    try:
        for part in parts:
            deeper = os.open(part, flags | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = deeper
        yield handle
    finally:
        os.close(handle)


def _gone(report: Report, name: str, error: OSError) -> ReportFileGone:
    return ReportFileGone(
        _(
            "“%(name)s” of this report cannot be read: %(why)s. It was in “%(folder)s”. Make the report again from the "
            "pack's page; the evidence itself stands in the database and beside the pack."
        )
        % {"name": escape(os.fsencode(name)), "why": error.strerror, "folder": report_path(report)}
    )


def members_page(entry_list: EntryList, page: int, size: int) -> list[MemberLine]:
    """Members number `(page - 1) * size` and on, names escaped. Raises ValueError when the list is damaged."""
    return [
        MemberLine(
            name=escape(member.name),
            kind=member.kind,
            size_bytes=member.size_bytes,
            sha256=member.sha256.hex() if member.sha256 else "",
        )
        for member in members_between(entry_list, (page - 1) * size, size)
    ]
