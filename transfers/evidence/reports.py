"""The report of a build: what it is, who allowed it, what was compared, and where everything lies.

A report folder holds

    SHA256SUMS, chunks.sha256, members.sha256     copies of the checksum files that stand beside the landed content
    satisfied.tsv                                 likewise, where other builds hold files of its tree
    report.json                                   everything below, for programs
    report.html                                   the same for people; needs nothing but a browser

The packs themselves stay in the landing; the report says where.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db.models import Count, Sum
from django.template.loader import render_to_string
from django.utils import timezone

from inventory.remote.names import escape
from transfers.engine.proof_files import CHUNKS, MEMBERS, SATISFIED, SUMS, write_whole
from transfers.models import Build, Mode
from transfers.selectors.specs import build_folder

FORMAT = "calculet-report-1"
FAILED_CHECKS_SHOWN = 1000
JSON_NAME, HTML_NAME = "report.json", "report.html"


def report_content(build: Build, *, audit_sequence: int, audit_hash: str) -> dict[str, Any]:
    """All that report.json says, as plain values. `audit_…` is the head of the audit chain when it was made."""
    item, revision = build.item, build.item.revision
    return {
        "format": FORMAT,
        "made_at": timezone.now().isoformat(timespec="seconds"),
        "machine": platform.node(),
        "host": build.pack.plan.host.name,
        "pack": {"name": build.pack.name, "aim": build.pack.aim, "build": build.number, "mode": build.mode},
        "state": build.state,
        "plan": {
            "revision": revision.number,
            "digest": revision.digest,
            "author": revision.author.get_username(),
            "decisions": [
                {
                    "person": one.person.get_username(),
                    "decision": one.decision,
                    "digest": one.digest,
                    "note": one.note,
                    "at": one.at.isoformat(timespec="seconds"),
                }
                for one in revision.approvals.select_related("person")
            ],
            "resources": [
                {"name": resource.name, "path": str(resource.path)} for resource in item.resources.order_by("name")
            ],
            "include": item.include_rules,
            "exclude": item.exclude_rules,
            "left_out_entries": item.excluded_count,
            "left_out_bytes": item.excluded_bytes,
            "warnings": item.warnings,
        },
        "list": {
            "digest": build.entry_list.digest,
            "entries": build.entry_list.entry_count,
            "files": build.entry_list.file_count,
            "bytes": build.entry_list.total_bytes,
        },
        "content": {
            "name": build.archive_name or "files/",
            "bytes": build.size_bytes,
            "sha256": build.sha256,
            "digest_of": "the files of the list one after another" if build.mode == Mode.FILES else "the file",
            "source": str(build.source_path) if build.source_path.raw else "",
            "compression": build.compression,
            "compression_note": build.compression_note,
            "members_found": build.member_count,
        },
        "satisfied": {
            "list": item.satisfied_list.digest if item.satisfied_list is not None else "",
            "by": build.satisfied_by,
        },
        "deviations": {
            "named": build.deviations,
            "accepted_by": build.deviations_accepted_by.get_username() if build.deviations_accepted_by else None,
        },
        "times": _times(build),
        "chunks": _chunks(build),
        "checks": _checks(build),
        "landing": {"folder": str(build_folder(build)), "check": f"cd {build_folder(build)} && sha256sum -c {SUMS}"},
        "audit": {"sequence": audit_sequence, "hash": audit_hash},
    }


def _times(build: Build) -> dict[str, str | None]:
    names = ("created_at", "packed_at", "received_at", "verified_at", "opened_at")
    found = {name: getattr(build, name) for name in names}
    return {name: at.isoformat(timespec="seconds") if at else None for name, at in found.items()}


def _chunks(build: Build) -> list[dict[str, Any]]:
    return [
        {
            "number": chunk.index + 1,
            "offset": chunk.offset,
            "bytes": chunk.length,
            "sha256": bytes(chunk.sha256).hex() if chunk.sha256 else "",
            "proven_at": chunk.proven_at.isoformat(timespec="seconds") if chunk.proven_at else None,
        }
        for chunk in build.chunks.order_by("index").iterator()
    ]


def _checks(build: Build) -> dict[str, Any]:
    sums = build.checks.values("level", "outcome").annotate(
        comparisons=Sum("count"), rows=Count("pk"), bytes=Sum("length"), seconds=Sum("seconds")
    )
    failed = build.checks.exclude(outcome__in=["matched", "recorded here"]).order_by("pk")
    return {
        "sums": [{**one, "seconds": round(one["seconds"] or 0.0, 3)} for one in sums.order_by("level", "outcome")],
        "failed": [
            {
                "level": check.level,
                "subject": escape(bytes(check.subject)),
                "offset": check.offset,
                "bytes": check.length,
                "expected": check.expected,
                "found": check.found,
                "outcome": check.outcome,
                "message": check.message,
                "at": check.at.isoformat(timespec="seconds"),
            }
            for check in failed[:FAILED_CHECKS_SHOWN]
        ],
        "failed_count": failed.count(),
    }


def report_write(build: Build, folder: Path, content: Mapping[str, Any]) -> bytes:
    """Write the report folder, each file whole or not at all; returns the bytes of report.json. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = build_folder(build)
    for name in (SUMS, CHUNKS, MEMBERS, SATISFIED):
        if (beside / name).exists():
            with (beside / name).open("rb") as source:
                write_whole(folder / name, iter(lambda: source.read(2**20), b""))
    document = render_to_string("documents/report.html", {"report": content})
    write_whole(folder / HTML_NAME, [document.encode()])
    raw = json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
    write_whole(folder / JSON_NAME, [raw])
    return raw
