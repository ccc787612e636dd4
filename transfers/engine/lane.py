"""A lane: one thread, one connection, one `/bin/sh`; ranges asked for ahead, received, written, marked.

A lane is lost and found again: whatever happens to its connection, complete cells are on the disk and marked, the rest
of its ranges goes back to the queue, and it dials again. When it is told to end, it does so within a second or two.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections import deque
from dataclasses import dataclass, field

from inventory.remote.base import (
    ConnectionRefused,
    DeadlinePassed,
    PermanentError,
    ShellStream,
    TransientError,
)
from transfers.engine.active import ActiveBuild
from transfers.engine.geometry import Piece
from transfers.engine.landing import LandingError
from transfers.engine.linkstate import LinkState
from transfers.engine.queue import LARGEST_RANGE_BYTES, Range
from transfers.engine.source import PieceFault, PieceReader, StreamConfused, opening_line, prelude, request
from transfers.engine.types import CELL_BYTES, MEBIBYTE, LaneReading

POLL_SECONDS = 0.5
LAST_POLL_SECONDS = 0.2  # near the end: a lane that stalls then is what all others wait for
NEAR_END_SECONDS = 3.0
RANGES_AHEAD_AT_MOST = 24
RANGE_SECONDS = 0.5  # two of them are asked for at a time: a new order must take effect within three seconds
FIRST_RANGE_BYTES = 256 * 1024
LEAST_BYTES = 64 * 1024  # of a range, and of what is written at once; less near the end, where cells count
WINDOWS_TOGETHER_BYTES = 64 * MEBIBYTE  # what all lanes' receive windows may hold at most
GREETING_AT_MOST = MEBIBYTE


def window_of(lanes: int) -> int:
    """The receive window of each of so many lanes, in bytes."""
    return max(MEBIBYTE // 2, min(4 * MEBIBYTE, WINDOWS_TOGETHER_BYTES // max(1, lanes)))


class _Redial(Exception):
    """The connection is of no more use though it did not end by itself."""


@dataclass(eq=False, slots=True)
class _Asked:
    """A range asked of the host and not yet received to its end."""

    range: Range
    build: ActiveBuild
    pieces: deque[Piece]
    left_bytes: int
    next_cell: int
    buffer: bytearray = field(default_factory=bytearray)
    is_dead: bool = False


class RateMeter:
    """Bytes a second of one lane, smoothed over about two seconds."""

    def __init__(self) -> None:
        self.bytes_per_second = 0.0
        self.is_known = False
        self._since: float | None = None
        self._bytes = 0

    def note(self, count: int, now: float) -> None:
        """Bytes that came by `now`."""
        if self._since is None:
            self._since = now
        self._bytes += count
        passed = now - self._since
        if passed >= 0.4:
            rate = self._bytes / passed
            self.is_known = True
            weight = 0.5 ** (passed / 1.4)
            self.bytes_per_second = (
                self.bytes_per_second * weight + rate * (1 - weight) if self.bytes_per_second else rate
            )
            self._since, self._bytes = now, 0

    def rest(self) -> None:
        """There was nothing to receive: the time until the next byte does not count."""
        self._since, self._bytes = None, 0


class Lane(threading.Thread):
    """See the module's docstring. `retire`, `cut` and `reading` may be called from any thread."""

    def __init__(self, number: int, link: LinkState) -> None:
        super().__init__(name=f"lane-{number}", daemon=True)
        self.number, self._link = number, link
        self.state = "dialling"
        self.redials = 0
        self.brought_bytes = 0
        self.retired_at: float | None = None
        self.build_key = ""
        self.meter = RateMeter()
        self._stream: ShellStream | None = None
        self._asked: deque[_Asked] = deque()
        self._dials = 0
        self._connected_at = 0.0
        self._last_data_at = link.clock.monotonic()
        self._patience = 1.0  # grows while connections bring nothing, so that a slow host gets its time
        self._round_trip = 0.2
        self._has_answered = False  # the round trip is measured
        self._is_scout = False
        self._has_brought = False  # the present connection, or the last one, brought bytes of a range

    # -- told by the runner ------------------------------------------------------------------------------------

    def retire(self) -> None:
        """Ask for nothing more, bring what is asked for, end."""
        if self.retired_at is None:
            self.retired_at = self._link.clock.monotonic()

    def cut(self) -> None:
        """End the present connection at once; unless retired or stopped, the lane dials again."""
        stream = self._stream
        if stream is not None:
            stream.close()

    def reading(self) -> LaneReading:
        """The lane at this moment."""
        silent = self._link.clock.monotonic() - self._last_data_at
        rate = self.meter.bytes_per_second if self.state == "working" else 0.0
        return LaneReading(
            self.number,
            self.state,
            self.build_key,
            rate,
            silent,
            self.redials,
            self.brought_bytes,
            self._round_trip if self._has_answered else 0.0,
        )

    # -- the thread --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Dial, work, dial again, until told to end."""
        pause = 0.0
        while not self._is_over():
            if pause:
                self._link.stopping.wait(pause)
            pause = self._turn(pause)
        self.state = "closed"

    def _turn(self, last_pause: float) -> float:
        """One connection from dialling to its end; returns the seconds to wait before the next."""
        try:
            stream = self._dial()
            if stream is None:
                return 0.2
            try:
                self._work(stream)
            finally:
                self._let_go(stream)
        except ConnectionRefused:
            self._link.note_refusal()
            return random.uniform(0.2, 1.0) + min(last_pause, self._link.limits.redial_pause_seconds / 2)  # noqa: S311
        except TransientError as error:
            self._link.note_down(error)
            return self._redial_pause(last_pause)
        except PermanentError as error:
            self._link.note_fatal(error)
            self.retire()
        except (StreamConfused, _Redial):
            return self._redial_pause(last_pause)
        return 0.0

    def _redial_pause(self, last_pause: float) -> float:
        """At once when the connection had brought something; later and later when it was of no use at all."""
        if self._has_brought:
            return 0.1
        return min(max(0.5, last_pause * 2), self._link.limits.redial_pause_seconds)

    def _is_over(self) -> bool:
        return self._link.stopping.is_set() or self.retired_at is not None

    def _dial(self) -> ShellStream | None:
        link, limits = self._link, self._link.limits
        self.state = "dialling" if not self._dials else "redialling"
        self._connected_at = 0.0
        self._has_brought = False
        doubtful = link.down is not None or self._is_scout
        if doubtful and not link.enter_scout(self.number):
            return None
        try:
            window = window_of(link.lane_count)
            seconds = limits.scout_seconds if doubtful else limits.dial_seconds
            stream = link.remote.open_shell(window_bytes=window, timeout_seconds=seconds)
        finally:
            self._is_scout = False
            link.leave_scout(self.number)
        link.note_answer(is_reconnect=self._dials > 0)
        self.redials += self._dials > 0
        self._dials += 1
        self._connected_at = self._last_data_at = link.clock.monotonic()
        return stream

    def _let_go(self, stream: ShellStream) -> None:
        self._stream = None
        stream.close()
        while self._asked:
            self._link.queue.release(self._asked.popleft().range)
        self._link.queue.forget_rate(self.number)
        self.meter = RateMeter()
        self.build_key = ""

    def _work(self, stream: ShellStream) -> None:
        nonce = secrets.token_hex(16).encode()
        reader = PieceReader(nonce)
        self._stream = stream
        stream.send(prelude(nonce))
        self._ask(stream)
        opening: bytes | None = b""
        silent_polls = 0
        while not self._link.stopping.is_set():
            self._ask(stream)
            if not self._asked and opening is None:
                if self.retired_at is not None:
                    return
                self._rest()
                continue
            self.state = "working"
            try:
                poll_seconds = LAST_POLL_SECONDS if self._is_near_end else POLL_SECONDS
                data = stream.receive(MEBIBYTE // 4, timeout_seconds=poll_seconds)
            except DeadlinePassed:
                self.meter.note(0, self._link.clock.monotonic())
                silent_polls += 1
                # The meter is smooth; whoever waits for this lane's ranges must know at once that it stalls.
                self._link.queue.note_rate(self.number, self.meter.bytes_per_second * 0.5**silent_polls)
                self._check_silence()
                continue
            silent_polls = 0
            self._last_data_at = self._link.clock.monotonic()
            if opening is not None:
                opening, data = self._open(opening + data, opening_line(nonce))
                if opening is not None:
                    continue
            reader.feed(data)
            self.meter.note(len(data), self._last_data_at)
            if self.meter.is_known:
                self._link.queue.note_rate(self.number, self.meter.bytes_per_second)
            self._take_in(reader)
            self._check_pace()
        self.cut()

    @property
    def _is_near_end(self) -> bool:
        return self._link.end_seconds < NEAR_END_SECONDS

    def _open(self, seen: bytes, line: bytes) -> tuple[bytes | None, bytes]:
        """Skip what a login shell prints before our opening line. Returns (None, what follows it) when it came."""
        at = seen.find(line)
        if at < 0:
            if len(seen) > GREETING_AT_MOST:
                raise StreamConfused("the login shell prints without end")
            return seen, b""
        self._round_trip = min(2.0, self._last_data_at - self._connected_at)
        self._has_answered = True
        return None, seen[at + len(line) :]

    def _rest(self) -> None:
        self.state, self.build_key = "waiting", ""
        self.meter.rest()
        queue = self._link.queue
        with queue.changed:
            queue.changed.wait(0.1)
        self._last_data_at = self._link.clock.monotonic()

    # -- asking ------------------------------------------------------------------------------------------------

    def _ask(self, stream: ShellStream) -> None:
        """Ask for ranges until enough is on its way: two ranges, and what the path holds at this lane's rate."""
        if self.retired_at is not None:
            return
        while len(self._asked) < RANGES_AHEAD_AT_MOST and self._link.pacer.is_open():
            rate = self.meter.bytes_per_second
            ahead = sum(asked.left_bytes for asked in self._asked)
            if len(self._asked) >= 2 and ahead >= max(rate * (1.5 * self._round_trip + 0.6), 2 * CELL_BYTES):
                return
            taken = self._take(rate, ahead)
            if taken is None:
                return
            build = self._link.builds[taken.key]
            offset, length = build.geometry.run_span(taken.first, taken.count)
            pieces = build.segments.pieces(offset, length)
            self._asked.append(_Asked(taken, build, deque(pieces), length, taken.first))
            self._link.pacer.spend(length)
            stream.send(request(pieces))

    def _take(self, rate: float, ahead: int) -> Range | None:
        link = self._link
        free = link.queue.free_bytes()
        if free:
            if self._asked and rate and (ahead + CELL_BYTES) / rate > link.end_seconds * 1.2 + 0.5:
                return None  # a faster lane will bring it sooner
            wanted = max(LEAST_BYTES, int(rate * RANGE_SECONDS)) if rate else FIRST_RANGE_BYTES
            fair = free // (3 * max(1, link.lane_count))
            wanted = link.pacer.largest_range(max(CELL_BYTES, min(wanted, fair, LARGEST_RANGE_BYTES)))
            return link.queue.take(self.number, wanted)
        if ahead > rate * self._round_trip:
            return None
        return link.queue.take_double(self.number, self._round_trip + (ahead / rate if rate else 0.0))

    # -- receiving ---------------------------------------------------------------------------------------------

    def _take_in(self, reader: PieceReader) -> None:
        while self._asked:
            asked = self._asked[0]
            self.build_key = asked.range.key
            try:
                data, is_end = reader.read(asked.pieces[0])
            except PieceFault as fault:
                asked.is_dead = True
                asked.left_bytes -= asked.pieces.popleft().length
                if fault.status >= 126:
                    raise _Redial from fault  # the program was killed or could not start: the source is not to blame
                self._link.note_fault(asked.range.key, fault)
            else:
                if not data and not is_end:
                    return
                self._patience = 1.0
                self._has_brought = True
                self.brought_bytes += len(data)
                self._link.note_data(len(data))
                asked.left_bytes -= len(data)
                if not asked.is_dead:
                    asked.buffer += data
                    self._write(asked)
                if is_end:
                    asked.pieces.popleft()
            if not asked.pieces:
                self._asked.popleft()
                self._link.queue.release(asked.range)

    def _write(self, asked: _Asked) -> None:
        """Put the complete cells of the buffer on the disk; those that another lane brought first are dropped."""
        held, build = asked.range, asked.build
        stop = held.first + held.count
        count = len(asked.buffer) // CELL_BYTES
        if asked.next_cell + count < stop:
            rest = build.geometry.run_span(asked.next_cell, stop - asked.next_cell)[1]
            if len(asked.buffer) == rest:
                count = stop - asked.next_cell  # the chunk's last cell, which may be shorter
        is_worth_it = count * CELL_BYTES >= LEAST_BYTES or asked.next_cell + count == stop
        if not count or not (is_worth_it or self._is_near_end):
            return
        base, length = build.geometry.run_span(asked.next_cell, count)
        for first, run in self._link.queue.begin_write(held, asked.next_cell, count):
            offset, run_length = build.geometry.run_span(first, run)
            try:
                build.writer.write(offset, bytes(asked.buffer[offset - base : offset - base + run_length]))
                build.cells.mark(first, run)
            except (LandingError, OSError) as error:
                self._link.queue.fail_write(held, first, run)
                self._link.note_fault(held.key, build.landing_error(error, run_length))
                continue
            self._link.queue.finish_write(held, first, run)
            self._link.note_new(run_length)
        del asked.buffer[:length]
        asked.next_cell += count

    # -- judging the connection --------------------------------------------------------------------------------

    def _check_silence(self) -> None:
        """Nothing came for a while though something is asked for. Raises _Redial, DeadlinePassed."""
        link, limits = self._link, self._link.limits
        now = link.clock.monotonic()
        silent = now - self._last_data_at
        if silent > limits.no_data_seconds:
            raise DeadlinePassed(f"Lane {self.number} waiting for data", limits.no_data_seconds)
        others_move = now - link.last_data_at < 3.0
        if others_move or link.answered_at > self._last_data_at + 1.0:
            if silent > limits.silent_seconds * self._patience:
                self._give_up_connection()
        elif silent > limits.quiet_seconds * self._patience and link.enter_scout(self.number):
            self._is_scout = True
            self._give_up_connection()

    def _give_up_connection(self) -> None:
        self._patience = min(self._patience * 2, self._link.limits.no_data_seconds / self._link.limits.silent_seconds)
        raise _Redial

    def _check_pace(self) -> None:
        """A lane far below its siblings for long draws a new connection. Raises _Redial."""
        link, now = self._link, self._last_data_at
        if now - self._connected_at < 20.0 or self.meter.bytes_per_second > link.median_rate / 6:
            return
        if link.median_rate and link.may_redial_slow():
            raise _Redial
