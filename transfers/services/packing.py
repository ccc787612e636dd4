"""Packing on the host: from an approved list to a packed build with its digests, in steps that may be repeated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from calculet.leases.services import lease_hold
from calculet.lifecycle import SYSTEM, advance
from inventory.connect import ChannelMissing, installation_marker, open_remote
from inventory.remote.base import (
    CommandFailed,
    HostKeyChanged,
    HostKeyUnknown,
    KeyUnusable,
    LoginRefused,
    PermanentError,
    ProtocolMismatch,
    Remote,
    TransientError,
)
from inventory.remote.jobs import JobState, poll_job, start_job, stop_job
from inventory.remote.names import RemoteName, escape
from inventory.remote.shell import quote
from inventory.remote.staging import ensure_staging
from inventory.selectors import known_report
from inventory.services.hosts import host_problem_keep
from transfers.engine.geometry import SegmentMap
from transfers.engine.packing import (
    SourceDigests,
    StagingPlaces,
    archive_bytes_at_most,
    compare_look,
    compare_satisfied,
    digest_script,
    names_list,
    need_space,
    pack_script,
    read_look,
    read_member_digests,
    read_source_digests,
    read_tar_complaints,
    remove_half_made,
)
from transfers.engine.sampling import SampleResult, sample_list, take_sample
from transfers.engine.types import BuildSpec, Deviation, Member
from transfers.models import Build, BuildState, Chunk, Compression, Mode
from transfers.selectors.adoptions import former_with_bytes
from transfers.selectors.examinations import link_history
from transfers.selectors.satisfying import satisfied_members
from transfers.selectors.specs import build_key, build_spec, list_members
from transfers.services.adoptions import adoption_from_former
from transfers.services.archive_names import archive_name
from transfers.services.builds import DEVIATIONS_KEPT
from transfers.services.entry_lists import entry_list_store
from transfers.services.samples import sample_keep, sample_known
from transfers.services.turns import BuildTurn, build_turn

TURN_SECONDS = 45.0  # a worker stays with one build no longer than this; the next tick goes on
POLL_AT_MOST_SECONDS = 2.0
PAUSE_SECONDS = 15.0
LOST_AT_MOST = 3  # jobs of one build that may vanish before a person is asked
_OF_THE_HOST = (ChannelMissing, HostKeyUnknown, HostKeyChanged, KeyUnusable, LoginRefused, ProtocolMismatch)


def pack_run(build_id: int) -> None:
    """Take a build one turn further towards *packed*. Safe to run twice; gone or not due: nothing happens."""
    with build_turn(build_id, BuildState.PLANNED, BuildState.PACKING) as turn:
        if turn is not None:
            _turn(turn)


def _turn(turn: BuildTurn) -> None:
    build = turn.build
    host = build.pack.plan.host
    if build.state == BuildState.PLANNED:
        with transaction.atomic():
            lease_hold(turn.held)
            advance(
                build,
                BuildState.PACKING,
                act="build.pack",
                actor=SYSTEM,
                problem="",
                not_before=None,
                packing_began_at=timezone.now(),
            )
    try:
        remote = open_remote(host)
        try:
            _Packing(remote, turn).run()
        finally:
            remote.close()
    except TransientError as error:
        turn.wait(str(error), seconds=PAUSE_SECONDS)
    except _OF_THE_HOST as error:
        # All packs of the host wait for the same thing; it is told once, where the host is.
        host_problem_keep(host_id=host.pk, problem=str(error))
        turn.wait(str(error), seconds=PAUSE_SECONDS)
    except PermanentError as error:
        turn.fail(str(error))


class _Packing:
    """One turn with one build on one connection."""

    def __init__(self, remote: Remote, turn: BuildTurn) -> None:
        build = turn.build
        self._remote, self._build, self._held, self._heart = remote, build, turn.held, turn.heart
        self._host = build.pack.plan.host
        self._places = StagingPlaces(self._host.staging_path, build_key(build), build.attempts)
        self._members = list(list_members(build.entry_list))
        self._satisfied = satisfied_members(build)
        self._until = time.monotonic() + TURN_SECONDS

    def run(self) -> None:
        """Do what is left, as far as the turn allows. Raises RemoteError, LeaseTaken."""
        build = self._build
        ensure_staging(self._remote, self._host.staging_path, installation_marker())
        is_begun = not self._is_new(self._places.job("pack" if build.mode == Mode.ARCHIVE else "digest"))
        if build.size_bytes is None and not is_begun:
            self._upload_lists()
        if build.mode == Mode.ARCHIVE and build.size_bytes is None:
            if build.compression == Compression.UNDECIDED:
                self._decide_compression()
            if not self._work("pack", pack_script(self._places, is_compressed=self._is_compressed)):
                return
            self._note_archive()
        elif build.size_bytes is None:
            self._note_files()
        spec = build_spec(build, from_rows=False)
        pieces = SegmentMap(spec.segments)
        by_chunk = [pieces.pieces(chunk.offset, chunk.length) for chunk in spec.chunks]
        if self._work("digest", digest_script(self._places, by_chunk, with_members=self._takes_members)):
            self._finish(spec)

    @property
    def _is_compressed(self) -> bool:
        return self._build.compression == Compression.ZSTD

    @property
    def _takes_members(self) -> bool:
        return self._build.mode in (Mode.ARCHIVE, Mode.FILES)

    def _upload_lists(self) -> None:
        self._remote.write_file(self._places.list_of("names"), names_list(self._members))
        looked_at = [*self._members, *self._satisfied]
        self._remote.write_file(self._places.list_of("files"), names_list(looked_at, files_only=True))
        self._remote.write_file(self._places.list_of("look"), names_list(looked_at))

    def _decide_compression(self) -> None:
        """Ask the host what zstd makes of a sample; nothing is asked where there is no zstd."""
        probe = known_report(self._host)
        if probe is not None and not probe.has_zstd:
            pays, note = False, _("The host has no zstd; a plain .tar is made.")
        else:
            result = sample_known(self._build.entry_list) or self._take_sample()
            link = link_history(self._host).best_bytes_per_second
            pays, note = result.pays_on(link), result.sentence(link)
        self._save(compression=Compression.ZSTD if pays else Compression.NONE, compression_note=note)

    def _take_sample(self) -> SampleResult:
        self._remote.write_file(self._places.list_of("sample"), sample_list(self._members))
        result = take_sample(self._remote, self._places)
        with transaction.atomic():
            lease_hold(self._held)
            sample_keep(entry_list=self._build.entry_list, host=self._host, result=result)
        return result

    def _work(self, stage: str, script: bytes) -> bool:
        """Start the detached job or find it again, and look until it is done (True) or the turn is over (False).

        Raises CommandFailed when the job ended badly, and when its process is gone without a word.
        """
        folder = self._places.job(stage)
        if stage == "pack" and self._is_new(folder):
            self._end_former_attempt()
            need_space(self._remote, self._host.staging_path, archive_bytes_at_most(self._members))
        start_job(self._remote, folder, script)
        pause = 0.1
        while True:
            state = poll_job(self._remote, folder)
            if state.phase == "done":
                return True
            if state.phase == "lost" and self._build.attempts < LOST_AT_MOST:
                self._begin_anew(folder)
                return False
            if state.phase != "running":
                raise CommandFailed(f"{stage} {self._build.pack.name}", state.status or 0, _ending(state))
            if self._heart() or time.monotonic() > self._until:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, POLL_AT_MOST_SECONDS)

    def _end_former_attempt(self) -> None:
        """Only one attempt at a time writes the archive, and none stands in the next one's way."""
        if self._build.attempts:
            stop_job(self._remote, replace(self._places, attempt=self._build.attempts - 1).job("pack"))
            remove_half_made(self._remote, self._places)

    def _begin_anew(self, folder: RemoteName) -> None:
        """The job's process is gone without a word (killed, host restarted): the next turn starts another."""
        stop_job(self._remote, folder)  # what the killed job started may still write
        self._save(
            attempts=self._build.attempts + 1,
            problem=_("On the host the job was killed, or the host was restarted; it is begun anew."),
        )

    def _is_new(self, folder: RemoteName) -> bool:
        return self._remote.run(b"[ -d %b ]" % quote(folder.raw), step="look for the job").status != 0

    def _save(self, **fields: object) -> None:
        with transaction.atomic():
            lease_hold(self._held)
            Build.objects.filter(pk=self._build.pk).update(**fields)
        for name, value in fields.items():
            setattr(self._build, name, value)

    def _archive_name(self, *, is_compressed: bool) -> str:
        return archive_name(self._build.pack.name, self._build.mode, self._members, is_compressed=is_compressed)

    def _note_archive(self) -> None:
        path = self._places.archive(is_compressed=self._is_compressed)
        stat = self._remote.stat(path)
        self._save(
            source_path=path,
            archive_name=self._archive_name(is_compressed=self._is_compressed),
            size_bytes=stat.size_bytes,
            job_folder=self._places.job("pack"),
        )

    def _note_files(self) -> None:
        """Files, an existing archive or parts: the list says what will be fetched; nothing is made there."""
        files = [member for member in self._members if member.kind == "file"]
        self._save(
            source_path=RemoteName(b"/" + files[0].name) if self._build.mode == Mode.EXISTING else RemoteName(b""),
            archive_name=self._archive_name(is_compressed=False),
            compression=Compression.NONE,
            size_bytes=sum(member.size_bytes for member in files),
            job_folder=self._places.job("digest"),
        )

    def _finish(self, spec: BuildSpec) -> None:
        """Read what the jobs left, name deviations, and move on."""
        digest_job = self._places.job("digest")
        look = read_look(self._remote, digest_job)
        digests = read_member_digests(self._remote, digest_job) if self._takes_members else None
        found, deviations = compare_look(self._members, look, digests)
        others, moved = compare_look(self._satisfied, look, digests)
        deviations += [*moved, *compare_satisfied(self._satisfied, others)]
        chunks: SourceDigests | None = None
        try:
            chunks = read_source_digests(self._remote, digest_job, len(spec.chunks))
        except CommandFailed:
            if not deviations:
                raise
        is_unexplained = self._build.mode == Mode.ARCHIVE and not deviations
        if is_unexplained and (said := read_tar_complaints(self._remote, self._places.job("pack"))):
            raise CommandFailed("tar", 2, said)
        self._record(spec, found, deviations, chunks)

    def _record(
        self, spec: BuildSpec, found: Sequence[Member], deviations: Sequence[Deviation], chunks: SourceDigests | None
    ) -> None:
        build = self._build
        rows = [
            Chunk(build=build, index=c.index, offset=c.offset, length=c.length, sha256=chunks.chunks[c.index])
            for c in spec.chunks
            if chunks is not None
        ]
        fields: dict[str, object] = {
            "sha256": chunks.whole.hex() if chunks is not None else "",
            "deviations": [
                {"name": escape(one.name), "what": one.what, "detail": one.detail}
                for one in deviations[:DEVIATIONS_KEPT]
            ],
            "packed_at": timezone.now(),
            "problem": _named(deviations),
        }
        to = BuildState.NEEDS_DECISION if deviations else BuildState.PACKED
        detail = {
            "bytes": build.size_bytes,
            "sha256": fields["sha256"],
            "chunks": len(rows),
            "deviations": len(deviations),
        }
        former = former_with_bytes(build)
        with transaction.atomic():
            lease_hold(self._held)
            if self._takes_members:
                fields["member_list"] = entry_list_store(found)
            build.chunks.all().delete()
            Chunk.objects.bulk_create(rows, batch_size=1000)
            advance(build, to, act="build.packed", actor=SYSTEM, detail=detail, **fields)
            adoption_from_former(build=build, former=former)


def _named(deviations: Sequence[Deviation]) -> str:
    """The sentence for a build whose source is not what was previewed; empty when it is."""
    if not deviations:
        return ""
    first = deviations[0]
    return _(
        "%(count)s entries at the source are not what was previewed; the first is “%(name)s” (%(what)s: %(detail)s). "
        "What was packed is kept. A second person accepts these deviations, or the pack is made anew."
    ) % {"count": f"{len(deviations):,}", "name": escape(first.name), "what": first.what, "detail": first.detail}


def _ending(state: JobState) -> str:
    log = state.log.decode("utf-8", "backslashreplace").strip()
    if state.phase == "lost":
        return _("its process is gone without a word (killed, or the host was restarted); try again %(log)s") % {
            "log": log
        }
    return log
