"""One remote file from the first look to the verified file under its own name.

    look      sign in, see what the source is, and what lies in the folder already
    fetch     lanes bring ranges while the source's digests are taken; proven chunk by chunk
    read back synced, dropped from the cache, read, compared with the source's digests
    publish   the incoming file gets its own name, never over another file; the folder is synced

What arrived is kept at every end; a later run goes on from it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inventory.remote.base import PermanentError, Remote, TransientError
from inventory.remote.names import RemoteName, escape
from transfers.engine.cellmap import CellMap, LedgerBusy
from transfers.engine.digester import Digester, DigestJob
from transfers.engine.geometry import Geometry, build_of_one_file, final_name, ledger_path
from transfers.engine.identity import SourceIdentity
from transfers.engine.landing import LandingRefused, TargetExists, check_names, need_room, publish, shown
from transfers.engine.linkstate import LinkLimits
from transfers.engine.proof_files import sync_folder
from transfers.engine.runner import run_link
from transfers.engine.source import SourceChanged
from transfers.engine.types import BuildSpec, CheckLevel, Clock, LinkSummary, Outcome
from transfers.engine.verify import Expected, ReadBack, Stopped, read_back
from transfers.fileledger import FileLedger, source_path
from transfers.oneoff.access import sign_in
from transfers.oneoff.adopting import adopt_local
from transfers.oneoff.lanes import LaneChooser
from transfers.oneoff.lastlook import LastLook
from transfers.oneoff.request import FetchRefused, FetchRequest, check_folder

READ_BACKS_AT_MOST = 2
DIGESTER_END_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class FetchResult:
    """A verified file. `was_here`: it was there before this run, and its digest is the source's."""

    path: Path
    size_bytes: int
    sha256: str
    seconds: float
    lanes: int
    reconnects: int
    refetched_bytes: int
    was_here: bool


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """What a fetch does at this moment. `phase` is "look", "fetch", "read back" or "publish"."""

    phase: str
    done_bytes: int
    total_bytes: int
    rate_bytes_per_second: float
    lanes_working: int
    lanes: int


@dataclass(eq=False)
class FetchStopped(Exception):
    """A person ended it."""

    kept_bytes: int

    def __str__(self) -> str:
        if not self.kept_bytes:
            return "Stopped. Nothing had arrived yet; the same command begins it."
        return f"Stopped. {self.kept_bytes:,} bytes that had arrived are kept; the same command goes on from there."


@dataclass(eq=False)
class ReadBackDiffers(Exception):
    """The disk gives other bytes than were written, again and again."""

    path: Path
    detail: str

    def __str__(self) -> str:
        return (
            f"What was read back from “{shown(self.path)}” does not match the source's digest ({self.detail}), though "
            "it did when it arrived. It is kept and not called verified. Look at this disk and this machine's memory."
        )


class Fetch:
    """Run once. `stop` and `progress` may be called from any thread."""

    def __init__(self, request: FetchRequest, clock: Clock, notice: Callable[[str], None]) -> None:
        self._request, self._clock, self._notice = request, clock, notice
        self._stopping = threading.Event()
        self._remote: Remote | None = None
        self._ledger: FileLedger | None = None
        self._phase, self._read_bytes, self._total_bytes = "look", 0, 0
        self._chooser = LaneChooser(request.lanes)
        self._summaries: list[LinkSummary] = []
        self._started_at = clock.monotonic()

    def stop(self) -> None:
        """End soon; `run` then raises FetchStopped."""
        self._stopping.set()
        if self._remote is not None and self._phase != "publish":
            self._remote.close()

    def progress(self) -> FetchProgress:
        """What is going on now."""
        ledger, sample = self._ledger, self._ledger.sample if self._ledger is not None else None
        working = [lane for lane in sample.lanes if lane.state == "working"] if sample is not None else []
        done = self._read_bytes if self._phase == "read back" else ledger.here_bytes if ledger is not None else 0
        rate = sample.new_bytes / sample.seconds if sample is not None and sample.seconds else 0.0
        return FetchProgress(self._phase, done, self._total_bytes, rate, len(working), self._chooser.lanes)

    def run(self) -> FetchResult:
        """Fetch. Raises FetchRefused, FetchStopped, ReadBackDiffers, LandingError, LedgerBusy, SourceChanged,
        PermanentError, TransientError; each is a sentence, and what arrived is kept."""
        try:
            return self._run()
        except (TransientError, PermanentError, Stopped) as error:
            if self._stopping.is_set():
                raise FetchStopped(self._ledger.here_bytes if self._ledger is not None else 0) from error
            raise
        finally:
            if self._ledger is not None:
                self._ledger.close()
            if self._remote is not None:
                self._remote.close()

    def _run(self) -> FetchResult:
        request = self._request
        folder = check_folder(request.folder)
        check_names(_spec(RemoteName(request.place.name), 0, folder, request.place.name))
        remote, path, identity = sign_in(request, self._adopt, lanes=self._chooser.note_round_trip)
        self._check_stop()
        self._total_bytes = identity.size_bytes
        self._chooser.note_size(identity.size_bytes)
        spec = _spec(path, identity.size_bytes, folder, request.place.name)
        target = folder / os.fsdecode(final_name(spec))
        if os.path.lexists(target):
            return self._compare(remote, spec, path, identity, target)
        _check_incoming(spec)
        last_look = LastLook(self._chooser, remote, path, identity)
        self._ledger = ledger = FileLedger(
            spec, path, identity, chooser=last_look, stop=self._stopping.is_set, notice=self._notice
        )
        self._tell_start(ledger, path)
        try:
            if request.adopt is not None:
                adopt_local(request.adopt, spec, remote, stop=self._stopping.is_set, notice=self._notice)
            found = self._fetch_and_read_back(remote, spec, path, identity, ledger, last_look.begin)
        except BaseException:
            _leave_nothing_empty(spec, ledger)
            raise
        self._phase = "publish"
        published = publish(spec)
        ledger.remove()
        sync_folder(folder)
        self._tell_end(path, last_look.difference())
        return self._result(published, spec, found, was_here=False)

    def _adopt(self, remote: Remote) -> None:
        """From here on `stop` ends what waits for this host."""
        self._remote = remote
        self._check_stop()

    # -- fetching ----------------------------------------------------------------------------------------------

    def _fetch_and_read_back(
        self,
        remote: Remote,
        spec: BuildSpec,
        path: RemoteName,
        identity: SourceIdentity,
        ledger: FileLedger,
        on_received: Callable[[], None],
    ) -> ReadBack:
        for attempt in range(READ_BACKS_AT_MOST):
            self._phase = "fetch"
            self._fetch(remote, spec, path, identity, ledger)
            on_received()
            self._phase, self._read_bytes = "read back", 0
            expected = Expected(whole=ledger.whole, chunks=ledger.chunk_digests(spec.key))
            found = read_back(spec, expected, self._clock, stop=self._stopping.is_set, progress=self._note_read)
            if found.is_good:
                return found
            wrong = [
                finding
                for finding in found.findings
                if finding.level is CheckLevel.CHUNK and finding.outcome is not Outcome.MATCHED
            ]
            self._distrust(spec, ledger, [int(finding.subject) for finding in wrong])
            if attempt + 1 < READ_BACKS_AT_MOST and wrong:
                self._notice(
                    f"{len(wrong):,} chunks read back from the disk do not match; their wrong blocks are fetched again."
                )
        detail = "; ".join(f"chunk {int(one.subject) + 1}: {one.message or one.outcome}" for one in wrong[:3])
        raise ReadBackDiffers(spec.folder / spec.incoming_name, detail or "the digest of the whole is another one")

    def _note_read(self, done_bytes: int) -> None:
        self._read_bytes = done_bytes

    def _fetch(
        self, remote: Remote, spec: BuildSpec, path: RemoteName, identity: SourceIdentity, ledger: FileLedger
    ) -> None:
        """Bring what is missing and prove all of it."""
        limits = LinkLimits(no_data_seconds=self._request.no_data_seconds)
        known = frozenset(ledger.chunk_digests(spec.key))
        digester = None
        if ledger.whole is None or not ledger.has_all_digests():
            job = DigestJob(spec, path, identity, known)
            digester = Digester(remote, job, ledger, self._clock, no_data_seconds=limits.no_data_seconds)
            digester.start()
        try:
            summary = run_link(remote, ledger, self._clock, stop=self._stopping.is_set, limits=limits)
            self._summaries.append(summary)
            self._check_stop()
            if ledger.failure is not None:
                raise ledger.failure
            if digester is not None:
                self._wait_for(digester, ledger)
        except SourceChanged:
            ledger.forget_digests()
            raise
        finally:
            if digester is not None:
                digester.stop()
                digester.join(DIGESTER_END_SECONDS if self._stopping.is_set() else 0.1)

    def _wait_for(self, digester: Digester, ledger: FileLedger) -> None:
        """All chunks are proven; the digest of the whole may still be on its way."""
        while digester.is_alive():
            digester.join(0.1)
            self._check_stop()
        if ledger.failure is not None:
            raise ledger.failure

    def _distrust(self, spec: BuildSpec, ledger: FileLedger, chunks: list[int]) -> None:
        """Chunks that were proven and are wrong on the disk are compared, and repaired, anew."""
        cells = CellMap(ledger_path(spec), spec.key, Geometry(spec.chunks))
        try:
            for chunk in chunks:
                cells.forget_proof(chunk)
                ledger.forget_proof(chunk)
        finally:
            cells.close()

    def _check_stop(self) -> None:
        if self._stopping.is_set():
            raise Stopped

    # -- a file that is there already --------------------------------------------------------------------------

    def _compare(
        self, remote: Remote, spec: BuildSpec, path: RemoteName, identity: SourceIdentity, target: Path
    ) -> FetchResult:
        """The final name is taken: by the same content, or the fetch is refused. Nothing is overwritten."""
        if not target.is_file() or target.is_symlink():
            raise LandingRefused(target, "there is something of that name that is not a regular file")
        if target.stat().st_size != identity.size_bytes:
            raise TargetExists(target)
        self._notice(f"“{shown(target)}” is there already; its digest is compared with the source's.")
        keeper = _DigestsInMemory()
        job = DigestJob(spec, path, identity, frozenset())
        digester = Digester(remote, job, keeper, self._clock, no_data_seconds=self._request.no_data_seconds)
        digester.start()
        try:
            self._phase = "read back"
            here = read_back(
                spec, Expected(), self._clock, landed=True, stop=self._stopping.is_set, progress=self._note_read
            )
            while digester.is_alive():
                digester.join(0.1)
                self._check_stop()
        finally:
            digester.stop()
        if keeper.failure is not None:
            raise keeper.failure
        found = {int(f.subject): f.found for f in here.findings if f.level is CheckLevel.CHUNK}
        is_same = here.sha256 == keeper.whole if keeper.whole is not None else found == keeper.chunks
        if here.sha256 is None or not is_same:
            raise TargetExists(target)
        _remove_leftovers(spec, target)
        self._notice(f"“{shown(target)}” is the same file: its SHA-256 is the source's. Nothing was fetched.")
        return self._result(target, spec, here, was_here=True)

    # -- telling -----------------------------------------------------------------------------------------------

    def _tell_start(self, ledger: FileLedger, path: RemoteName) -> None:
        if ledger.difference:
            self._notice(
                f"The source changed since the last run: “{path}” {ledger.difference}. What is here is compared with "
                "it, and only blocks that differ are fetched again."
            )
        elif ledger.is_continued:
            self._notice("Goes on from what an earlier run brought.")

    def _tell_end(self, path: RemoteName, difference: str) -> None:
        """The landed file is what the digests were taken of; the source may have moved on since."""
        if difference:
            self._notice(
                f"The source changed after its digest was taken: “{path}” {difference}. The file here is what it was "
                "before that, whole and verified; fetch it into another folder for its present content."
            )

    def _result(self, path: Path, spec: BuildSpec, found: ReadBack, *, was_here: bool) -> FetchResult:
        assert found.sha256 is not None
        return FetchResult(
            path=path,
            size_bytes=spec.size_bytes,
            sha256=found.sha256.hex(),
            seconds=self._clock.monotonic() - self._started_at,
            lanes=max((summary.lanes for summary in self._summaries), default=0),
            reconnects=sum(summary.reconnects for summary in self._summaries),
            refetched_bytes=sum(summary.refetched_bytes for summary in self._summaries),
            was_here=was_here,
        )


class _DigestsInMemory:
    """Digests of a source that is only compared."""

    def __init__(self) -> None:
        self.chunks: dict[int, bytes | None] = {}
        self.whole: bytes | None = None
        self.failure: Exception | None = None

    def add_digest(self, chunk: int, sha256: bytes) -> None:
        self.chunks[chunk] = sha256

    def add_whole(self, sha256: bytes) -> None:
        self.whole = sha256

    def fail(self, error: Exception) -> None:
        self.failure = error


def _spec(path: RemoteName, size_bytes: int, folder: Path, name: bytes) -> BuildSpec:
    key = f"one file {escape(path.raw)}"
    return build_of_one_file(key=key, source=path, size_bytes=size_bytes, folder=folder, name=name)


def _check_incoming(spec: BuildSpec) -> None:
    """Refuse before anything is made: names that the disk cannot hold, strangers' files, too little room."""
    check_names(spec)
    incoming = spec.folder / spec.incoming_name
    allocated = 0
    if os.path.lexists(incoming):
        if incoming.is_symlink() or not incoming.is_file():
            raise LandingRefused(incoming, "it is not a regular file")
        if not source_path(spec).exists() and not ledger_path(spec).exists():
            raise FetchRefused(
                f"“{shown(incoming)}” is there and was not made by this command. It was left as it is; move it away."
            )
        allocated = incoming.stat().st_blocks * 512
    need_room(spec.folder, spec.size_bytes - allocated)


def _leave_nothing_empty(spec: BuildSpec, ledger: FileLedger) -> None:
    """A fetch that ended before a byte came leaves no files behind."""
    if ledger.is_continued or ledger.difference or ledger.here_bytes:
        return
    try:
        cells = CellMap(ledger_path(spec), spec.key, Geometry(spec.chunks))
    except (LedgerBusy, OSError):
        return  # what cannot be looked at is kept
    cells.close()
    if cells.here_bytes:
        return
    (spec.folder / spec.incoming_name).unlink(missing_ok=True)
    ledger.remove()


def _remove_leftovers(spec: BuildSpec, target: Path) -> None:
    """A kill between the last steps of an earlier run leaves the incoming name as a second name of the same file."""
    incoming = spec.folder / spec.incoming_name
    if incoming.exists() and not incoming.samefile(target):
        return
    for path in (incoming, ledger_path(spec), source_path(spec)):
        path.unlink(missing_ok=True)
    sync_folder(spec.folder)
