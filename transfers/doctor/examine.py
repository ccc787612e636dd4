"""Examining a link: one connection that brings zeros for some seconds, and the host's kernel asked meanwhile.

What is read or written: /proc and `ss` on the host, the beginning of one file of the team's choice, 32 MiB in staging
that are removed at once, and an unnamed file of the same size in the landing here.
"""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inventory.remote.base import CommandFailed, Remote, ShellStream, TransientError
from inventory.remote.channels import SshShellStream
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote
from inventory.remote.wire import HostSocket, read_ss
from transfers.doctor.facts import Facts, OneConnection, OwnConnections
from transfers.engine.types import MEBIBYTE, Clock
from transfers.engine.verify import Stopped

ECHOES = 7
RAMP_SECONDS = 2.0
DISK_BYTES = 32 * MEBIBYTE
ZEROS_AT_MOST = 64 * 1024  # blocks of 64 KiB: 4 GiB, more than any link brings in the time
STEP_SECONDS = 120.0
_SHARES = 8


@dataclass(frozen=True, slots=True)
class Places:
    """Where disks may be measured; None: not at all."""

    staging: RemoteName | None = None
    file: RemoteName | None = None
    landing: Path | None = None


def examine(
    remote: Remote,
    clock: Clock,
    places: Places,
    *,
    processor_seconds: Callable[[], float],
    wall_seconds: Callable[[], float],
    seconds: float = 10.0,
    stop: Callable[[], bool] = lambda: False,
) -> Facts:
    """Examine the link for about `seconds` and what disks take. Raises RemoteError, Stopped.

    `processor_seconds` says what this process has used so far, `wall_seconds` the time since 1970.
    """
    stream = remote.open_shell()
    try:
        lines = _Lines(stream)
        trips = [_echo(lines, clock) for _ in range(ECHOES)]
        offset = _clock_offset(lines, clock, wall_seconds)
        peer, own_port, port, parent = _ends(lines)
        look = _HostLook(remote, peer, port, parent)
        first = look.take(own_port)
        one = _bring(stream, look, own_port, clock, processor_seconds, seconds, stop)
    finally:
        stream.close()
    ours = look.ours()
    general = _general(remote)
    facts = Facts(
        round_trip_seconds=statistics.median(trips),
        least_round_trip_seconds=min(trips),
        one=one,
        ours=ours,
        has_ss=first is not None,
        clock_offset_seconds=offset,
        **general,
    )
    return _with_disks(facts, remote, places, clock, stop)


class _Lines:
    """Asks a lane's shell for single lines."""

    def __init__(self, stream: ShellStream) -> None:
        self._stream, self._rest = stream, b""

    def ask(self, script: bytes) -> bytes:
        """One line that the script prints. Raises RemoteError."""
        self._stream.send(script)
        while b"\n" not in self._rest:
            self._rest += self._stream.receive(65536, timeout_seconds=60.0)
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _echo(lines: _Lines, clock: Clock) -> float:
    begun = clock.monotonic()
    lines.ask(b"echo\n")
    return clock.monotonic() - begun


def _clock_offset(lines: _Lines, clock: Clock, wall_seconds: Callable[[], float]) -> float | None:
    begun, at = clock.monotonic(), wall_seconds()
    said = lines.ask(b"date +%s.%N || echo\n").decode("ascii", "replace")
    half = (clock.monotonic() - begun) / 2
    whole, _, fraction = said.partition(".")
    if not whole.isdigit():
        return None
    told = float(f"{whole}.{fraction}") if fraction.isdigit() else float(whole) + 0.5
    return told - (at + half)


def _ends(lines: _Lines) -> tuple[str, int, int, int]:
    """Our address and port as the host sees them, its port, and its sshd's process."""
    fields = lines.ask(b'echo "${SSH_CONNECTION:-- 0 - 0} $PPID"\n').split()
    if len(fields) != 5 or not all(field.isdigit() for field in (fields[1], fields[3], fields[4])):
        return "", 0, 0, 0
    return fields[0].decode("ascii", "replace"), int(fields[1]), int(fields[3]), int(fields[4])


@dataclass(frozen=True, slots=True)
class _Moment:
    """The host's kernel at one moment."""

    sockets: tuple[HostSocket, ...]
    processor_seconds: float | None


class _HostLook:
    """Asks the host's kernel by the command connection."""

    def __init__(self, remote: Remote, peer: str, port: int, parent: int) -> None:
        self._remote, self._peer, self._port = remote, peer.removeprefix("::ffff:"), port
        self._script = (
            b"command -v ss >/dev/null 2>&1 && ss -tin 2>/dev/null\necho ' END'\n"
            b"getconf CLK_TCK 2>/dev/null || echo 100\ncat /proc/%d/stat 2>/dev/null\n:\n" % parent
        )
        self.last: _Moment | None = None
        self.first: _Moment | None = None

    def take(self, own_port: int) -> HostSocket | None:
        """Look now; the socket whose port here is `own_port`, where `ss` shows it. Raises RemoteError."""
        output = self._remote.check(self._script, step="look at the host's connections", timeout_seconds=STEP_SECONDS)
        shown, _, rest = output.decode("utf-8", "replace").partition(" END\n")
        here = (one for one in read_ss(shown) if one.local_port == self._port and one.peer == self._peer)
        self.last = _Moment(tuple(here), _processor_seconds(rest.splitlines()))
        self.first = self.first or self.last
        return next((one for one in self.last.sockets if one.peer_port == own_port), None)

    def ours(self) -> OwnConnections | None:
        """All our connections together, counted between the first look and the last."""
        if self.first is None or self.last is None or not self.last.sockets:
            return None
        before = {one.peer_port: one for one in self.first.sockets}
        pairs = [(before[one.peer_port], one) for one in self.last.sockets if one.peer_port in before]
        sent = sum(now.sent_segments - then.sent_segments for then, now in pairs)
        again = sum(now.sent_again_segments - then.sent_again_segments for then, now in pairs)
        return OwnConnections(
            count=len(self.last.sockets),
            loss=again / sent if sent > 0 else None,
            sent_segments=sent,
            median_window_segments=statistics.median(one.window_segments for one in self.last.sockets),
            median_round_trip_seconds=statistics.median(one.round_trip_seconds for one in self.last.sockets),
            algorithms=tuple(sorted({one.algorithm for one in self.last.sockets})),
        )


def _processor_seconds(lines: Sequence[str]) -> float | None:
    """Of `/proc/PID/stat`: user and system time in ticks, behind the name in brackets."""
    if len(lines) < 2 or not lines[0].strip().isdigit():
        return None
    fields = lines[1].rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / int(lines[0]) if len(fields) > 12 else None


def _bring(
    stream: ShellStream,
    look: _HostLook,
    own_port: int,
    clock: Clock,
    processor_seconds: Callable[[], float],
    seconds: float,
    stop: Callable[[], bool],
) -> OneConnection:
    """Let one connection bring zeros; the first seconds, in which it only finds its pace, are not counted."""
    counter = _Counter(stream)
    stream.send(b"dd if=/dev/zero bs=65536 count=%d 2>/dev/null\n" % ZEROS_AT_MOST)
    counter.start()
    _wait(clock, RAMP_SECONDS, stop)
    before, host_before = look.take(own_port), look.last
    begun, bytes_before, own_before = clock.monotonic(), counter.received, processor_seconds()
    _wait(clock, seconds, stop)
    received, spent, own = counter.received - bytes_before, clock.monotonic() - begun, processor_seconds() - own_before
    after, host_after = look.take(own_port), look.last
    lasted = clock.monotonic() - begun
    counted = counter.received - bytes_before
    if counter.error is not None and not received:
        raise counter.error
    wire = stream.wire() if isinstance(stream, SshShellStream) else None
    one = OneConnection(spent, received, received / spent)
    if wire is not None:
        share = wire.out_of_order_segments / wire.received_segments if wire.received_segments else None
        one = replace(one, cipher=wire.cipher, out_of_order=share)
    if received > MEBIBYTE:
        one = replace(one, own_seconds_a_byte=own / received)
    times = [one.processor_seconds if one is not None else None for one in (host_before, host_after)]
    if times[0] is not None and times[1] is not None and counted > _SHARES * MEBIBYTE and lasted > 0:
        one = replace(one, host_seconds_a_byte=(times[1] - times[0]) / counted)
    if before is None or after is None:
        return one
    sent = after.sent_segments - before.sent_segments
    again = after.sent_again_segments - before.sent_again_segments
    return replace(
        one,
        sent_segments=sent,
        sent_again_segments=again,
        loss=again / sent if sent > 0 else None,
        algorithm=after.algorithm,
        window_segments=after.window_segments,
        segment_bytes=after.segment_bytes or one.segment_bytes,
    )


class _Counter(threading.Thread):
    """Takes what a stream brings and counts it, until the stream ends."""

    def __init__(self, stream: ShellStream) -> None:
        super().__init__(name="link-doctor", daemon=True)
        self._stream, self.received = stream, 0
        self.error: TransientError | None = None

    def run(self) -> None:
        try:
            while True:
                self.received += len(self._stream.receive(MEBIBYTE, timeout_seconds=30.0))
        except TransientError as error:  # the end: the stream was closed, or lost before its time
            self.error = error


def _wait(clock: Clock, seconds: float, stop: Callable[[], bool]) -> None:
    until = clock.monotonic() + seconds
    while (left := until - clock.monotonic()) > 0:
        if stop():
            raise Stopped
        clock.sleep(min(0.25, left))


_GENERAL = rb"""
for n in tcp_congestion_control tcp_available_congestion_control tcp_wmem
do echo "$n $(cat /proc/sys/net/ipv4/$n 2>/dev/null)"; done
for f in /etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf
do [ -r "$f" ] && sed -n 's/^[ \t]*\([Mm]ax[Ss][a-z]*\)[ \t=]*/\1 /p' "$f"; done 2>/dev/null
:
"""


def _general(remote: Remote) -> dict[str, Any]:
    output = remote.check(_GENERAL, step="ask for the host's network settings", timeout_seconds=STEP_SECONDS)
    said: dict[str, str] = {}
    for line in output.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(" ")
        said.setdefault(name.lower(), value.strip())
    window = said.get("tcp_wmem", "").split()
    return {
        "algorithm": said.get("tcp_congestion_control", ""),
        "algorithms_there": tuple(said.get("tcp_available_congestion_control", "").split()),
        "send_window_bytes": int(window[2]) if len(window) == 3 and window[2].isdigit() else None,
        "max_startups": said.get("maxstartups", ""),
        "max_sessions": said.get("maxsessions", ""),
    }


def _with_disks(facts: Facts, remote: Remote, places: Places, clock: Clock, stop: Callable[[], bool]) -> Facts:
    blocks, name = DISK_BYTES // MEBIBYTE, b"link-doctor.%d" % os.getpid()
    if places.file is not None:
        read = b"dd if=%b of=/dev/null bs=1048576 count=%d" % (quote(places.file.raw), blocks)
        script = b"{ %b iflag=direct || %b; } 2>/dev/null\n" % (read, read)
        facts = replace(facts, host_read_bytes_per_second=_timed(remote, script, "read from the host's disk"))
    if places.staging is not None and not stop():
        target = quote(places.staging.join(name).raw)
        script = (
            b"trap 'rm -f -- %(t)b' EXIT\numask 077\n"
            b"dd if=/dev/zero of=%(t)b bs=1048576 count=%(n)d conv=fsync 2>/dev/null\n"
        ) % {b"t": target, b"n": blocks}
        facts = replace(facts, host_write_bytes_per_second=_timed(remote, script, "write to the host's disk"))
    if places.landing is not None and not stop():
        rates = own_disk(places.landing, clock)
        facts = replace(facts, own_read_bytes_per_second=rates[0], own_write_bytes_per_second=rates[1])
    return facts


def _timed(remote: Remote, script: bytes, step: str) -> float | None:
    """Bytes a second by the host's own clock; None where the script failed or the clock shows whole seconds only."""
    timed = b"A=$(date +%%s%%N)\n( %b ) || exit 1\nB=$(date +%%s%%N)\necho $A $B\n" % script
    try:
        fields = remote.check(timed, step=step, timeout_seconds=STEP_SECONDS).split()
    except CommandFailed:
        return None
    if len(fields) != 2 or not all(field.isdigit() and len(field) >= 18 for field in fields):
        return None
    nanoseconds = int(fields[1]) - int(fields[0])
    return DISK_BYTES * 1e9 / nanoseconds if nanoseconds > 0 else None


def own_disk(folder: Path, clock: Clock) -> tuple[float | None, float | None]:
    """Bytes a second read from and written to the disk of a folder here; None where it takes no unnamed file."""
    data = os.urandom(MEBIBYTE)
    with suppress(OSError):
        file = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            begun = clock.monotonic()
            for at in range(0, DISK_BYTES, MEBIBYTE):
                os.pwrite(file, data, at)
            os.fdatasync(file)
            written = clock.monotonic() - begun
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            begun = clock.monotonic()
            for at in range(0, DISK_BYTES, MEBIBYTE):
                os.pread(file, MEBIBYTE, at)
            return DISK_BYTES / max(1e-9, clock.monotonic() - begun), DISK_BYTES / max(1e-9, written)
        finally:
            os.close(file)
    return None, None
