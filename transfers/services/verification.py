"""Verify and open: the whole build read back from the disk, then read to its end with every member accounted for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.leases.services import lease_hold
from calculet.lifecycle import SYSTEM, advance
from inventory.models import Resource
from inventory.remote.names import escape, unescape
from transfers.engine.cellmap import CellMap, LedgerBusy
from transfers.engine.clock import SystemClock
from transfers.engine.geometry import Geometry, final_name, ledger_path
from transfers.engine.landing import LandingError, LandingFull, landing_error, publish
from transfers.engine.opens.base import ContentError, FoundMember, Opened, Watch
from transfers.engine.opens.opening import open_file, open_files
from transfers.engine.proof_files import (
    CHUNKS,
    MEMBERS,
    SATISFIED,
    SUMS,
    chunk_lines,
    digest_lines,
    satisfied_lines,
    write_whole,
)
from transfers.engine.satisfied import carrier_of
from transfers.engine.types import BuildSpec, CheckLevel, Finding, Member, Outcome
from transfers.engine.verify import Expected, ReadBack, read_back
from transfers.ledger import check_of
from transfers.models import Build, BuildState, Check, Chunk, Mode
from transfers.selectors.satisfying import Account, account_satisfied, carriers_awaited, satisfied_members
from transfers.selectors.specs import FILES_FOLDER, build_folder, build_spec, landed_path, list_members
from transfers.services.entry_lists import entry_list_store
from transfers.services.turns import BuildTurn, build_turn

FINDINGS_KEPT = 10_000
DISK_PAUSE_SECONDS = 30.0


def verify_run(build_id: int) -> None:
    """Read a received build back from the disk and compare it. Safe to run twice."""
    with build_turn(build_id, BuildState.RECEIVED) as turn:
        if turn is None:
            return
        try:
            _verify(turn)
        except LandingFull as error:
            turn.wait(str(error), seconds=DISK_PAUSE_SECONDS)
        except (LandingError, LedgerBusy) as error:
            turn.fail(str(error))
        except OSError as error:
            turn.wait(str(landing_error(error, build_folder(turn.build), 0)), seconds=DISK_PAUSE_SECONDS)


def _verify(turn: BuildTurn) -> None:
    build, spec = turn.build, build_spec(turn.build)
    landed = _is_landed(spec)
    found = read_back(spec, expected_of(build), SystemClock(), landed=landed, stop=turn.heart)
    turn.keep()
    if not found.is_good:
        build_send_back(turn, spec, found)
        return
    if not landed:
        publish(spec)
    _write_sums(build, spec, found)
    with suppress(FileNotFoundError):
        ledger_path(spec).unlink()  # the rows and chunks.sha256 say all of it by now
    _note_verified(turn, found)


def _is_landed(spec: BuildSpec) -> bool:
    """True when a former attempt got as far as giving the data their final name."""
    final, incoming = spec.folder / os.fsdecode(final_name(spec)), spec.folder / spec.incoming_name
    if final.exists() and incoming.exists() and spec.single_file and final.samefile(incoming):
        incoming.unlink()  # it was killed between giving the new name and taking the old one
    return final.exists() and not incoming.exists()


def expected_of(build: Build) -> Expected:
    members: dict[bytes, bytes] = {}
    if build.mode == Mode.FILES:
        members = {one.name: one.sha256 for one in _listed(build) if one.kind == "file" and one.sha256 is not None}
    chunks = {
        index: bytes(sha256) for index, sha256 in build.chunks.values_list("index", "sha256") if sha256 is not None
    }
    return Expected(whole=bytes.fromhex(build.sha256), chunks=chunks, members=members)


def _listed(build: Build) -> Iterator[Member]:
    return list_members(build.member_list or build.entry_list)


def build_send_back(turn: BuildTurn, spec: BuildSpec, found: ReadBack) -> None:
    """Damage on our own disk: what is wrong is fetched again, and nothing else. Raises LedgerBusy, OSError."""
    build = turn.build
    bad = [one for one in found.findings if one.outcome not in (Outcome.MATCHED, Outcome.RECORDED)]
    wrong = sorted({int(one.subject) for one in bad if one.level is CheckLevel.CHUNK})
    if not wrong:
        turn.fail(
            _("Read back from the disk, the build is not what was sent: %(what)s. What is here is kept.")
            % {"what": "; ".join(_told(one) for one in bad[:5])}
        )
        return
    _make_repairable(spec, wrong)
    sentence = _(
        "%(count)s chunks differ when read back from the disk (the first is chunk %(first)s); their wrong blocks are "
        "fetched again. Look at the disk if this happens twice."
    ) % {"count": len(wrong), "first": wrong[0] + 1}
    with transaction.atomic():
        lease_hold(turn.held)
        _checks_record(build, found.findings)
        Chunk.objects.filter(build=build, index__in=wrong).update(proven_at=None)
        advance(
            build,
            BuildState.FETCHING,
            act="build.damaged_here",
            actor=SYSTEM,
            detail={"chunks": [index + 1 for index in wrong[:200]]},
            problem=sentence,
            received_at=None,
            recheck_asked_at=None,
        )


def _make_repairable(spec: BuildSpec, wrong: Sequence[int]) -> None:
    """Leave the data so that the engine compares them with the source again. Raises LedgerBusy, OSError."""
    if _is_landed(spec):
        # Without a ledger the engine adopts what lies there: every chunk is compared, wrong blocks alone are fetched.
        (spec.folder / os.fsdecode(final_name(spec))).rename(spec.folder / spec.incoming_name)
        ledger_path(spec).unlink(missing_ok=True)
        return
    cells = CellMap(ledger_path(spec), spec.key, Geometry(spec.chunks))
    try:
        # One cell of each wrong chunk is forgotten: its proof goes with it, and the block digests tell the rest.
        cells.clear(cells.geometry.chunk_cells(chunk)[0] for chunk in wrong)
        cells.sync()
    finally:
        cells.close()


def _told(finding: Finding) -> str:
    subject = escape(finding.subject) or finding.level.value
    return f"{subject}: {finding.outcome.value} {finding.message}".strip()


def _checks_record(build: Build, findings: Iterable[Finding]) -> None:
    """Keep comparisons; of members that matched one row with their count, by the caller."""
    rows = [check_of(build, finding) for finding in findings]
    Check.objects.bulk_create(rows[:FINDINGS_KEPT], batch_size=500)


def _write_sums(build: Build, spec: BuildSpec, found: ReadBack) -> None:
    """SHA256SUMS and chunks.sha256 beside the landed content."""
    folder = spec.folder
    if build.mode == Mode.FILES:
        digests = (
            (os.fsencode(FILES_FOLDER) + b"/" + one.name, one.sha256 or b"")
            for one in _listed(build)
            if one.kind == "file"
        )
        write_whole(folder / SUMS, digest_lines(digests))
    else:
        name = os.fsencode(build.archive_name)
        write_whole(folder / SUMS, digest_lines([(name, found.sha256 or b"")]))
    rows = build.chunks.order_by("index").values_list("index", "offset", "length", "sha256")
    lines = ((index, offset, length, bytes(sha256 or b"")) for index, offset, length, sha256 in rows)
    write_whole(folder / CHUNKS, chunk_lines(lines))


def _note_verified(turn: BuildTurn, found: ReadBack) -> None:
    build = turn.build
    wholes = [one for one in found.findings if one.level is not CheckLevel.MEMBER]
    members = [one for one in found.findings if one.level is CheckLevel.MEMBER]
    with transaction.atomic():
        lease_hold(turn.held)
        _checks_record(build, wholes)
        if members:
            total = sum(one.length for one in members)
            seconds = sum(one.seconds for one in members)
            one = replace(members[0], subject=b"", length=total, expected=None, found=None, seconds=seconds)
            check_of(build, one, count=len(members)).save()
        for former in build.pack.builds.filter(state__in=[BuildState.VERIFIED, BuildState.OPENED]).exclude(pk=build.pk):
            advance(former, BuildState.REPLACED, act="build.replace", actor=SYSTEM, detail={"by": build.number})
        detail = {"bytes": build.size_bytes, "sha256": build.sha256}
        advance(
            build,
            BuildState.VERIFIED,
            act="build.verified",
            actor=SYSTEM,
            detail=detail,
            verified_at=timezone.now(),
            problem="",
        )


def open_run(build_id: int) -> None:
    """Read a verified build to its end and account for every member. Safe to run twice.

    A build that leaves files to other packs waits until those are opened: before, its tree is not whole.
    """
    with build_turn(build_id, BuildState.VERIFIED) as turn:
        if turn is None or carriers_awaited(turn.build):
            return
        build = turn.build
        try:
            opened = _open(turn)
        except ContentError as error:
            turn.fail(str(error))
            return
        except OSError as error:
            turn.fail(
                _("“%(path)s” could not be read (%(why)s). Look at the disk; then let the pack try again.")
                % {"path": landed_path(build), "why": error.strerror or error}
            )
            return
        digests = {one.name: one.sha256 for one in opened.members if one.sha256 is not None}
        account = account_satisfied(build, digests)
        if account.missing:
            turn.fail(_nobody_holds(account.missing))
            return
        try:
            write_whole(build_folder(build) / MEMBERS, digest_lines(digests.items()))
            if account.held:
                entries = ((one.sha256 or b"", one.name, there.folder, name) for one, there, name in account.held)
                write_whole(build_folder(build) / SATISFIED, satisfied_lines(entries))
        except OSError as error:
            turn.wait(str(landing_error(error, build_folder(build), 0)), seconds=DISK_PAUSE_SECONDS)
            return
        _note_opened(turn, opened, account)


def _nobody_holds(missing: Sequence[Member]) -> str:
    first = missing[0]
    return _(
        "%(count)s files of this pack are left to other packs, and the builds of those that are opened do not hold "
        "them as they were previewed; the first: “%(name)s”, left to “%(pack)s”. What is here is kept. Propose the "
        "plan anew: its preview then makes this pack carry them itself."
    ) % {"count": f"{len(missing):,}", "name": escape(first.name), "pack": carrier_of(first).pack}


def _open(turn: BuildTurn) -> Opened:
    build, watch = turn.build, Watch(stop=turn.heart)
    accepted: frozenset[bytes] = frozenset()
    if build.deviations_accepted_by_id is not None:
        accepted = frozenset(unescape(one["name"]) for one in build.deviations)
    if build.mode == Mode.FILES:
        return open_files(landed_path(build), _listed(build), accepted=accepted, watch=watch)
    expected = list(_listed(build)) if build.mode == Mode.ARCHIVE else None
    return open_file(landed_path(build), expected, accepted=accepted, watch=watch)


def _note_opened(turn: BuildTurn, opened: Opened, account: Account) -> None:
    build = turn.build
    with transaction.atomic():
        lease_hold(turn.held)
        _checks_record(build, opened.findings)
        if opened.matched:
            message = _("every member of the list was found, with the digest taken at the source")
            all_matched = Finding(
                CheckLevel.MEMBER, b"", 0, opened.read_bytes, None, None, Outcome.MATCHED, 0.0, message
            )
            check_of(build, all_matched, count=opened.matched).save()
        detail: dict[str, object] = {
            "members": len(opened.members),
            "matched": opened.matched,
            "content": opened.content,
        }
        if account.held:
            detail["satisfied by"] = by = _satisfied_record(build, account)
            Build.objects.filter(pk=build.pk).update(satisfied_by=by)
        if not opened.is_good:
            bad = [one for one in opened.findings if one.outcome not in (Outcome.MATCHED, Outcome.RECORDED)]
            sentence = _(
                "%(count)s members are not as they were at the source, the first: %(first)s. The bytes are kept as "
                "they came. Make the pack anew, or look at the source."
            ) % {"count": f"{len(bad):,}", "first": _told(bad[0])}
            advance(build, BuildState.FAILED, act="build.fail", actor=SYSTEM, detail=detail, problem=sentence)
            return
        fields: dict[str, object] = {"member_count": len(opened.members), "opened_at": timezone.now(), "problem": ""}
        if build.member_list_id is None:
            fields["member_list"] = entry_list_store([_as_member(one) for one in opened.members])
        advance(build, BuildState.OPENED, act="build.opened", actor=SYSTEM, detail=detail, **fields)
        for resource in build.item.resources.all():
            Resource.objects.filter(pk=resource.pk).update(verified_bytes=_verified_bytes(resource))
            # A build that was planned after the change was seen brings what lies there now.
            Resource.objects.filter(pk=resource.pk, stale_since__lt=build.item.revision.created_at).update(
                stale_since=None
            )


def _satisfied_record(build: Build, account: Account) -> list[dict[str, object]]:
    """Keep a check for each build that holds content of this one; returns what to keep with it."""
    by: list[dict[str, object]] = []
    for holder, files, size in account.by_build():
        words = _("left out here, and satisfied by pack “%(pack)s”, build %(build)s: the same digests") % {
            "pack": holder.pack.name,
            "build": holder.number,
        }
        finding = Finding(CheckLevel.MEMBER, b"", 0, size, None, None, Outcome.MATCHED, 0.0, words)
        check_of(build, finding, count=files).save()
        by.append({"pack": holder.pack.name, "build": holder.number, "files": files, "bytes": size})
    return by


def _as_member(found: FoundMember) -> Member:
    kind = found.kind if found.kind in ("file", "folder", "link") else "file"
    return Member(found.name, kind, found.size_bytes, found.mtime_ns, found.mode, found.link_target, found.sha256)


def _verified_bytes(resource: Resource) -> int:
    """Bytes of the resource's files that are in opened builds, each name counted once."""
    top = resource.path.raw.strip(b"/")
    here: dict[bytes, int] = {}
    builds = Build.objects.filter(item__resources=resource, state=BuildState.OPENED).select_related(
        "entry_list", "item__satisfied_list"
    )
    for build in builds.distinct():
        for member in chain(list_members(build.entry_list), satisfied_members(build)):
            if member.kind == "file" and (member.name == top or member.name.startswith(top + b"/")):
                here[member.name] = member.size_bytes
    return sum(here.values())
