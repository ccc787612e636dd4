"""What an examination of a link found. Seconds, and bytes a second; None means “could not be found out”."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OneConnection:
    """One connection that brought bytes for a while."""

    seconds: float
    received_bytes: int
    bytes_per_second: float
    sent_segments: int = 0  # by the host, in that time
    sent_again_segments: int = 0
    loss: float | None = None  # share of what the host sent that it sent again; an upper bound of what was lost
    algorithm: str = ""
    window_segments: int | None = None
    segment_bytes: int = 1448
    cipher: str = ""
    out_of_order: float | None = None  # share of the segments that came here, as our kernel counted them
    host_seconds_a_byte: float | None = None  # processor time of its sshd
    own_seconds_a_byte: float | None = None  # processor time here, cipher and reading together


@dataclass(frozen=True, slots=True)
class OwnConnections:
    """All connections of ours that the host's kernel showed at one moment, lanes of a running fetch among them."""

    count: int
    loss: float | None
    sent_segments: int
    median_window_segments: float
    median_round_trip_seconds: float
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """One examination."""

    round_trip_seconds: float
    least_round_trip_seconds: float
    one: OneConnection | None
    ours: OwnConnections | None
    has_ss: bool
    algorithm: str = ""  # what new connections of the host get
    algorithms_there: tuple[str, ...] = ()
    send_window_bytes: int | None = None  # the most that one connection of the host may have on its way
    clock_offset_seconds: float | None = None
    host_read_bytes_per_second: float | None = None
    host_write_bytes_per_second: float | None = None
    own_read_bytes_per_second: float | None = None
    own_write_bytes_per_second: float | None = None
    max_startups: str = ""
    max_sessions: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON column."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Facts:
        """Read `as_json` back. Raises TypeError for another version's."""
        values = dict(stored)
        values["one"] = OneConnection(**values["one"]) if values.get("one") else None
        ours = values.get("ours")
        values["ours"] = OwnConnections(**{**ours, "algorithms": tuple(ours["algorithms"])}) if ours else None
        values["algorithms_there"] = tuple(values.get("algorithms_there", ()))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class LinkHistory:
    """What the link brought before: the best level of lanes of the last days, and what sshd turned away."""

    best_bytes_per_second: float | None = None
    best_lanes: int | None = None
    measured_seconds: float = 0.0
    refusals: int = 0
    is_fetching: bool = False
