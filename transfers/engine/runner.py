"""One link: the pool of lanes that brings a host's builds home, and the books that are kept of it.

The runner's thread alone talks to the ledger. It follows directions about twice a second, opens builds, hands full
chunks to the prover, decides on faults, watches lanes, and samples. Every loop ends on the stop flag within two
seconds; what was received stays received.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty

from inventory.remote.base import DeadlinePassed, Remote, TransientError
from transfers.engine.active import ActiveBuild
from transfers.engine.cellmap import LedgerBusy
from transfers.engine.landing import LandingError, LandingFull, free_bytes
from transfers.engine.linkstate import LinkLimits, LinkState
from transfers.engine.pool import LanePool
from transfers.engine.prover import Inspection, Proof, Prover
from transfers.engine.source import PieceFault, SourceChanged
from transfers.engine.types import (
    BuildSpec,
    CheckLevel,
    Clock,
    Directions,
    Finding,
    Ledger,
    LinkSummary,
    Outcome,
    Sample,
)

TICK_SECONDS = 0.1
ROUNDS_AT_MOST = 3
RETRY_SECONDS = 2.0


def run_link(
    remote: Remote,
    ledger: Ledger,
    clock: Clock,
    *,
    stop: Callable[[], bool] = lambda: False,
    limits: LinkLimits | None = None,
) -> LinkSummary:
    """Fetch what the ledger directs until there is no work, a stop, or an error that trying again cannot mend.

    Builds with a problem of their own do not end the link; they are in the summary's `failed`. Raises LeaseLost,
    PermanentError (login, host key), TransientError (nothing came from the host for `no_data_seconds`).
    """
    return _Runner(remote, ledger, clock, stop, limits or LinkLimits()).run()


class _Runner:
    def __init__(
        self, remote: Remote, ledger: Ledger, clock: Clock, stop: Callable[[], bool], limits: LinkLimits
    ) -> None:
        self._ledger, self._clock, self._stop, self._limits = ledger, clock, stop, limits
        self._link = LinkState(remote, clock, limits)
        self._prover = Prover(remote, clock, self._link.woken.set)
        self._pool = LanePool(self._link)
        self._directions = Directions(builds=(), lanes=0)
        self._received: list[str] = []
        self._failed: dict[str, str] = {}
        self._away: set[str] = set()  # settled builds that the directions did not name since
        self._retry_at: dict[str, float] = {}
        self._told: set[str] = set()  # builds whose present trouble was recorded
        self._reported_down = False
        self._idle_at = clock.monotonic()  # when there was nothing to fetch last
        self._due: dict[str, float] = {}
        self._repaired_bytes = 0
        self._sampled = (clock.monotonic(), 0, 0, 0, 0)
        self._started_at = clock.monotonic()

    def run(self) -> LinkSummary:
        try:
            while not self._stop():
                if self._is_due("directions", 0.45):
                    self._follow(self._ledger.directions())
                if self._directions.stop or self._is_done():
                    break
                self._settle()
                self._watch()
                if self._is_due("sample", 1.0):
                    self._sample()
                self._link.woken.wait(TICK_SECONDS)
                self._link.woken.clear()
            self._settle()
            self._sample()
        finally:
            self._end()
        counters = self._link.counters
        return LinkSummary(
            seconds=self._clock.monotonic() - self._started_at,
            new_bytes=counters.new_bytes,
            refetched_bytes=max(0, counters.wire_bytes - counters.new_bytes) + self._repaired_bytes,
            reconnects=counters.reconnects,
            refusals=counters.refusals,
            lanes=self._pool.most,
            received=tuple(self._received),
            failed=dict(self._failed),
        )

    def _is_due(self, what: str, seconds: float) -> bool:
        now = self._clock.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + seconds
        return True

    def _is_done(self) -> bool:
        if self._directions.more_expected:
            return False
        return all(self._is_settled(spec.key) for spec in self._directions.builds)

    def _is_settled(self, key: str) -> bool:
        return key in self._failed or key in self._received

    # -- following directions ----------------------------------------------------------------------------------

    def _follow(self, directions: Directions) -> None:
        self._directions = directions
        named = {spec.key for spec in directions.builds}
        self._away |= {key for key in (*self._received, *self._failed) if key not in named}
        for key in self._away & named:
            self._come_back(key)
        for spec in directions.builds:
            if spec.key not in self._link.builds and not self._is_settled(spec.key) and self._may_try(spec.key):
                self._open(spec)
        self._order()
        self._link.let_go([key for key in self._link.builds if key not in named and not self._is_settled(key)])
        self._link.pacer.set_rate(directions.bytes_per_second)
        self._pool.set_count(directions.lanes)

    def _come_back(self, key: str) -> None:
        """A settled build is asked for again: a person lets it try again, or it was found damaged when read back."""
        self._away.discard(key)
        self._retry_at.pop(key, None)
        if key in self._received:
            self._received.remove(key)
            del self._link.builds[key]  # its files were closed; what lies there is looked at anew
        elif self._failed.pop(key, None) is not None and key in self._link.builds:
            build = self._link.builds[key]
            build.rounds.clear()
            build.waiting.clear()
            build.adopting.clear()
            self._link.resume(key)
            self._take_stock(build)

    def _may_try(self, key: str) -> bool:
        return self._clock.monotonic() >= self._retry_at.get(key, 0.0)

    def _order(self) -> None:
        self._link.queue.set_order(
            [
                spec.key
                for spec in self._directions.builds
                if spec.key in self._link.builds and not self._link.is_suspended(spec.key)
            ]
        )

    def _open(self, spec: BuildSpec) -> None:
        try:
            build = ActiveBuild(spec)
        except (LandingFull, LedgerBusy) as error:
            self._retry_at[spec.key] = self._clock.monotonic() + RETRY_SECONDS
            if spec.key not in self._told:
                self._told.add(spec.key)
                self._ledger.record_problem(spec.key, error, will_retry=True)
            return
        except LandingError as error:
            self._fail(spec.key, error)
            return
        self._told.discard(spec.key)
        self._take_stock(build)
        self._link.builds[spec.key] = build
        self._finish_if_received(build)

    def _take_stock(self, build: ActiveBuild) -> None:
        """Find out what is here already: proven chunks, full ones, partial ones, and data of unknown worth."""
        build.learn_digests(self._ledger.chunk_digests(build.key))
        every = range(build.geometry.chunk_count)
        missing: list[tuple[int, int]] = []
        if build.needs_adoption:
            build.adopting.update(every)
        else:
            recorded = self._ledger.proven_chunks(build.key)
            for chunk in every:
                if not build.cells.is_full(chunk):
                    missing.extend(build.cells.missing_runs(build.geometry.chunk_cells(chunk)))
                elif chunk in recorded and build.cells.proof(chunk) is not None:
                    build.proven.add(chunk)
                else:
                    build.waiting.add(chunk)
        self._link.queue.add(build.key, build.geometry, missing)

    # -- settling what lanes and prover brought ----------------------------------------------------------------

    def _settle(self) -> None:
        for key, chunk in self._link.queue.pop_filled():
            if key in self._link.builds:
                self._link.builds[key].waiting.add(chunk)
        if self._is_due("digests", 0.5):
            for build in self._link.builds.values():
                if len(build.digests) < build.geometry.chunk_count and not self._is_settled(build.key):
                    build.learn_digests(self._ledger.chunk_digests(build.key))
        for build in self._link.builds.values():
            if not self._is_settled(build.key):
                self._hand_to_prover(build)
        self._take_results()
        for key, fault in self._link.take_faults():
            if key in self._link.builds:
                self._decide(key, fault)
        self._retry_suspended()
        if self._link.fatal is not None:
            self._ledger.record_problem(None, self._link.fatal, will_retry=False)
            raise self._link.fatal

    def _hand_to_prover(self, build: ActiveBuild) -> None:
        if not self._may_try(build.key):
            return
        for waiting, adopt in ((build.waiting, False), (build.adopting, True)):
            ready = sorted(chunk for chunk in waiting if chunk in build.digests and chunk not in build.proving)
            for chunk in ready:
                if not adopt and build.cells.proof(chunk) == build.digests[chunk]:
                    self._adopt_old_proof(build, chunk)
                    continue
                build.proving.add(chunk)
                self._prover.prove(build, chunk, adopt=adopt)
        if not build.waiting:
            self._finish_if_received(build)

    def _adopt_old_proof(self, build: ActiveBuild, chunk: int) -> None:
        """The map holds a proof that the books lack: what was synced and compared is not hashed again."""
        digest = build.digests[chunk]
        offset, length = build.geometry.chunk_offsets[chunk], build.geometry.chunk_lengths[chunk]
        finding = Finding(
            CheckLevel.CHUNK, str(chunk).encode(), offset, length, digest, digest, Outcome.MATCHED, 0.0, "proven before"
        )
        build.waiting.discard(chunk)
        build.proven.add(chunk)
        self._ledger.record_chunk(build.key, finding)

    def _take_results(self) -> None:
        while True:
            try:
                result = self._prover.results.get_nowait()
            except Empty:
                return
            if isinstance(result, Proof):
                self._take_proof(result)
            else:
                self._take_inspection(result)

    def _take_proof(self, proof: Proof) -> None:
        build, chunk = proof.build, proof.chunk
        build.proving.discard(chunk)
        if proof.finding is not None:
            self._ledger.record_chunk(build.key, proof.finding)
        if proof.error is not None:
            self._proof_failed(proof, proof.error)
            return
        build.waiting.discard(chunk)
        build.note_adopted(chunk)
        if proof.finding is not None and proof.finding.outcome is Outcome.MATCHED:
            build.proven.add(chunk)
            self._finish_if_received(build)
            return
        if proof.adopted:
            runs = build.cells.missing_runs(build.geometry.chunk_cells(chunk))
            if not runs:
                build.waiting.add(chunk)
        else:
            build.rounds[chunk] = build.rounds.get(chunk, 0) + 1
            if build.rounds[chunk] > ROUNDS_AT_MOST:
                self._fail(build.key, build.still_wrong(chunk, ROUNDS_AT_MOST))
                return
            before = build.cells.here_bytes
            build.cells.clear(proof.wrong)
            self._repaired_bytes += before - build.cells.here_bytes
            runs = build.cells.missing_runs(build.geometry.chunk_cells(chunk))
        self._link.queue.reopen(build.key, runs)

    def _proof_failed(self, proof: Proof, error: Exception) -> None:
        build = proof.build
        if isinstance(error, TransientError):
            self._retry_at[build.key] = self._clock.monotonic() + RETRY_SECONDS  # the chunk still waits
            return
        build.rounds[proof.chunk] = build.rounds.get(proof.chunk, 0) + 1
        if isinstance(error, SourceChanged) or build.rounds[proof.chunk] > ROUNDS_AT_MOST:
            self._fail(build.key, error)
            return
        self._retry_at[build.key] = self._clock.monotonic() + RETRY_SECONDS

    def _decide(self, key: str, fault: PieceFault | LandingError) -> None:
        self._order()
        build = self._link.builds[key]
        if isinstance(fault, PieceFault):
            self._prover.inspect(build, fault)
        elif isinstance(fault, LandingFull):
            self._retry_at[key] = self._clock.monotonic() + RETRY_SECONDS
            self._told.add(key)
            self._ledger.record_problem(key, fault, will_retry=True)
        else:
            self._fail(key, fault)

    def _take_inspection(self, found: Inspection) -> None:
        build = found.build
        if found.error is not None:
            self._fail(build.key, found.error)
            return
        rounds = build.rounds.get(-1, 0) + 1
        build.rounds[-1] = rounds
        if rounds > ROUNDS_AT_MOST:
            self._fail(build.key, SourceChanged(found.fault.piece.source, found.fault.sentence()))
            return
        self._link.resume(build.key)
        self._order()

    def _retry_suspended(self) -> None:
        for key in [key for key in self._told if key in self._link.builds]:
            build = self._link.builds[key]
            if self._may_try(key):
                self._retry_at[key] = self._clock.monotonic() + RETRY_SECONDS
                if free_bytes(build.spec.folder) > 4 * 2**20:
                    self._told.discard(key)
                    self._link.resume(key)
                    self._order()

    def _finish_if_received(self, build: ActiveBuild) -> None:
        if not build.is_received or self._is_settled(build.key):
            return
        build.writer.sync()
        build.cells.sync()
        self._received.append(build.key)
        self._ledger.record_received(build.key)
        self._link.queue.drop(build.key)
        build.close()

    def _fail(self, key: str, error: Exception) -> None:
        self._failed[key] = str(error)
        self._link.queue.drop(key)
        self._order()
        self._ledger.record_problem(key, error, will_retry=False)

    # -- watching lanes ----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        now = self._clock.monotonic()
        if self._is_due("lanes", 0.25):
            self._pool.watch(now)
            self._pool.judge(
                sum(
                    build.geometry.size_bytes - build.cells.here_bytes
                    for build in self._link.builds.values()
                    if not self._is_settled(build.key)
                )
            )
        self._watch_host(now)

    def _watch_host(self, now: float) -> None:
        down = self._link.down
        if down is None:
            self._reported_down = False
        elif not self._reported_down:
            self._reported_down = True
            self._ledger.record_problem(None, down, will_retry=True)
        if not self._link.queue.has_work():
            self._idle_at = now
        if now - max(self._link.last_data_at, self._idle_at) > self._limits.no_data_seconds:
            # However often it lets us in: what brings no byte for so long is not waited for any longer.
            raise down or DeadlinePassed("Waiting for data from the host", self._limits.no_data_seconds)

    def _sample(self) -> None:
        now, counters, before = self._clock.monotonic(), self._link.counters, self._sampled
        self._sampled = (now, counters.new_bytes, counters.wire_bytes, counters.refusals, counters.reconnects)
        self._ledger.record_sample(
            Sample(
                seconds=now - before[0],
                new_bytes=counters.new_bytes - before[1],
                wire_bytes=counters.wire_bytes - before[2],
                lanes=self._pool.readings(),
                refusals=counters.refusals - before[3],
                redials=counters.reconnects - before[4],
            ),
            self._link.received_bytes(),
        )

    def _end(self) -> None:
        """Cut every lane, close every file. Bounded: a lane caught in a connection attempt is left to its deadline."""
        self._link.stopping.set()
        with self._link.queue.changed:
            self._link.queue.changed.notify_all()
        deadline = self._clock.monotonic() + 1.5
        self._pool.end(deadline)
        self._prover.close(max(0.2, deadline - self._clock.monotonic()))
        for build in self._link.builds.values():
            self._link.queue.drop(build.key)
            build.close()
