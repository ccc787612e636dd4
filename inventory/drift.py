"""Two listings of the same place side by side: what was added, removed and changed. In flat memory, both in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from inventory.remote.base import EntryKind

DriftKind = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One path as a listing saw it. None is what the listing does not say."""

    name: bytes
    kind: EntryKind
    size_bytes: int | None = None
    mtime_ns: int | None = None
    ctime_ns: int | None = None
    sha256: bytes | None = None
    link_target: bytes = b""
    inode: int | None = None

    @property
    def file_bytes(self) -> int:
        return self.size_bytes or 0 if self.kind == "file" else 0


@dataclass(frozen=True, slots=True)
class Drift:
    """One path that is not the same in both. `reason` says in a word what differs: content, size, time,
    kind, or that another file took its place."""

    kind: DriftKind
    name: bytes
    before: Seen | None
    after: Seen | None
    reason: str = ""


@dataclass(slots=True)
class DriftSums:
    """Counts of paths, and bytes of files (of a changed one, as it is now)."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    same: int = 0
    added_bytes: int = 0
    removed_bytes: int = 0
    changed_bytes: int = 0

    def count(self, drift: Drift) -> None:
        """Count one."""
        held = drift.before if drift.after is None else drift.after
        setattr(self, drift.kind, getattr(self, drift.kind) + 1)
        of_bytes = f"{drift.kind}_bytes"
        setattr(self, of_bytes, getattr(self, of_bytes) + (held.file_bytes if held is not None else 0))

    @property
    def is_any(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def order_key(name: bytes) -> bytes:
    """Names in this order stand part by part: a folder's content follows it directly."""
    return name.replace(b"/", b"\0")


def compare(before: Iterable[Seen], after: Iterable[Seen], sums: DriftSums) -> Iterator[Drift]:
    """Every path that differs, in order; `sums` is filled as they pass, also with those that are the same."""
    old, new = iter(before), iter(after)
    one, other = next(old, None), next(new, None)
    while one is not None or other is not None:
        found: Drift | None = None
        if other is None or (one is not None and order_key(one.name) < order_key(other.name)):
            assert one is not None
            found, one = Drift("removed", one.name, one, None), next(old, None)
        elif one is None or order_key(other.name) < order_key(one.name):
            found, other = Drift("added", other.name, None, other), next(new, None)
        else:
            reason = difference(one, other)
            if reason:
                found = Drift("changed", one.name, one, other, reason)
            one, other = next(old, None), next(new, None)
        if found is None:
            sums.same += 1
        else:
            sums.count(found)
            yield found


def difference(before: Seen, after: Seen) -> str:
    """What differs, as far as both say; empty when nothing does.

    Equal digests decide that a file is the same, whatever its times are. A file whose size and time of change are the
    same but whose inode was written since (`touch -r`, or chmod), or is another one, counts as changed: only a digest
    could tell.
    """
    if before.kind != after.kind:
        return "kind"
    if before.kind == "link":
        return "content" if before.link_target != after.link_target else ""
    if before.kind != "file":
        return ""
    if before.sha256 is not None and after.sha256 is not None:
        return "content" if before.sha256 != after.sha256 else ""
    if None not in (before.size_bytes, after.size_bytes) and before.size_bytes != after.size_bytes:
        return "size"
    for one, other in ((before.mtime_ns, after.mtime_ns), (before.ctime_ns, after.ctime_ns)):
        if one is not None and other is not None and one != other:
            return "time"
    return "replaced" if None not in (before.inode, after.inode) and before.inode != after.inode else ""
