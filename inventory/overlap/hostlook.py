"""Look inside archives on their host: detached, read as streams, found again after a lost connection.

Our folder in staging holds

    look.py  list     the program and the names, each with NUL, where the host has python3
    each              what tar runs for each member, where it has not
    none              an empty folder that tar works in
    out.N             what was found in the archive N; it has that name when all of it is written
    job               the job's own folder (see `inventory.remote.jobs`); its progress is how many are done

Without python3, tar itself streams each member to a command (GNU tar and newer BusyBox): plain archives give the same
findings, of images only the layers as files. Where neither is there, archives are looked into when they are home.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from inventory.overlap import inside, inside_host
from inventory.overlap.inside import BYTES_AT_MOST, BYTES_WITHOUT_RATIO, FINDINGS_BYTES_AT_MOST, RATIO_AT_MOST
from inventory.remote.base import PathMissing, Remote
from inventory.remote.files import STAT_FORMAT
from inventory.remote.jobs import JobState, poll_job, remove_job, start_job, stop_job
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote, raise_bad_status

Way = Literal["python", "tar", "none"]
_IMPORT = re.compile(r"^from inventory\.overlap\.inside import .*$", re.MULTILINE)
_READ_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """One archive; `name` is relative to the folder that names are relative to. A layout is a folder."""

    name: bytes
    size_bytes: int
    is_layout: bool = False


@dataclass(frozen=True, slots=True)
class InsideJob:
    """A look under way on a host."""

    folder: RemoteName
    root: RemoteName  # the folder that names are relative to

    @property
    def job(self) -> RemoteName:
        return self.folder.join(b"job")


def way_of(remote: Remote) -> Way:
    """The best way that a host has to look inside archives. Raises CommandFailed, TransientError."""
    answer = remote.check(_WAY, step="see how to look inside archives").strip()
    return "python" if answer == b"python" else "tar" if answer == b"tar" else "none"


def begin(remote: Remote, job: InsideJob, wanted: Sequence[Wanted], way: Way) -> None:
    """Send what is needed and start the job, unless it runs already. The folder above the job's must be there.

    Raises PathMissing, PathRefused, RemoteSpaceShort, CommandFailed, TransientError.
    """
    step = f"prepare {job.folder}"
    folder = quote(job.folder.raw)
    raise_bad_status(remote.run(b"umask 077; mkdir -p -- %b/none\n" % folder, step=step), step)
    if way == "python":
        remote.write_file(job.folder.join(b"look.py"), [program()])
        remote.write_file(job.folder.join(b"list"), [b"./" + one.name + b"\0" for one in wanted])
        script = _PYTHON % {b"root": quote(job.root.raw), b"folder": folder}
    else:
        remote.write_file(job.folder.join(b"each"), [_EACH])
        script = _TAR % {
            b"root": quote(job.root.raw),
            b"folder": folder,
            b"blocks": FINDINGS_BYTES_AT_MOST // 512,
            b"stat": quote(STAT_FORMAT),
        }
        for number, one in enumerate(wanted):
            limit = min(BYTES_AT_MOST, BYTES_WITHOUT_RATIO + RATIO_AT_MOST * one.size_bytes)
            script += b"one %d %d %b\n" % (number, limit, quote(b"./" + one.name))
        script += b"tell %d\n" % len(wanted)
    start_job(remote, job.job, script)


def program() -> bytes:
    """The text of the program that hosts with python3 are sent: `inside` and `inside_host` as one."""
    library, main = (Path(str(module.__file__)).read_text(encoding="utf-8") for module in (inside, inside_host))
    text, replaced = _IMPORT.subn("", main)
    if replaced != 1:
        raise AssertionError("inside_host imports from inside in one line")
    return (library + "\n\n" + text).encode()


def state_of(remote: Remote, job: InsideJob) -> tuple[JobState | None, int]:
    """The job itself (None when it is not there), and how many archives are done. Raises TransientError."""
    try:
        state = poll_job(remote, job.job)
    except PathMissing:
        return None, 0
    return state, int(state.progress) if state.progress.strip().isdigit() else 0


def findings(remote: Remote, job: InsideJob, number: int) -> Iterator[bytes]:
    """What was found in an archive that is done, piece by piece. Raises CommandFailed, TransientError."""
    script = b"exec head -c %d %b\n" % (2 * FINDINGS_BYTES_AT_MOST, quote(job.folder.join(b"out.%d" % number).raw))
    return remote.stream(script, step=f"read what {job.folder} found", timeout_seconds=_READ_SECONDS)


def clear(remote: Remote, job: InsideJob) -> None:
    """End the job if it runs, and remove our folder with everything in it. Raises CommandFailed, TransientError."""
    step = f"tidy up {job.folder}"
    folder = quote(job.folder.raw)
    stop_job(remote, job.job)
    remove_job(remote, job.job)
    script = (
        b"cd %b 2>/dev/null || exit 0\nrm -f look.py list each out.*\nrmdir none\ncd / && rmdir -- %b\n"
        % (folder, folder)
    )  # fmt: skip
    raise_bad_status(remote.run(script, step=step), step)


_WAY = b"""if command -v python3 >/dev/null 2>&1 &&
  python3 -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null; then echo python
elif command -v sha256sum >/dev/null 2>&1 && tar --help 2>&1 | grep -q -e --to-command; then echo tar
else echo none; fi
"""

_GENTLY = b"gently=; command -v nice >/dev/null 2>&1 && gently='nice -n 10'\n"

_PYTHON = (
    _GENTLY
    + b"""cd %(root)b || exit 66
umask 077
d=%(folder)b
exec $gently python3 -I -S -B "$d/look.py" "$d/list" "$d" "$d/job/progress"
"""
)

# The archive's name never reaches tar: it reads a stream. Its exit status is that of the last command of the pipe.
_TAR = (
    _GENTLY
    + b"""cd %(root)b || exit 66
umask 077
d=%(folder)b
EACH=$d/each
export EACH OUT
tell() { echo "$1" >"$d/job/progress.new" && mv -f "$d/job/progress.new" "$d/job/progress"; }
say() { printf 'e 0 - %%s %%s\\n%%s%%s' "${#1}" "${#2}" "$1" "$2" >>"$OUT"; }
identity() { TZ=UTC QUOTING_STYLE=literal stat -c %(stat)b "$1" 2>/dev/null; }
unpack() {
  case $(head -c 6 "$1" | od -An -tx1 | tr -d ' \\n') in
    1f8b*) gzip -dc <"$1" ;;
    28b52ffd*|5?2a4d18*) zstd -dcq --memory=128MB <"$1" ;;
    *) cat <"$1" ;;
  esac
}
one() {
  tell "$1"
  OUT=$d/out.$1.new
  : >"$OUT"
  if [ ! -f "$3" ] || [ -L "$3" ] || [ ! -r "$3" ]; then say unreadable ""
  else
    before=$(identity "$3")
    unpack "$3" 2>/dev/null | head -c "$2" |
      (ulimit -f %(blocks)d; cd "$d/none" && exec $gently tar -x -f - --to-command='exec /bin/sh "$EACH"') 2>/dev/null
    [ $? -eq 0 ] && word= || word=damaged
    [ "$before" = "$(identity "$3")" ] || word=changed
    say "$word" "$before"
  fi
  mv -f "$OUT" "$d/out.$1"
}
"""
)

_EACH = b"""LC_ALL=C; export LC_ALL
sum=$(sha256sum) || exit
printf 'f %s %s %s 0\\n%s' "${TAR_SIZE:-0}" "${sum%% *}" "${#TAR_FILENAME}" "$TAR_FILENAME" >>"$OUT"
"""
