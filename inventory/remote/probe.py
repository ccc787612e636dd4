"""What a host has, asked once in one round trip, and what can be done there because of it."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from inventory.remote.base import CommandFailed, Remote, SftpUnusable, ShellUnusable
from inventory.remote.names import RemoteName
from inventory.remote.sftp import Attributes, SftpClient
from inventory.remote.shell import quote

_PROBE_SECONDS = 60.0
CLOCK_OFF_SECONDS = 5.0  # more is a warning


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """A host's means. Empty text means “not there”; None means “could not be found out”."""

    system: str  # uname -sr
    machine: str
    shell: str  # what /bin/sh is
    find: str  # first line of the version of each program
    tar: str
    stat: str
    dd: str
    sha256sum: str
    xargs: str
    zstd: str
    python3: str
    has_find_printf: bool
    has_tar_list: bool  # --null --no-recursion --verbatim-files-from --files-from
    has_dd_bytes: bool  # iflag=skip_bytes,count_bytes
    has_sha256: bool
    has_sha256_z: bool
    has_xargs_0: bool
    has_stat_format: bool
    has_zstd: bool
    has_python3: bool
    has_setsid: bool
    has_nohup: bool
    cores: int | None
    home: str  # escaped, as RemoteName shows it
    staging_parent: str  # the nearest folder of the staging path that is there, escaped
    staging_writable: bool
    free_bytes: int | None  # at that folder
    clock_offset_seconds: float | None  # the host's clock minus ours, half the round trip taken off
    congestion_control: str
    max_startups: str
    max_sessions: str
    login_noise: bool  # the login shell prints for commands
    has_shell: bool = True
    shell_refusal: str = ""  # why there is none
    has_sftp: bool | None = None  # asked only where there is no shell

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON column."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> ProbeReport:
        """Read `as_json` back. Raises TypeError when fields are missing (probed by an older version)."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})

    @property
    def clock_warning(self) -> str:
        """A sentence when the host's clock is further off than people expect of a clock; else empty."""
        offset = self.clock_offset_seconds or 0.0
        if abs(offset) <= CLOCK_OFF_SECONDS:
            return ""
        return (
            f"The host's clock is {abs(offset):.0f} seconds {'ahead of' if offset > 0 else 'behind'} ours: times of "
            "files are shown by its clock."
        )

    def missing_steps(self) -> tuple[str, ...]:
        """What can't be done on this host, or only in a slower way: one sentence each, worst first."""
        return tuple(sentence for is_missing, sentence in self._sentences() if is_missing)

    def _sentences(self) -> tuple[tuple[bool, str], ...]:
        if not self.has_shell:
            return tuple((True, sentence) for sentence in (_NO_SHELL % self.shell_refusal, *_WITHOUT_SHELL))
        return (
            (not self.has_stat_format, "No usable stat: nothing can be scanned or packed here. Install coreutils."),
            (not self.has_sha256, "No sha256sum: digests can't be taken at the source. Install coreutils or BusyBox."),
            (not self.tar, "No tar: archives can't be made here; existing files can be fetched."),
            (
                bool(self.tar) and not self.has_tar_list,
                "This tar does not take exact lists of names: archives can't be made here. Install GNU tar, or fetch "
                "files as they are.",
            ),
            (not self.staging_writable, f"{self.staging_parent} can't be written: choose another staging path."),
            (not self.has_zstd, "No zstd: archives are made as plain .tar and take longer to fetch."),
            (not self.has_find_printf, "This find has no -printf: scans ask stat instead and take longer."),
            (not self.has_dd_bytes, "This dd has no byte offsets: ranges are read in whole blocks."),
            (
                not self.has_setsid,
                "No setsid: long work runs in the background and is stopped process by process.",
            ),
            (bool(self.clock_warning), self.clock_warning),
            (self.login_noise, "The login shell prints text for commands; it is left out, but SFTP may fail there."),
        )


_NO_SHELL = "No shell answers here (%s): this account has SFTP only."
_WITHOUT_SHELL = (
    "Packs can't be made or fetched: what is verified here is compared with digests taken at the source, and that "
    "takes a shell. Give the account /bin/sh without a forced command.",
    "Digests at the source, environment snapshots and any other work on the host can't be done.",
    "Scans go over SFTP. It tells neither inode, links, stored bytes nor when an inode was last written, and times in "
    "whole seconds: an edit that keeps size and time can't be noticed, nor files with several names or holes.",
)


def probe(remote: Remote, staging: RemoteName | None = None) -> ProbeReport:
    """Ask a host what it has; writes nothing there. Raises ShellUnusable, CommandFailed, TransientError.

    Free space is that of the nearest existing folder of `staging` (of the home folder when none is given). A host
    that gives no shell is asked over SFTP what it can tell; ShellUnusable means that neither answers.
    """
    try:
        return _probe_by_shell(remote, staging)
    except ShellUnusable as refusal:
        try:
            return _probe_by_sftp(remote, staging, refusal.reason)
        except SftpUnusable as error:
            raise ShellUnusable(f"{refusal.reason}; nor does SFTP answer: {error.reason}") from error


def _probe_by_sftp(remote: Remote, staging: RemoteName | None, refusal: str) -> ProbeReport:
    with closing(remote.open_sftp(timeout_seconds=_PROBE_SECONDS)) as stream:
        client = SftpClient(stream, timeout_seconds=_PROBE_SECONDS)
        home = RemoteName(client.real_path(b".") or b"")
        place = _nearest(client, home if staging is None else staging)
        free = client.free_bytes(place.raw)
    report = _report({}, None, login_noise=False)
    return replace(
        report,
        home=str(home),
        staging_parent=str(place),
        free_bytes=free,
        has_shell=False,
        shell_refusal=refusal,
        has_sftp=True,
    )


def _nearest(client: SftpClient, path: RemoteName) -> RemoteName:
    """The path itself or the next folder above it that is there."""
    while path.raw.strip(b"/"):
        if isinstance(client.look(path.raw), Attributes):
            return path
        path = RemoteName(path.raw.rpartition(b"/")[0])
    return RemoteName(b"/")


def _probe_by_shell(remote: Remote, staging: RemoteName | None) -> ProbeReport:
    """In one round trip."""
    step = "see what the host has"
    place = b'"$HOME"' if staging is None else quote(staging.raw)
    begun, wall = time.monotonic(), _wall_seconds()
    completed = remote.run(b"place=%b\n" % place + _SCRIPT, step=step, timeout_seconds=_PROBE_SECONDS)
    waited = time.monotonic() - begun
    answers = _read(completed.output)
    if b"end" not in answers:
        raise CommandFailed(step, completed.status, completed.errors[-2000:].decode("utf-8", "backslashreplace"))
    offset = _clock_offset(answers, wall, waited)
    return _report(answers, offset, login_noise=completed.greeting_bytes > 0)


def _wall_seconds() -> float:
    """Our own clock, seconds since 1970."""
    return datetime.now(tz=UTC).timestamp()


def _read(output: bytes) -> dict[bytes, bytes]:
    """The script's answers: NAME NUL VALUE NUL, over and over. The first of a name counts."""
    parts = output.split(b"\0")
    answers: dict[bytes, bytes] = {}
    for name, value in zip(parts[0:-1:2], parts[1::2], strict=False):
        answers.setdefault(name, value)
    return answers


def _clock_offset(answers: dict[bytes, bytes], wall: float, waited_seconds: float) -> float | None:
    """The host looks at its clock first and last; what the call took beyond that was spent on the way."""
    first, last = _seconds(answers.get(b"clock", b"")), _seconds(answers.get(b"end", b""))
    if first is None or last is None:
        return None
    travelled = max(0.0, waited_seconds - (last - first))
    return round(first - (wall + travelled / 2), 3)


def _seconds(shown: bytes) -> float | None:
    """`date +%s.%N`; where %N is not known, the middle of the second."""
    whole, _, fraction = shown.strip().partition(b".")
    if not whole.isdigit():
        return None
    return int(whole) + (float(b"0." + fraction) if fraction.isdigit() else 0.5)


def _report(answers: dict[bytes, bytes], offset: float | None, *, login_noise: bool) -> ProbeReport:
    def text(what: bytes) -> str:
        return answers.get(what, b"").strip().decode("utf-8", "backslashreplace")

    def path(what: bytes) -> str:
        return str(RemoteName(answers.get(what, b"")))

    def number(what: bytes) -> int | None:
        shown = answers.get(what, b"").strip()
        return int(shown) if shown.isdigit() and len(shown) < 20 else None

    def is_so(what: bytes) -> bool:
        return answers.get(what) == b"yes"

    return ProbeReport(
        system=text(b"system"),
        machine=text(b"machine"),
        shell=text(b"shell"),
        find=text(b"find"),
        tar=text(b"tar"),
        stat=text(b"stat"),
        dd=text(b"dd"),
        sha256sum=text(b"sha256sum"),
        xargs=text(b"xargs"),
        zstd=text(b"zstd"),
        python3=text(b"python3"),
        has_find_printf=is_so(b"find_printf"),
        has_tar_list=is_so(b"tar_list"),
        has_dd_bytes=is_so(b"dd_bytes"),
        has_sha256=is_so(b"sha256"),
        has_sha256_z=is_so(b"sha256_z"),
        has_xargs_0=is_so(b"xargs_0"),
        has_stat_format=is_so(b"stat_format"),
        has_zstd=is_so(b"zstd_works"),
        has_python3=is_so(b"python3_works"),
        has_setsid=is_so(b"setsid"),
        has_nohup=is_so(b"nohup"),
        cores=number(b"cores"),
        home=path(b"home"),
        staging_parent=path(b"parent"),
        staging_writable=is_so(b"writable"),
        free_bytes=_product(answers.get(b"free", b"")),
        clock_offset_seconds=offset,
        congestion_control=text(b"congestion"),
        max_startups=text(b"maxstartups"),
        max_sessions=text(b"maxsessions"),
        login_noise=login_noise,
    )


def _product(shown: bytes) -> int | None:
    """“BLOCKS UNIT” as bytes."""
    words = shown.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    return int(words[0]) * int(words[1])


# Every means is tried out for what we need of it, not guessed from its name; nothing is written anywhere.
_SCRIPT = rb"""say() { printf '%s\0%s\0' "$1" "$2"; }
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then say "$what" yes; else say "$what" no; fi; }
there() { command -v "$1" >/dev/null 2>&1; }
clock() { date +%s.%N 2>/dev/null; }
say clock "$(clock)"
say system "$(uname -sr 2>/dev/null)"
say machine "$(uname -m 2>/dev/null)"
shell=$(readlink -f /bin/sh 2>/dev/null)
say shell "${shell:-/bin/sh}"
say home "$HOME"

# The line of a program's help or version that holds a number; its bare name when it tells none.
telling() {
  while IFS= read -r line; do
    case $line in *BusyBox*|*[0-9].[0-9]*) printf '%s' "$line"; return;; esac
  done
  printf '%s' "$1"
}
for program in find tar stat dd sha256sum xargs zstd python3; do
  if there "$program"; then say "$program" "$("$program" --version 2>&1 | telling "$program")"; fi
done

find_printf() {
  [ "$(find / -maxdepth 0 -noleaf -readable -executable -printf '%y%P%l %n' 2>/dev/null | cut -c1-2)" = 'd ' ]
}
tar_list() {
  printf 'dev/null\0' | tar -C / --null --no-recursion --verbatim-files-from --format=gnu --numeric-owner \
    -cf /dev/null --files-from=-
}
dd_bytes() { [ "$(printf abcde | dd bs=4 iflag=skip_bytes,count_bytes,fullblock skip=1 count=3 2>/dev/null)" = bcd ]; }
sha256() {
  digest=ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
  case $(printf abc | sha256sum) in $digest*) ;; *) return 1; esac
}
sha256_z() { [ "$(printf x | sha256sum -b -z | tr '\0' '\n' | wc -l)" -eq 1 ]; }
xargs_0() { [ "$(printf 'a b\0c\0' | xargs -0 -n 1 echo | wc -l)" -eq 2 ]; }
stat_format() {
  case $(TZ=UTC stat -c '%f %s %b %B %Y %Z %d %i %h|%y|%z' -- /) in
    4[0-9a-f][0-9a-f][0-9a-f]' '*'|'*:*:*'|'*:*:*) ;; *) return 1
  esac
}
zstd_works() { [ "$(printf abc | zstd -q -c | zstd -q -d -c)" = abc ]; }
python3_works() { [ "$(python3 -c 'import hashlib, os, sys; print(sys.version_info[0])')" = 3 ]; }
for means in find_printf tar_list dd_bytes sha256 sha256_z xargs_0 stat_format zstd_works python3_works; do
  try "$means" "$means"
done
for program in setsid nohup; do try "$program" there "$program"; done

say cores "$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null)"
while [ -n "$place" ] && [ ! -d "$place" ]; do
  case $place in
    */*) place=${place%/*} ;;
    *) place= ;;
  esac
done
place=${place:-/}
say parent "$place"
writable() { [ -w "$place" ] && [ -x "$place" ]; }
try writable writable
blocks_of_df() { while read -r _ _ _ blocks _; do printf '%s 1024\n' "$blocks"; done | tail -n 1; }
free=$(stat -f -c '%a %S' -- "$place" 2>/dev/null) || free=$(df -Pk -- "$place" 2>/dev/null | blocks_of_df)
say free "$free"

say congestion "$(cat /proc/sys/net/ipv4/tcp_congestion_control 2>/dev/null)"
for setting in maxstartups maxsessions; do
  # The first place where a setting stands is the one that counts; files that the account may not read tell nothing.
  say "$setting" "$(cat /etc/ssh/sshd_config.d/*.conf /etc/ssh/sshd_config 2>/dev/null | while read -r word value _; do
    case $word in
      [Mm]atch) break ;;
      [Mm][Aa][Xx][Ss]tartups) [ $setting = maxstartups ] && { printf '%s' "$value"; break; } ;;
      [Mm][Aa][Xx][Ss]essions) [ $setting = maxsessions ] && { printf '%s' "$value"; break; } ;;
    esac
  done)"
done
say end "$(clock)"
"""
