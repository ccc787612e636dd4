"""Rows for tests of pages: a host whose packs stand in every state, made without a network."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import zstandard
from django.utils import timezone

from calculet.people.models import Person
from inventory.models import Channel, Entry, Host, HostKey, Resource, ResourceKind, Scan, ScanState, SizeBasis, Tier
from inventory.remote.names import RemoteName
from transfers.engine.members import encode_members
from transfers.engine.types import Member
from transfers.models import (
    Approval,
    Build,
    BuildState,
    Capability,
    CapabilityNeed,
    Check,
    Chunk,
    EntryList,
    GoodputMinute,
    GoodputSample,
    Item,
    Landing,
    LinkStatus,
    Mode,
    Pack,
    Plan,
    Report,
    Revision,
    RevisionState,
)
from transfers.services.revision_digests import revision_digest

MEBIBYTE = 2**20
DIGEST = hashlib.sha256(b"a build").hexdigest()


def make_host(name: str = "lab", *, is_pinned: bool = True, problem: str = "") -> Host:
    """A host with one channel, its key pinned unless told otherwise."""
    host = Host.objects.create(name=name, staging_path=b"/var/tmp/staging", problem=problem)
    channel = Channel.objects.create(host=host, address="192.0.2.7", username="guest")
    if is_pinned:
        HostKey.objects.create(
            channel=channel, key_type="ssh-ed25519", blob=b"key", fingerprint="SHA256:abc", pinned_at=timezone.now()
        )
    return host


def make_resource(host: Host, name: str, path: bytes, files: dict[bytes, int] | None = None) -> Resource:
    """A resource; with `files` (name to size) it has a finished scan that found them."""
    resource = Resource.objects.create(
        host=host,
        name=name,
        path=path,
        kind=ResourceKind.FOLDER,
        tier=Tier.objects.get_or_create(position=1, defaults={"name": "needed first"})[0],
        size_bytes=sum((files or {}).values()),
        size_basis=SizeBasis.EXACT,
    )
    if files is None:
        return resource
    now = timezone.now()
    scan = Scan.objects.create(
        host=host, resource=resource, root=path, state=ScanState.FINISHED, finished_at=now, files=len(files), folders=1
    )
    folder = Entry(scan=scan, position=1, name=b"", kind=Entry.Kind.FOLDER, mode=0o755)
    entries = [
        Entry(scan=scan, position=at, name=name_, kind=Entry.Kind.FILE, size_bytes=size, mode=0o644, mtime_ns=at)
        for at, (name_, size) in enumerate(sorted(files.items()), 2)
    ]
    Entry.objects.bulk_create([folder, *entries])
    return resource


def make_list(files: Iterable[tuple[bytes, int]], *, is_digested: bool = False) -> EntryList:
    """An explicit list of files."""
    members = [
        Member(
            name=name,
            kind="file",
            size_bytes=size,
            mtime_ns=0,
            mode=0o644,
            sha256=hashlib.sha256(name).digest() if is_digested else None,
        )
        for name, size in files
    ]
    content = b"".join(encode_members(members))
    return EntryList.objects.get_or_create(
        digest=hashlib.sha256(content).hexdigest(),
        defaults={
            "entry_count": len(members),
            "file_count": len(members),
            "total_bytes": sum(member.size_bytes for member in members),
            "content": zstandard.ZstdCompressor().compress(content),
        },
    )[0]


@dataclass
class PlannedHost:
    """A host with a revision in force and its packs; `add` adds one more pack to it."""

    author: Person
    landing_path: Path
    host: Host = field(init=False)
    plan: Plan = field(init=False)
    revision: Revision = field(init=False)
    landing: Landing = field(init=False)
    name: str = "lab"

    def __post_init__(self) -> None:
        self.host = make_host(self.name)
        self.plan = Plan.objects.create(host=self.host)
        self.landing = Landing.objects.get_or_create(
            name="home", defaults={"path": str(self.landing_path), "is_default": True}
        )[0]
        self.revision = Revision.objects.create(
            plan=self.plan,
            number=1,
            state=RevisionState.APPROVED,
            author=self.author,
            digest="1" * 64,
            proposed_at=timezone.now(),
            decided_at=timezone.now(),
        )

    def add(
        self,
        name: str,
        state: BuildState | None = BuildState.PLANNED,
        *,
        chunk_count: int = 4,
        proven: int = 0,
        received_bytes: int | None = None,
        mode: str = Mode.ARCHIVE,
        files: Sequence[tuple[bytes, int]] = ((b"data/a.txt", 100), (b"data/b.txt", 200)),
        **fields: Any,
    ) -> Pack:
        """A pack in the revision, with a build in `state` (None: no build yet). Chunks have 1 MiB."""
        position = self.plan.packs.count() + 1
        pack = Pack.objects.create(
            plan=self.plan,
            name=name,
            position=position,
            **{key: fields.pop(key) for key in ("aim", "is_paused", "on_hold", "hold_reason") if key in fields},
        )
        entries = make_list([(f"{name}/".encode() + one, size) for one, size in files])
        item = Item.objects.create(
            revision=self.revision, pack=pack, position=position, mode=mode, entry_list=entries, chunk_bytes=MEBIBYTE
        )
        if state is not None:
            self.build(pack, item, state, chunk_count, proven, received_bytes, fields)
        return pack

    def build(
        self,
        pack: Pack,
        item: Item,
        state: BuildState,
        chunk_count: int,
        proven: int,
        received_bytes: int | None,
        fields: dict[str, Any],
    ) -> Build:
        """A build of the pack with its chunks; times are those that its state implies."""
        now = timezone.now()
        number = pack.builds.count() + 1
        states = [BuildState.PACKED, BuildState.RECEIVED, BuildState.VERIFIED, BuildState.OPENED]
        reached = {BuildState.FETCHING: 0}.get(state, states.index(state) if state in states else -1)
        is_packed = reached >= 0 or state in (BuildState.FAILED, BuildState.NEEDS_DECISION)
        names = ("packed_at", "received_at", "verified_at", "opened_at")
        times = dict.fromkeys(names[: reached + 1], now)
        values: dict[str, Any] = {
            "state": state,
            "mode": item.mode,
            "entry_list": item.entry_list,
            "chunk_bytes": item.chunk_bytes,
            "archive_name": "" if item.mode == Mode.FILES else f"{pack.name}.tar.zst",
            "size_bytes": chunk_count * MEBIBYTE if is_packed else None,
            "sha256": DIGEST if is_packed else "",
            "received_bytes": proven * MEBIBYTE if received_bytes is None else received_bytes,
            "landing": self.landing,
            "folder": f"{self.host.name}/{pack.name}/{number}",
            **times,
            **fields,
        }
        build = Build.objects.create(pack=pack, number=number, item=item, **values)
        if is_packed:
            Chunk.objects.bulk_create(
                Chunk(
                    build=build,
                    index=index,
                    offset=index * MEBIBYTE,
                    length=MEBIBYTE,
                    sha256=hashlib.sha256(bytes([index % 256])).digest(),
                    proven_at=now if index < proven or reached >= 1 else None,
                )
                for index in range(chunk_count)
            )
        return build

    def capability(self, name: str, *groups: Sequence[Pack]) -> Capability:
        """A capability that needs one pack of each group."""
        capability = Capability.objects.create(plan=self.plan, name=name, position=self.plan.capabilities.count())
        for number, group in enumerate(groups):
            for pack in group:
                CapabilityNeed.objects.create(capability=capability, group=number, pack=pack)
        return capability

    def measure(self, bytes_per_second: int = 200_000, seconds: int = 600, lanes: int = 4) -> None:
        """A link that has run for so long, at that rate, and runs now."""
        now = timezone.now()
        fetching = Build.objects.filter(pack__plan=self.plan, state=BuildState.FETCHING).first()
        GoodputSample.objects.bulk_create(
            GoodputSample(
                host=self.host,
                at=now - timedelta(seconds=ago),
                seconds=1.0,
                new_bytes=bytes_per_second,
                wire_bytes=bytes_per_second,
                lanes=lanes,
            )
            for ago in range(seconds)
        )
        self.minutes([bytes_per_second] * (seconds // 60), lanes=lanes, channel=self.host.channels.first())
        rows = [
            {
                "number": number,
                "state": "working",
                "build_key": f"build-{fetching.pk}" if fetching is not None else "",
                "rate_bytes_per_second": bytes_per_second / lanes,
                "silent_seconds": 0.2,
                "redials": 0,
            }
            for number in range(1, lanes + 1)
        ]
        LinkStatus.objects.create(host=self.host, at=now, bytes_per_second=bytes_per_second, lanes=rows)

    def minutes(self, rates: Sequence[int], *, lanes: int = 4, channel: Channel | None = None, ended: int = 0) -> None:
        """Whole minutes of these rates, the last one over since so many minutes."""
        now = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=ended)
        GoodputMinute.objects.bulk_create(
            GoodputMinute(
                host=self.host,
                channel=channel,
                at=now - timedelta(minutes=len(rates) - at),
                lanes=lanes,
                seconds=60.0,
                new_bytes=rate * 60,
            )
            for at, rate in enumerate(rates)
        )

    def report(self, pack: Pack, files: dict[str, bytes] | None = None) -> Report:
        """A report of the pack's newest build, with its folder on the disk."""
        build = pack.builds.order_by("-number")[0]
        below = f"{build.folder}/report-{build.reports.count() + 1}"
        folder = self.landing_path / below
        folder.mkdir(parents=True)
        for name, content in (files or {"SHA256SUMS": f"{DIGEST}  {build.archive_name}\n".encode()}).items():
            (folder / name).write_bytes(content)
        return Report.objects.create(build=build, folder=below, digest="2" * 64, made_at=timezone.now())


def make_check(build: Build, level: str, outcome: str, **fields: Any) -> Check:
    """One comparison of a build."""
    values: dict[str, Any] = {"machine": "here", "at": timezone.now(), "expected": "a" * 64, "found": "b" * 64}
    return Check.objects.create(build=build, level=level, outcome=outcome, **{**values, **fields})


def make_proposal_of_plan(plan: Plan, author: Person, packs: Iterable[Pack]) -> Revision:
    """A revision that waits for approval, with a digest that fits its content."""
    last = plan.revisions.order_by("-number").values_list("number", flat=True).first() or 0
    revision = Revision.objects.create(
        plan=plan, number=last + 1, state=RevisionState.PROPOSED, author=author, proposed_at=timezone.now()
    )
    for position, pack in enumerate(packs, 1):
        Item.objects.create(
            revision=revision,
            pack=pack,
            position=position,
            entry_list=make_list([(pack.name.encode() + b"/new.txt", 300)]),
        )
    revision.digest = revision_digest(revision)
    revision.save(update_fields=["digest"])
    return revision


def make_approval(revision: Revision, person: Person, decision: str, note: str = "") -> Approval:
    """A decision on a revision."""
    return Approval.objects.create(
        revision=revision, person=person, author=revision.author, decision=decision, digest=revision.digest, note=note
    )


def odd_name() -> RemoteName:
    """A name with everything that must be shown escaped."""
    return RemoteName(b"/data/<b>odd</b>\n\xff \xe2\x80\xae.txt")
