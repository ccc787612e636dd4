"""From what was found to sentences: a pure function, each sentence with its figures and how they were come by.

One connection under loss is estimated by Mathis, Semke, Mahdavi and Ott (1997): rate = (MSS / RTT) * 1.22 / sqrt(loss),
which holds for senders that take loss for congestion (reno; cubic at such rates behaves alike).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from math import ceil, sqrt
from typing import Any

from transfers.doctor.facts import Facts, LinkHistory

MATHIS = 1.22
LOSS_THAT_HOLDS = 0.0005  # below, windows and processors decide sooner
SEGMENTS_TO_JUDGE = 200  # fewer say nothing about a loss of a percent
BBR_SHARE = 0.85  # of the link, that bbr gives one connection under a few percent of loss
BBR_LOSS_AT_MOST = 0.15
CLOCK_SECONDS = 2.0
FAR_SECONDS = 0.02  # nearer, no window and no loss of a percent holds a connection back much
NO_LOSS_SENDERS = ("bbr", "bbr2", "bbr3")


@dataclass(frozen=True, slots=True)
class Advice:
    """One sentence. `kind` is "figure" (how it is), "advice" (what would help) or "warning" (what is wrong)."""

    kind: str
    subject: str
    sentence: str
    figures: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def megabits(bytes_per_second: float) -> str:
    """“0.7 Mbit/s”."""
    value = bytes_per_second * 8 / 1e6
    return f"{value:.0f} Mbit/s" if value >= 100 else f"{value:.1f} Mbit/s" if value >= 0.1 else f"{value:.3f} Mbit/s"


def loss_bound(round_trip_seconds: float, loss: float, segment_bytes: int) -> float:
    """Bytes a second that one loss-shy connection reaches by the estimate of Mathis et al.; both must be above 0."""
    return segment_bytes / round_trip_seconds * MATHIS / sqrt(loss)


def link_loss(facts: Facts) -> tuple[float, int] | None:
    """The loss and the segments it was counted over: of all our connections if they sent more, else of the one."""
    seen = [
        (one.loss, one.sent_segments) for one in (facts.one, facts.ours) if one is not None and one.loss is not None
    ]
    counted = [(loss, count) for loss, count in seen if loss is not None and count >= SEGMENTS_TO_JUDGE]
    return max(counted, key=lambda pair: pair[1], default=None)


def advise(facts: Facts, history: LinkHistory) -> list[Advice]:
    """Everything that can be said, what holds the link back first."""
    found = [
        *_path(facts),
        *_one_connection(facts, history),
        *_link(facts, history),
        *_bbr(facts, history),
        *_processors(facts, history),
        *_disks(facts, history),
        *_limits(facts, history),
        *_clock(facts),
    ]
    order = {"warning": 0, "advice": 1, "figure": 2}
    return sorted(found, key=lambda one: order[one.kind])


def _path(facts: Facts) -> Iterator[Advice]:
    loss = link_loss(facts)
    trips = (facts.round_trip_seconds * 1000, facts.least_round_trip_seconds * 1000)
    words = f"An answer takes {trips[0]:.0f} ms (the shortest {trips[1]:.0f})"
    if loss is not None:
        words += f"; of {loss[1]:,} segments that the host sent, {loss[0]:.2%} were sent again: at most that was lost"
    elif not facts.has_ss:
        words += "; the host has no ss, so what it sent again could not be counted"
        if facts.one is not None and facts.one.out_of_order is not None:
            words += f"; here {facts.one.out_of_order:.2%} of the segments came out of order, which hints at loss"
    else:
        words += "; too few segments were sent to say what share was lost"
    figures = {
        "round_trip_seconds": facts.round_trip_seconds,
        "loss": loss[0] if loss else None,
        "segments": loss[1] if loss else 0,
    }
    yield Advice("figure", "path", f"{words}.", figures)


def _one_connection(facts: Facts, history: LinkHistory) -> Iterator[Advice]:
    one = facts.one
    if one is None:
        return
    rate, loss = one.bytes_per_second, link_loss(facts)
    figures: dict[str, Any] = {"measured_bytes_per_second": rate, "seconds": one.seconds}
    words = f"One connection brought {megabits(rate)} in {one.seconds:.0f} s"
    sender = one.algorithm or facts.algorithm
    if (
        loss is not None
        and loss[0] >= LOSS_THAT_HOLDS
        and sender not in NO_LOSS_SENDERS
        and facts.round_trip_seconds > 0
    ):
        bound = loss_bound(facts.round_trip_seconds, loss[0], one.segment_bytes)
        figures |= {"loss_bound_bytes_per_second": bound, "loss": loss[0]}
        words += (
            f": {loss[0]:.1%} loss over {facts.round_trip_seconds * 1000:.0f} ms holds {sender or 'such a sender'} "
            f"to about {megabits(bound)} (estimated by Mathis: 1.22 * MSS / RTT / sqrt(loss))"
        )
    elif facts.send_window_bytes and facts.round_trip_seconds > FAR_SECONDS:
        bound = facts.send_window_bytes / facts.round_trip_seconds
        figures["window_bound_bytes_per_second"] = bound
        words += (
            f"; the host's largest send window, {facts.send_window_bytes:,} bytes, would hold it to {megabits(bound)}"
        )
    if history.is_fetching:
        words += "; a fetch was running beside it and had its share"
    yield Advice("figure", "one connection", f"{words}.", figures)


def _link(facts: Facts, history: LinkHistory) -> Iterator[Advice]:
    best, lanes = history.best_bytes_per_second, history.best_lanes
    if best is None or lanes is None:
        yield Advice(
            "advice",
            "link",
            "What the link can do in all is not known yet: nothing was fetched over it in the last days. Fetch "
            "something with lanes on auto, or begin a trial.",
        )
        return
    one = facts.one.bytes_per_second if facts.one is not None else 0.0
    minutes = history.measured_seconds / 60
    words = f"{lanes} lanes brought {megabits(best)} (measured over {minutes:.0f} min of the last days)"
    figures: dict[str, Any] = {"best_bytes_per_second": best, "lanes": lanes}
    if one > 0 and not history.is_fetching:
        needed = ceil(best / one)
        figures["lanes_by_division"] = needed
        words += f"; one connection alone brings {best / one:.1f} times less"
        if needed > 1:
            words += f", so that about {needed} of them fill what was measured (the one divided by the other)"
    yield Advice("figure", "link", f"{words}.", figures)


def _bbr(facts: Facts, history: LinkHistory) -> Iterator[Advice]:
    loss = link_loss(facts)
    sender = (facts.one.algorithm if facts.one is not None else "") or facts.algorithm
    if loss is None or not sender or sender in NO_LOSS_SENDERS:
        return
    if not LOSS_THAT_HOLDS <= loss[0] <= BBR_LOSS_AT_MOST or facts.round_trip_seconds < FAR_SECONDS:
        return
    figures: dict[str, Any] = {"algorithm": sender, "loss": loss[0], "available": "bbr" in facts.algorithms_there}
    words = f"The host's kernel sends with {sender}, which takes each loss for congestion"
    if history.best_bytes_per_second is not None:
        reached = history.best_bytes_per_second * BBR_SHARE
        figures["bbr_bytes_per_second"] = reached
        words += (
            f"; with bbr on the host one connection would reach about {megabits(reached)} (estimated: {BBR_SHARE:.0%} "
            "of what the link brought, since bbr does not slow down for a loss of a few percent)"
        )
    how = (
        "set net.ipv4.tcp_congestion_control=bbr there"
        if figures["available"]
        else "load the module tcp_bbr there first"
    )
    yield Advice("advice", "congestion control", f"{words}. Its administrator may {how}; lanes do without.", figures)


def _processors(facts: Facts, history: LinkHistory) -> Iterator[Advice]:
    one = facts.one
    if one is None:
        return
    for where, cost in (("the host's sshd", one.host_seconds_a_byte), ("this machine", one.own_seconds_a_byte)):
        if not cost:
            continue
        bound = 1 / cost
        figures = {"seconds_a_gibibyte": cost * 2**30, "bound_bytes_per_second": bound, "cipher": one.cipher}
        words = (
            f"A gibibyte costs {where} {cost * 2**30:.1f} s of processor time ({one.cipher or 'cipher unknown'} and "
            f"all else): one core carries {megabits(bound)}"
        )
        best = max(history.best_bytes_per_second or 0.0, one.bytes_per_second)
        if best > bound * 0.7:
            words += ", which is near what the link brings: more lanes use more cores there"
            if "gcm" not in one.cipher:
                words += ", and AES-GCM costs less where the server offers it"
            yield Advice("warning", "cipher", f"{words}.", figures)
        else:
            yield Advice("figure", "cipher", f"{words}.", figures)


def _disks(facts: Facts, history: LinkHistory) -> Iterator[Advice]:
    rates = (
        ("the host reads", facts.host_read_bytes_per_second),
        ("the host's staging writes", facts.host_write_bytes_per_second),
        ("this machine reads", facts.own_read_bytes_per_second),
        ("this machine writes", facts.own_write_bytes_per_second),
    )
    known = [(what, rate) for what, rate in rates if rate is not None]
    if not known:
        return
    slowest = min(known, key=lambda pair: pair[1])
    words = ", ".join(f"{what} {rate / 1e6:,.0f} MB/s" for what, rate in known)
    figures = dict(known)
    if history.best_bytes_per_second and slowest[1] < 1.5 * history.best_bytes_per_second:
        sentence = f"Disks: {words}; {slowest[0]} hardly faster than the link brings, so the disk holds it back."
        yield Advice("warning", "disks", sentence, figures)
    else:
        yield Advice("figure", "disks", f"Disks: {words} (short runs; a cache may flatter reading).", figures)


def _limits(facts: Facts, history: LinkHistory) -> Iterator[Advice]:
    told = ", ".join(
        f"{name} {value}"
        for name, value in (("MaxStartups", facts.max_startups), ("MaxSessions", facts.max_sessions))
        if value
    )
    figures = {"refusals": history.refusals, "max_startups": facts.max_startups}
    if history.refusals:
        words = f"sshd turned {history.refusals:,} connections away while lanes were dialled"
        words += f" (its settings: {told})" if told else ""
        sentence = f"{words[0].upper()}{words[1:]}: a higher MaxStartups on the host would let lanes begin sooner."
        yield Advice("warning", "limits of sshd", sentence, figures)
    elif told:
        yield Advice("figure", "limits of sshd", f"sshd's limits, of which none was met: {told}.", figures)


def _clock(facts: Facts) -> Iterator[Advice]:
    offset = facts.clock_offset_seconds
    if offset is not None and abs(offset) > CLOCK_SECONDS:
        way = "ahead of" if offset > 0 else "behind"
        sentence = f"The host's clock is {abs(offset):.1f} s {way} ours; times of files are shown by its clock."
        yield Advice("warning", "clock", sentence, {"clock_offset_seconds": offset})
    elif offset is not None:
        sentence = f"The host's clock is within {max(0.1, abs(offset)):.1f} s of ours."
        yield Advice("figure", "clock", sentence, {"clock_offset_seconds": offset})
