"""What the two kernels know of a TCP connection: `TCP_INFO` of a socket here, and `ss -tin` as it prints on a host."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_TCP_INFO_BYTES = 256  # kernels fill in what they know; the rest stays zero
_FIGURE = re.compile(r"(\w+):([\d.]+)(?:/([\d.]+))?")
_ADDRESSES = re.compile(r"(\S+):(\d+)\s+(\S+):(\d+)\s*$")
_KNOWN_ALGORITHMS = ("cubic", "bbr", "bbr2", "bbr3", "reno", "westwood", "htcp", "vegas", "hybla", "illinois", "dctcp")


@dataclass(frozen=True, slots=True)
class Wire:
    """A connection as this machine's kernel sees it. We mostly receive, so the host's own view says more."""

    cipher: str
    received_bytes: int
    received_segments: int
    out_of_order_segments: int  # hints at loss on the way to us; 0 where the kernel does not count them


@dataclass(frozen=True, slots=True)
class HostSocket:
    """A connection as the host's kernel sees it: what it sends to us. Times in seconds; 0 where `ss` says nothing."""

    local_port: int
    peer: str
    peer_port: int
    algorithm: str
    round_trip_seconds: float
    least_round_trip_seconds: float
    window_segments: int
    segment_bytes: int
    sent_bytes: int
    sent_again_bytes: int
    sent_segments: int
    sent_again_segments: int


def read_wire(connected: socket.socket, *, cipher: str) -> Wire | None:
    """None where the kernel does not tell (not Linux, or not TCP)."""
    try:
        raw = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return None
    raw = raw.ljust(_TCP_INFO_BYTES, b"\0")

    def word(offset: int) -> int:
        return int(struct.unpack_from("=I", raw, offset)[0])

    return Wire(
        cipher=cipher,
        received_bytes=int(struct.unpack_from("=Q", raw, 128)[0]),
        received_segments=word(152),
        out_of_order_segments=word(224),
    )


def read_ss(output: str) -> Iterator[HostSocket]:
    """The connections in what `ss -tin` printed; lines that are not understood are left out."""
    ends: tuple[int, str, int] | None = None
    for line in output.splitlines():
        if not line[:1].isspace():
            found = _ADDRESSES.search(line)
            ends = (int(found[2]), _address(found[3]), int(found[4])) if found else None
        elif ends is not None:
            yield _socket(ends, line)
            ends = None


def _address(text: str) -> str:
    """Without brackets, scope, or the form that IPv4 takes inside IPv6."""
    return text.strip("[]").partition("%")[0].removeprefix("::ffff:")


def _socket(ends: tuple[int, str, int], line: str) -> HostSocket:
    figures = {name: (float(first), float(second or 0)) for name, first, second in _FIGURE.findall(line)}

    def first(name: str) -> float:
        return figures.get(name, (0.0, 0.0))[0]

    words = line.split()
    again = figures.get("retrans", (0.0, 0.0))[1]
    return HostSocket(
        local_port=ends[0],
        peer=ends[1],
        peer_port=ends[2],
        algorithm=next((word for word in words if word in _KNOWN_ALGORITHMS), words[0] if words else ""),
        round_trip_seconds=first("rtt") / 1000,
        least_round_trip_seconds=first("minrtt") / 1000,
        window_segments=int(first("cwnd")),
        segment_bytes=int(first("mss")),
        sent_bytes=int(first("bytes_sent") or first("bytes_acked")),
        sent_again_bytes=int(first("bytes_retrans") or again * first("mss")),
        sent_segments=int(first("data_segs_out") or first("segs_out")),
        sent_again_segments=int(again),
    )
