"""Take SHA-256 of many files on their host: detached, several at once, found again after a lost connection.

Our folder in staging holds, for each of a few workers, the list of its files and what it found:

    list.N   names relative to the folder that the files lie below, each with NUL
    out.N    batch after batch:  STAT…  HEX  NAME \\0 …  = \\0  STAT…  WORD \\n
    job      the job's own folder (see `inventory.remote.jobs`)

A file's identity is read before and after its digest is taken; only where both are the same is the digest that of a
file that stood still. Files that could not be read give no line. Nothing but our folder is written to.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

from inventory.remote.base import CommandFailed, Remote, RemoteStat
from inventory.remote.files import STAT_FORMAT, parse_stat
from inventory.remote.jobs import JobState, poll_job, remove_job, start_job, stop_job
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote, raise_bad_status

BATCH_FILES = 64
LOOK_BYTES = 8 * 2**20  # of one worker's findings at a time
WORKERS_AT_MOST = 8
_PIECE_BYTES = 2**16
_CALL_SECONDS = 60.0
_SHA = re.compile(rb"([0-9a-f]{64})  (.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One file to read; `name` is relative to the folder, size in bytes for sharing the work out evenly."""

    name: bytes
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The digest of a file that had this identity before and after it was read. `name` is relative."""

    name: bytes
    sha256: bytes
    stat: RemoteStat


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a worker's findings: whole batches, and where the next look begins. `moved` are names of files that
    changed while they were read."""

    taken: tuple[Taken, ...]
    moved: tuple[bytes, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class DigestJob:
    """Digests under way on a host. `word` is random: it ends batches, and no name can hold it by chance."""

    folder: RemoteName
    root: RemoteName  # the folder that names are relative to
    word: str
    workers: int

    @property
    def job(self) -> RemoteName:
        return self.folder.join(b"job")


def begin(remote: Remote, job: DigestJob, wanted: Iterable[Wanted], *, has_zero: bool) -> int:
    """Send the lists and start the job, unless it runs already; returns how many files were listed.

    The folder above the job's must be there. `has_zero`: the host's sha256sum ends its lines with NUL on request.
    Raises PathMissing, PathRefused, RemoteSpaceShort, CommandFailed, TransientError.
    """
    step = f"prepare {job.folder}"
    raise_bad_status(remote.run(b"umask 077; mkdir -p -- " + quote(job.folder.raw) + b"\n", step=step), step)
    with ExitStack() as stack:
        lists = [stack.enter_context(TemporaryFile()) for _ in range(job.workers)]
        count = _share(lists, wanted)
        for number, held in enumerate(lists):
            held.seek(0)
            pieces = iter(lambda held=held: held.read(_PIECE_BYTES), b"")  # type: ignore[misc]
            remote.write_file(job.folder.join(b"list.%d" % number), pieces)
    start_job(remote, job.job, _script(job, has_zero=has_zero))
    return count


def _share(lists: Sequence[IO[bytes]], wanted: Iterable[Wanted]) -> int:
    """Give each file to the worker that has the fewest bytes so far."""
    loads = [(0, number) for number in range(len(lists))]
    count = 0
    for one in wanted:
        load, number = heapq.heappop(loads)
        lists[number].write(b"./" + one.name + b"\0")
        heapq.heappush(loads, (load + one.size_bytes + 4096, number))
        count += 1
    return count


def _script(job: DigestJob, *, has_zero: bool) -> bytes:
    stat = b"TZ=UTC QUOTING_STYLE=literal stat -c " + quote(job.word.encode() + b" " + STAT_FORMAT + b"|%n")
    read = (
        b'sha256sum -z -- "$@"'
        if has_zero
        else b'for p do s=$(sha256sum <"$p") && printf "%s  %s\\0" "${s%% *}" "$p"; done'
    )
    batch = (
        stat + b' "$@" 2>/dev/null; printf "=\\0"\n' + read + b' 2>/dev/null; printf "=\\0"\n'
        + stat + b' "$@" 2>/dev/null; printf "=%s\\0" ' + job.word.encode() + b"\n"
    )  # fmt: skip
    return (
        b"cd " + quote(job.root.raw) + b" || exit 66\n"
        b"gently=; command -v nice >/dev/null 2>&1 && gently='nice -n 10'\n"
        b"d=" + quote(job.folder.raw) + b"\ni=0\n"
        b"while [ $i -lt %d ]; do\n" % job.workers
        # Some xargs run once for an empty list, and would take the digest of nothing.
        + b'  [ ! -s "$d/list.$i" ] || $gently xargs -0 -n %d /bin/sh -c ' % BATCH_FILES
        + quote(batch) + b' sh <"$d/list.$i" >"$d/out.$i" &\n'
        b"  i=$((i+1))\ndone\nwait\n"
    )  # fmt: skip


def look(remote: Remote, job: DigestJob, worker: int, offset: int) -> Look:
    """What a worker has found since `offset`, in whole batches, some megabytes at most.

    Raises CommandFailed, TransientError.
    """
    step = f"read the digests in {job.folder}"
    path = quote(job.folder.join(b"out.%d" % worker).raw)
    script = b"[ -f %b ] || exit 0\ntail -c +%d %b | head -c %d\n" % (path, offset + 1, path, LOOK_BYTES)
    content = remote.check(script, step=step, timeout_seconds=_CALL_SECONDS)
    end = b"=" + job.word.encode() + b"\0"
    *batches, _rest = content.split(end)
    taken: list[Taken] = []
    moved: list[bytes] = []
    for batch in batches:
        for one in _batch(batch, job, step):
            if isinstance(one, Taken):
                taken.append(one)
            else:
                moved.append(one)
    return Look(tuple(taken), tuple(moved), offset + sum(len(batch) + len(end) for batch in batches))


def _batch(batch: bytes, job: DigestJob, step: str) -> Iterator[Taken | bytes]:
    before_text, _, rest = batch.partition(b"=\0")
    if rest.startswith(b"=\0"):
        lines, after_text = b"", rest[2:]
    else:
        lines, _, after_text = rest.partition(b"\0=\0")
    before, after = _identities(before_text, job, step), _identities(after_text, job, step)
    for line in lines.split(b"\0") if lines else ():
        match = _SHA.fullmatch(line)
        if match is None:
            raise CommandFailed(step, 0, f"sha256sum printed {line[:200]!r}, which is not what was asked for")
        path = match.group(2)
        stat = before.get(path)
        name = path.removeprefix(b"./")
        if stat is not None and stat == after.get(path) and stat.kind == "file":
            yield Taken(name, bytes.fromhex(match.group(1).decode()), stat)
        else:
            yield name


def _identities(text: bytes, job: DigestJob, step: str) -> dict[bytes, RemoteStat]:
    found = {}
    for record in text.split(job.word.encode() + b" ")[1:]:
        numbers, mtime, ctime, path = record.removesuffix(b"\n").split(b"|", 3)
        found[path] = parse_stat(b"|".join((numbers, mtime, ctime)), step)
    return found


def state_of(remote: Remote, job: DigestJob) -> JobState:
    """Look at the job itself. Raises PathMissing when it is not there, TransientError."""
    return poll_job(remote, job.job)


def clear(remote: Remote, job: DigestJob) -> None:
    """End the job if it runs, and remove our folder with everything in it. Raises CommandFailed, TransientError."""
    step = f"tidy up {job.folder}"
    folder = quote(job.folder.raw)
    stop_job(remote, job.job)
    remove_job(remote, job.job)
    script = b"cd %b 2>/dev/null || exit 0\nrm -f list.* out.*\ncd / && rmdir -- %b\n" % (folder, folder)
    raise_bad_status(remote.run(script, step=step), step)
