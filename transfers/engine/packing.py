"""What the packer does on the host: scripts for detached jobs, and reading back what they left.

Two jobs, each a folder in staging (see `inventory.remote.jobs`):

    pack      (archive mode) tar from the explicit list, through zstd or not, to `.partial`; each stage's exit status is
              kept, and the archive gets its name only when all are good
    digest    chunk digests and the digest of the whole in one pass; the digest of each file of the list where the mode
              has any; last, the list is looked at again, so that whatever changed meanwhile is named

Lists are uploaded before; no name is ever part of a command. Names in lists are root-relative and NUL-ended:

    KEY.names   every member, for tar        KEY.files   regular files, for their digests
    KEY.look    what is looked at again: the members, and what is left to other packs (KEY.files holds these as well)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inventory.remote.base import CommandFailed, Remote, RemoteSpaceShort, RemoteStat
from inventory.remote.files import parse_stat
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote
from transfers.engine.geometry import Piece
from transfers.engine.source import digests_script, parse_digests
from transfers.engine.types import Deviation, Member

TAR_RECORD_BYTES = 512
TAR_END_BYTES = 10_240
ZSTD_LEVEL = 3
_STEP_SECONDS = 120.0
_UNREADABLE = "the account could not read it; give it the right to, or leave it out by a rule and propose anew"


@dataclass(frozen=True, slots=True)
class StagingPlaces:
    """Where one build's files lie in the host's staging folder. `attempt` names jobs, so that none is reused."""

    staging: RemoteName
    key: str
    attempt: int

    def list_of(self, kind: str) -> RemoteName:
        """The uploaded list: "names", "files", "look" or "sample"."""
        return self.staging.join(f"{self.key}.{kind}".encode())

    def job(self, stage: str) -> RemoteName:
        """The folder of the job: "pack" or "digest"."""
        return self.staging.join(f"{self.key}.{stage}.{self.attempt}".encode())

    def archive(self, *, is_compressed: bool) -> RemoteName:
        """The archive that is made."""
        return self.staging.join(f"{self.key}.tar{'.zst' if is_compressed else ''}".encode())


def archive_bytes_at_most(members: Iterable[Member]) -> int:
    """An upper bound of a plain tar's size in bytes: content in whole records, headers, records for long names."""
    total = TAR_END_BYTES * 2
    for member in members:
        total += TAR_RECORD_BYTES + member.size_bytes + TAR_RECORD_BYTES
        for text in (member.name, member.link_target):
            if len(text) >= 100:
                total += 2 * TAR_RECORD_BYTES + len(text) + TAR_RECORD_BYTES
    return total


def names_list(members: Iterable[Member], *, files_only: bool = False) -> Iterator[bytes]:
    """The list for upload, in pieces."""
    piece: list[bytes] = []
    for member in members:
        if files_only and member.kind != "file":
            continue
        piece.append(member.name + b"\0")
        if len(piece) >= 4096:
            yield b"".join(piece)
            piece = []
    yield b"".join(piece)


def free_bytes(remote: Remote, folder: RemoteName) -> int:
    """Bytes that this account may still write at a folder on the host. Raises CommandFailed, TransientError."""
    step = f"ask for free space at {folder}"
    output = remote.check(b"df -Pk -- %b | tail -n 1\n" % quote(folder.raw), step=step)
    fields = output.split()
    if len(fields) < 6 or not fields[3].isdigit():
        raise CommandFailed(step, 0, f"df printed {output[:200]!r}")
    return int(fields[3]) * 1024


def need_space(remote: Remote, folder: RemoteName, needed_bytes: int) -> None:
    """Raises RemoteSpaceShort when the host has no room for an archive of that size."""
    free = free_bytes(remote, folder)
    if free < needed_bytes:
        raise RemoteSpaceShort(folder, needed_bytes, free)


def remove_half_made(remote: Remote, places: StagingPlaces) -> None:
    """Remove what a former attempt had made of the archive; it would take the room that the next one needs.

    End the former job first. Raises CommandFailed, TransientError.
    """
    halves = (places.archive(is_compressed=is_compressed).raw + b".partial" for is_compressed in (True, False))
    names = b" ".join(quote(half) for half in halves)
    remote.check(b"rm -f -- %b\n" % names, step="remove a half-made archive from staging")


def pack_script(places: StagingPlaces, *, is_compressed: bool) -> bytes:
    """The job that makes the archive. It ends with status 0 only when each stage ended well.

    tar's status 1 (a file changed while it was read) and 2 (a file was gone or unreadable) are kept in `tar.status` and
    do not end the job: the look at the list that follows names the files, and the build then needs a decision.
    """
    archive = places.archive(is_compressed=is_compressed)
    partial = quote(archive.raw + b".partial")
    tar = (
        b"tar -C / --null --no-recursion --verbatim-files-from --format=gnu --numeric-owner"
        b" -T %b -cf - 2>tar.errors" % quote(places.list_of("names").raw)
    )
    squeeze = b"zstd -%d -T0 -q -c 2>zstd.errors" % ZSTD_LEVEL if is_compressed else b"cat 2>zstd.errors"
    return b"".join(
        (
            b"umask 077\nrm -f tar.status squeeze.status\n",
            b"{ ", tar, b"; echo $? >tar.status; } | { ", squeeze, b" >", partial, b"; echo $? >squeeze.status; }\n",
            b"read -r T <tar.status && read -r Z <squeeze.status || {\n  rm -f -- ", partial,
            b"; echo 'its notes could not be written; is there no space left for staging?' >&2; exit 90\n}\n",
            b'[ "$Z" = 0 ] || { rm -f -- ', partial, b'; cat zstd.errors >&2; exit 91; }\n',
            b'case $T in 0|1|2) ;; *) rm -f -- ', partial, b'; tail -n 20 tar.errors >&2; exit 92 ;; esac\n',
            b"sync ", partial, b" 2>/dev/null\n",
            b"mv -f -- ", partial, b" ", quote(archive.raw), b"\n",
        )
    )  # fmt: skip


def digest_script(places: StagingPlaces, pieces_by_chunk: Sequence[Sequence[Piece]], *, with_members: bool) -> bytes:
    """The job that takes digests: `chunks` and the whole, each file's where asked for, then the look at the list.

    It leaves `chunks.out` (lines of `digests_script`), `members.out` (HEX, blank, star, NAME, NUL) and `look.out`
    (stat's line, NUL, NAME, NUL) in its folder; what could not be read is missing from them.
    """
    parts = [b"umask 077\n(\n", digests_script(pieces_by_chunk), b") >chunks.out.new 2>chunks.errors || exit 93\n"]
    parts.append(b"mv -f chunks.out.new chunks.out\n")
    if with_members:
        parts.append(_MEMBERS % {b"list": quote(places.list_of("files").raw)})
    parts.append(_LOOK % {b"list": quote(places.list_of("look").raw)})
    return b"".join(parts)


# Records are HEX, a blank, a star, the name, NUL. GNU sha256sum prints just that with -b -z and then escapes nothing;
# elsewhere each file is asked for by itself.
_MEMBERS = rb"""if [ $(printf x | sha256sum -z 2>/dev/null | tr '\0' '\n' | wc -l) -eq 1 ]; then
  (cd / && xargs -0 -r sha256sum -b -z -- <%(list)b) >members.out 2>members.errors
else
  (cd / && xargs -0 -r sh -c '
    for name; do h=$(sha256sum <"$name") && printf "%%s *%%s\0" "${h%%%% *}" "$name"; done' sh <%(list)b
  ) >members.out 2>members.errors
fi
"""

# Times with their fraction, in UTC, as `inventory.remote.files.parse_stat` reads them.
_LOOK = rb"""TZ=UTC; F='%%f %%s %%b %%B %%Y %%Z %%d %%i %%h|%%y|%%z'; export TZ F
if stat --printf='' / 2>/dev/null; then
  (cd / && xargs -0 -r stat --printf="$F\0%%n\0" -- <%(list)b) >look.out 2>look.errors
else
  (cd / && xargs -0 -r sh -c '
    for name; do s=$(stat -c "$F" -- "$name") && printf "%%s\0%%s\0" "$s" "$name"; done' sh <%(list)b
  ) >look.out 2>look.errors
fi
:
"""


@dataclass(frozen=True, slots=True)
class SourceDigests:
    """Digests taken at the source: of chunks by number, and of the whole."""

    chunks: Mapping[int, bytes]
    whole: bytes


def read_tar_complaints(remote: Remote, job: RemoteName) -> str:
    """What tar said when it could not pack something; empty when it packed all. Raises CommandFailed."""
    folder = quote(job.raw)
    script = b"cd %b && read -r T <tar.status && { [ $T -lt 2 ] || tail -n 20 tar.errors; }\n" % folder
    return remote.check(script, step="read how tar ended").decode("utf-8", "backslashreplace")


def read_source_digests(remote: Remote, job: RemoteName, chunk_count: int) -> SourceDigests:
    """Fetch `chunks.out`. Raises CommandFailed when digests are missing, with what the host complained about."""
    step = "read the digests taken at the source"
    output = b"".join(remote.stream(b"cat -- %b\n" % quote(job.join(b"chunks.out").raw), step=step))
    chunks: dict[int, bytes] = {}
    whole: bytes | None = None
    try:
        for line in parse_digests(output.splitlines()):
            if line.index is None:
                whole = line.sha256
            else:
                chunks[line.index] = line.sha256
    except ValueError as error:
        raise CommandFailed(step, 0, str(error)) from error
    if whole is None or len(chunks) != chunk_count:
        raise CommandFailed(step, 0, f"{len(chunks):,} of {chunk_count:,} chunk digests are there")
    return SourceDigests(chunks, whole)


def read_member_digests(remote: Remote, job: RemoteName) -> dict[bytes, bytes]:
    """Fetch `members.out`: name → SHA-256. Raises CommandFailed, TransientError."""
    records = _fields(remote, job.join(b"members.out"), "read the members' digests")
    return {record[66:]: bytes.fromhex(record[:64].decode("ascii")) for record in records}


def read_look(remote: Remote, job: RemoteName) -> dict[bytes, RemoteStat]:
    """Fetch `look.out`: name → what it is now. Raises CommandFailed, TransientError."""
    step = "look at the list again"
    fields = _fields(remote, job.join(b"look.out"), step)
    return {name: parse_stat(line, step) for line, name in _pairs(fields)}


def _fields(remote: Remote, path: RemoteName, step: str) -> Iterator[bytes]:
    held = b""
    for piece in remote.stream(b"cat -- %b\n" % quote(path.raw), step=step):
        *whole, held = (held + piece).split(b"\0")
        yield from whole
    if held:
        raise CommandFailed(step, 0, "the list ends in the middle of a name")


def _pairs(fields: Iterator[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for first in fields:
        second = next(fields, None)
        if second is not None:
            yield first, second


def compare_look(
    members: Sequence[Member], look: Mapping[bytes, RemoteStat], digests: Mapping[bytes, bytes] | None
) -> tuple[list[Member], list[Deviation]]:
    """Return the members as they are at the source now, with digests where taken, and what is not as the list says.

    `digests` is None where the mode takes none of members. A folder's time is not compared: it changes with whatever
    is made beside it, also with our own staging.
    """
    found: list[Member] = []
    deviations: list[Deviation] = []
    for member in members:
        now = look.get(member.name)
        if now is None:
            deviations.append(Deviation(member.name, "vanished", "it is not there any more"))
            continue
        if told := _changes(member, now):
            deviations.append(Deviation(member.name, "changed", told))
        digest = None
        if digests is not None and now.kind == "file":
            digest = digests.get(member.name)
            if digest is None:
                deviations.append(
                    Deviation(
                        member.name,
                        "unreadable",
                        "the account could not read it; give it the right to, or leave it out by a rule",
                    )
                )
                continue
        if now.kind in ("file", "folder", "link"):
            size = now.size_bytes if now.kind == "file" else 0
            found.append(Member(member.name, now.kind, size, now.mtime_ns, now.mode, member.link_target, digest))
    return found, deviations


def compare_satisfied(satisfied: Iterable[Member], found: Iterable[Member]) -> list[Deviation]:
    """Files that are left to other packs and whose content is not what those packs carry for them."""
    digests = {one.name: one.sha256 for one in found}
    what = "its digest is another one than that of the file that is carried for it; accepted, it stays as previewed"
    return [
        Deviation(one.name, "changed", what) for one in satisfied if digests.get(one.name) not in (None, one.sha256)
    ]


def _changes(member: Member, now: RemoteStat) -> str:
    if now.kind != member.kind:
        return f"it is a {now.kind} now and was a {member.kind}"
    told = []
    if member.kind == "file" and now.size_bytes != member.size_bytes:
        told.append(f"{now.size_bytes:,} bytes now, {member.size_bytes:,} when it was scanned")
    if member.kind != "folder" and not _same_time(member.mtime_ns, now.mtime_ns):
        told.append("it was written to after the scan")
    if member.kind != "link" and now.mode != member.mode:
        told.append(f"its permissions are {now.mode:04o} now and were {member.mode:04o}")
    return "; ".join(told)


def _same_time(scanned_ns: int, now_ns: int) -> bool:
    """Equal, or equal to the second where one side shows no fraction (some BusyBox versions)."""
    if scanned_ns % 10**9 and now_ns % 10**9:
        # find -printf gives ten digits of a fraction, stat nine: both are exact to the nanosecond.
        return scanned_ns == now_ns
    return scanned_ns // 10**9 == now_ns // 10**9
