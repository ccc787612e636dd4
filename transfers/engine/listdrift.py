"""What a list holds beside what lies on the host now: added, changed, removed. Digests decide where both are known."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from transfers.engine.types import Member

_SECOND_NS = 10**9
What = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class ListDrift:
    """One path that differs. `reason` says in a word by what a changed one does."""

    what: What
    name: bytes
    before: Member | None
    after: Member | None
    reason: str = ""


def list_drift(
    before: Mapping[bytes, Member],
    after: Iterable[Member],
    *,
    digests: Mapping[bytes, bytes],
    touched: Container[bytes],
    whole_seconds: bool = False,
) -> Iterator[ListDrift]:
    """Every path that differs: first what is there now, in its order, then what is there no more.

    `digests` are those of the files as they are now, as far as they are known; `touched` are names whose inode was
    written since the list was made, though size and time may be the same. `whole_seconds`: fractions are not told now.
    """
    seen = set()
    for now in after:
        seen.add(now.name)
        then = before.get(now.name)
        if then is None:
            yield ListDrift("added", now.name, None, now)
            continue
        reason = _difference(then, now, digests.get(now.name), now.name in touched, whole_seconds=whole_seconds)
        if reason:
            yield ListDrift("changed", now.name, then, now, reason)
    for name, then in before.items():
        if name not in seen:
            yield ListDrift("removed", name, then, None)


def _difference(then: Member, now: Member, digest: bytes | None, is_touched: bool, *, whole_seconds: bool) -> str:  # noqa: FBT001
    """What differs of one path; empty when nothing does. A folder is its name: what is in it stands for itself."""
    if then.kind != now.kind:
        return "kind"
    if now.kind == "link":
        return "content" if then.link_target != now.link_target else ""
    if now.kind != "file":
        return ""
    if then.sha256 is not None and digest is not None:
        return "content" if then.sha256 != digest else ""
    if then.size_bytes != now.size_bytes:
        return "size"
    unit = _SECOND_NS if whole_seconds else 1
    if then.mtime_ns // unit != now.mtime_ns // unit:
        return "time"
    return "touched" if is_touched else ""
