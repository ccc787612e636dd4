"""The engine's ledger on rows: what a host's link is to do, and what it proved.

Every write begins with `lease_hold`, so a link whose lease was taken over is refused and ends. The engine calls from
one thread only. Digests decide: a chunk's row says *proven* only after its bytes were synced and compared.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import version

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from calculet.leases.services import Held, LeaseTaken, lease_beat, lease_hold
from calculet.lifecycle import SYSTEM, StateConflict, advance
from inventory.models import Host
from inventory.remote.names import escape
from transfers.engine.source import SourceChanged
from transfers.engine.types import BuildSpec, Directions, Finding, LeaseLost, Outcome, Sample
from transfers.models import Build, BuildState, Check, Chunk, GoodputMinute, GoodputSample, LinkStatus
from transfers.selectors.specs import build_key, build_spec
from transfers.selectors.work import builds_to_fetch, is_more_expected
from transfers.steering import LinkDriver

IDLE_LINK_SECONDS = 30.0  # lanes stay connected so long while packs are still being made
SAMPLES_KEPT = timedelta(days=7)
_HELD_BACK = 0.8  # of what a limit allows: who brings less is held by the link itself
log = logging.getLogger(__name__)


@cache
def machine_and_software() -> tuple[str, Mapping[str, str]]:
    """Where a check was made, and with what."""
    names = ("Django", "paramiko", "zstandard")
    return platform.node(), {"python": platform.python_version(), **{name: version(name) for name in names}}


def check_of(build: Build, finding: Finding, *, count: int = 1) -> Check:
    """An unsaved row for a comparison."""
    machine, software = machine_and_software()
    return Check(
        build=build,
        level=finding.level.value,
        subject=finding.subject,
        offset=finding.offset,
        length=finding.length,
        count=count,
        expected=finding.expected.hex() if finding.expected else "",
        found=finding.found.hex() if finding.found else "",
        outcome=finding.outcome.value,
        message=finding.message,
        seconds=finding.seconds,
        machine=machine,
        software=dict(software),
        at=timezone.now(),
    )


def is_held_back(sample: Sample, allowed_bytes_per_second: float | None) -> bool:
    """True when a limit, and not the link, decided how much came: nearly all that it allows was used."""
    if not allowed_bytes_per_second or not sample.seconds:
        return False
    return max(sample.wire_bytes, sample.new_bytes) / sample.seconds >= _HELD_BACK * allowed_bytes_per_second


@contextmanager
def _unless_replaced(build: Build) -> Iterator[None]:
    """A build that another act changed since the last directions is none of the link's any more; the others go on."""
    try:
        yield
    except StateConflict as conflict:
        log.info("The link lets go of %s: %s", build, conflict)


class RowLedger:
    """The books of one host's link. Raises LeaseLost from any call once the lease is another worker's."""

    def __init__(self, host: Host, held: Held) -> None:
        self._host, self._held = host, held
        self._channel = host.channels.order_by("position").first()  # the one that `open_remote` takes
        self._builds: dict[str, Build] = {}
        self._specs: dict[str, BuildSpec] = {}
        self._idle_since = timezone.now()
        self._driver = LinkDriver(host)

    def directions(self) -> Directions:
        """What to fetch now, in execution order; a build that is fetched for the first time becomes *fetching*."""
        try:
            stop = lease_beat(self._held)
        except LeaseTaken as error:
            raise LeaseLost from error
        host = Host.objects.get(pk=self._host.pk)
        lanes, allowed = self._driver.direct(), self._driver.allowance.bytes_per_second
        if allowed == 0:
            return Directions(builds=(), lanes=0, stop=stop)  # the link ends; a tick begins it when the hours are over
        specs = [self._spec(build) for build in builds_to_fetch(host) if self._is_fetching(build)]
        now = timezone.now()
        if specs:
            self._idle_since = now
        is_patient = now - self._idle_since < timedelta(seconds=IDLE_LINK_SECONDS)
        more = is_patient and is_more_expected(host)
        return Directions(tuple(specs), lanes, stop=stop, more_expected=more, bytes_per_second=allowed)

    def _is_fetching(self, build: Build) -> bool:
        if build.state == BuildState.PACKED:
            try:
                with transaction.atomic():
                    self._hold()
                    advance(build, BuildState.FETCHING, act="build.fetch", actor=SYSTEM)
            except StateConflict:
                return False
        self._builds[build_key(build)] = build
        return True

    def _spec(self, build: Build) -> BuildSpec:
        key = build_key(build)
        if key not in self._specs:
            self._specs[key] = build_spec(build)
        return self._specs[key]

    def _hold(self) -> None:
        try:
            lease_hold(self._held)
        except LeaseTaken as error:
            raise LeaseLost from error

    def proven_chunks(self, key: str) -> frozenset[int]:
        """Chunks whose rows say that they were proven."""
        rows = Chunk.objects.filter(build=self._builds[key], proven_at__isnull=False)
        return frozenset(rows.values_list("index", flat=True))

    def chunk_digests(self, key: str) -> Mapping[int, bytes]:
        """Digests taken at the source; all are known once a build is packed."""
        return {chunk.index: chunk.sha256 for chunk in self._specs[key].chunks if chunk.sha256 is not None}

    def record_chunk(self, key: str, finding: Finding) -> None:
        """Keep the comparison; a match proves the chunk."""
        build = self._builds[key]
        with transaction.atomic():
            self._hold()
            check_of(build, finding).save()
            if finding.outcome is Outcome.MATCHED:
                Chunk.objects.filter(build=build, index=int(finding.subject)).update(proven_at=timezone.now())

    def record_received(self, key: str) -> None:
        """Every chunk is proven: the build is *received*."""
        build = self._builds[key]
        with _unless_replaced(build), transaction.atomic():
            self._hold()
            now = timezone.now()
            advance(
                build,
                BuildState.RECEIVED,
                act="build.received",
                actor=SYSTEM,
                detail={"bytes": build.size_bytes},
                received_bytes=build.size_bytes or 0,
                received_at=now,
                problem="",
            )

    def record_sample(self, sample: Sample, received_bytes: Mapping[str, int]) -> None:
        """Keep what the link did in about a second, for pages and forecasts."""
        now = timezone.now()
        with transaction.atomic():
            self._hold()
            LinkStatus.objects.update_or_create(
                host=self._host,
                defaults={
                    "at": now,
                    "bytes_per_second": sample.new_bytes / sample.seconds if sample.seconds else 0.0,
                    "lanes": [asdict(reading) for reading in sample.lanes],
                    "refusals": sample.refusals,
                    "redials": sample.redials,
                    "allowed_bytes_per_second": self._driver.allowance.bytes_per_second,
                },
            )
            self._driver.note(sample)
            if sample.new_bytes or sample.wire_bytes:
                GoodputSample.objects.create(
                    host=self._host,
                    at=now,
                    seconds=sample.seconds,
                    new_bytes=sample.new_bytes,
                    wire_bytes=sample.wire_bytes,
                    lanes=len(sample.lanes),
                )
                self._add_to_minute(now, sample)
            for key, here in received_bytes.items():
                if key in self._builds:
                    Build.objects.filter(pk=self._builds[key].pk, state=BuildState.FETCHING).update(received_bytes=here)

    def _add_to_minute(self, at: datetime, sample: Sample) -> None:
        """Sum samples by the minute, channel, number of lanes and whether a limit held them back: forecasts are drawn
        from these."""
        minute = {
            "host": self._host,
            "at": at.replace(second=0, microsecond=0),
            "channel": self._channel,
            "lanes": len(sample.lanes),
            "is_limited": is_held_back(sample, self._driver.allowance.bytes_per_second),
        }
        added = GoodputMinute.objects.filter(**minute).update(
            seconds=F("seconds") + sample.seconds, new_bytes=F("new_bytes") + sample.new_bytes
        )
        if not added:
            GoodputMinute.objects.create(**minute, seconds=sample.seconds, new_bytes=sample.new_bytes)

    def record_problem(self, key: str | None, error: Exception, *, will_retry: bool) -> None:
        """Say what went wrong where people look for it; what can't mend itself stops the build."""
        sentence = str(error)
        if key is None:
            with transaction.atomic():
                self._hold()
                Host.objects.filter(pk=self._host.pk).update(problem=sentence)
                LinkStatus.objects.filter(host=self._host).update(problem=sentence)
            return
        build = self._builds[key]
        with _unless_replaced(build), transaction.atomic():
            self._hold()
            if will_retry:
                Build.objects.filter(pk=build.pk).update(problem=sentence)
            elif isinstance(error, SourceChanged):
                self._source_changed(build, error)
            else:
                advance(
                    build, BuildState.FAILED, act="build.fail", actor=SYSTEM, detail={"why": sentence}, problem=sentence
                )

    def _source_changed(self, build: Build, error: SourceChanged) -> None:
        sentence = str(error)
        deviation = {"name": escape(error.path.raw), "what": "changed", "detail": error.what}
        advance(
            build,
            BuildState.NEEDS_DECISION,
            act="build.source_changed",
            actor=SYSTEM,
            detail={"why": sentence},
            problem=sentence,
            deviations=[*build.deviations, deviation],
        )
