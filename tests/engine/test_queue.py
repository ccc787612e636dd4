"""Which lane fetches what: nothing is lost, nothing is written twice, and the last ranges are doubled with sense."""

from __future__ import annotations

import random
import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from transfers.engine.geometry import Geometry, cut_chunks
from transfers.engine.queue import COPIES_AT_MOST, LARGEST_RANGE_BYTES, Range, RangeQueue
from transfers.engine.types import CELL_BYTES, MEBIBYTE

SIXTEEN_CELLS = 16 * CELL_BYTES
TWO = Geometry(cut_chunks(2 * SIXTEEN_CELLS, SIXTEEN_CELLS))  # two chunks of sixteen cells


def _queue(geometry: Geometry = TWO, key: str = "a") -> RangeQueue:
    queue = RangeQueue()
    queue.add(key, geometry, [(0, geometry.cell_count)] if geometry.cell_count else [])
    queue.set_order([key])
    return queue


def _bring(queue: RangeQueue, held: Range) -> None:
    for first, count in queue.begin_write(held, held.first, held.count):
        queue.finish_write(held, first, count)
    queue.release(held)


def test_ranges_come_in_order_stay_in_a_chunk_and_are_at_most_four_mebibytes() -> None:
    queue = _queue(Geometry(cut_chunks(12 * MEBIBYTE + 5, 10 * MEBIBYTE)))
    taken: list[Range] = []
    while (one := queue.take(0, 100 * MEBIBYTE)) is not None:
        taken.append(one)
    assert [(one.chunk, one.count * CELL_BYTES) for one in taken] == [
        (0, LARGEST_RANGE_BYTES),
        (0, LARGEST_RANGE_BYTES),
        (0, 2 * MEBIBYTE),
        (1, 2 * MEBIBYTE + CELL_BYTES),
    ]


def test_the_first_build_in_order_comes_first_and_a_new_order_holds_at_once() -> None:
    queue = _queue()
    queue.add("b", TWO, [(0, 32)])
    queue.set_order(["b", "a"])
    assert queue.take(0, CELL_BYTES).key == "b"  # type: ignore[union-attr]
    queue.set_order(["a"])
    assert queue.take(0, CELL_BYTES).key == "a"  # type: ignore[union-attr]
    queue.set_order([])
    assert queue.take(0, CELL_BYTES) is None


def test_what_a_lost_lane_held_is_free_again_but_for_what_it_had_written() -> None:
    queue = _queue()
    held = queue.take(0, MEBIBYTE)
    assert held is not None
    for first, count in queue.begin_write(held, 0, 5):
        queue.finish_write(held, first, count)
    queue.release(held)
    again = queue.take(1, MEBIBYTE)
    assert again is not None and (again.first, again.count) == (5, 11)


def test_a_filled_chunk_is_told_once() -> None:
    queue = _queue()
    for _ in range(2):
        held = queue.take(0, MEBIBYTE)
        assert held is not None
        _bring(queue, held)
    assert queue.pop_filled() == [("a", 0), ("a", 1)]
    assert queue.pop_filled() == [] and queue.is_full("a")


def test_cells_proven_wrong_are_given_out_anew() -> None:
    queue = _queue()
    while (held := queue.take(0, MEBIBYTE)) is not None:
        _bring(queue, held)
    queue.pop_filled()
    queue.reopen("a", [(3, 2)])
    assert not queue.is_full("a") and queue.unheld_missing("a") == 2
    again = queue.take(0, MEBIBYTE)
    assert again is not None and (again.first, again.count) == (3, 2)
    _bring(queue, again)
    assert queue.pop_filled() == [("a", 0)]


def test_the_end_of_a_slow_lanes_range_is_doubled_and_the_first_copy_wins() -> None:
    queue = _queue()
    queue.note_rate(0, CELL_BYTES / 2)
    queue.note_rate(1, 100.0 * CELL_BYTES)
    slow = queue.take(0, MEBIBYTE)
    other = queue.take(1, MEBIBYTE)
    assert slow is not None and other is not None
    _bring(queue, other)
    double = queue.take_double(1, 0.2)
    assert double is not None and double.is_double
    assert (double.first, double.count) == (8, 8)
    _bring(queue, double)
    assert queue.begin_write(slow, 0, 16) == [(0, 8)]


def test_nothing_is_doubled_for_lanes_of_one_pace_or_without_a_figure() -> None:
    queue = _queue()
    held = [queue.take(lane, MEBIBYTE) for lane in (0, 1)]
    assert all(held)
    assert queue.take_double(2, 0.0) is None  # no figure for the asking lane: it cannot be judged
    for lane in (0, 1, 2):
        queue.note_rate(lane, 64.0 * CELL_BYTES)  # a quarter of a second for each range
    assert queue.take_double(2, 0.1) is None
    queue.note_rate(0, 0.0)  # this one brings nothing any more
    assert queue.take_double(2, 0.1) is not None


def test_a_cell_has_three_copies_at_most() -> None:
    queue = _queue(Geometry(cut_chunks(CELL_BYTES)))
    for lane in range(6):
        queue.note_rate(lane, 1000.0 * CELL_BYTES)
    assert queue.take(0, MEBIBYTE) is not None
    queue.note_rate(0, 0.0)
    doubles = []
    for lane in range(1, 6):
        doubles.append(queue.take_double(lane, 0.0))
        queue.note_rate(lane, 0.0)
    assert sum(one is not None for one in doubles) == COPIES_AT_MOST - 1


def test_a_dropped_build_is_neither_given_out_nor_written() -> None:
    queue = _queue()
    held = queue.take(0, MEBIBYTE)
    assert held is not None
    queue.drop("a")
    assert queue.begin_write(held, 0, 4) == []
    queue.release(held)
    assert queue.take(0, MEBIBYTE) is None and not queue.holds_only_done(0)


def test_a_write_that_failed_leaves_the_cells_missing() -> None:
    queue = _queue()
    held = queue.take(0, MEBIBYTE)
    assert held is not None
    (run,) = queue.begin_write(held, 0, 2)
    queue.fail_write(held, *run)
    queue.release(held)
    assert queue.unheld_missing("a") == 32
    assert queue.free_bytes() == 2 * SIXTEEN_CELLS
    again = queue.take(0, MEBIBYTE)
    assert again is not None and (again.first, again.count) == (0, 16)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_whatever_lanes_do_every_cell_is_written_exactly_once(seed: int, lanes: int) -> None:
    rng = random.Random(seed)
    geometry = Geometry(cut_chunks(3 * MEBIBYTE + 77, MEBIBYTE))
    queue = _queue(geometry)
    written = [0] * geometry.cell_count
    held: dict[int, list[Range]] = {lane: [] for lane in range(lanes)}
    for _ in range(3000):
        lane = rng.randrange(lanes)
        queue.note_rate(lane, rng.choice([0.0, 1e4, 1e6]))
        act = rng.random()
        if act < 0.5:
            taken = queue.take(lane, rng.choice([CELL_BYTES, MEBIBYTE])) or queue.take_double(lane, 0.0)
            if taken is not None:
                held[lane].append(taken)
        elif act < 0.9 and held[lane]:
            one = held[lane].pop(0)
            stop = rng.randint(one.first, one.first + one.count)  # a lane may be lost in the middle
            for first, count in queue.begin_write(one, one.first, stop - one.first):
                for cell in range(first, first + count):
                    written[cell] += 1
                queue.finish_write(one, first, count)
            queue.release(one)
        elif held[lane]:
            for one in held[lane]:
                queue.release(one)
            held[lane] = []
        if queue.is_full("a"):
            break
    assert queue.is_full("a")
    assert written == [1] * geometry.cell_count
    assert sorted(queue.pop_filled()) == [("a", chunk) for chunk in range(geometry.chunk_count)]


def test_many_threads_bring_every_cell_once() -> None:
    geometry = Geometry(cut_chunks(16 * MEBIBYTE, 4 * MEBIBYTE))
    queue = _queue(geometry)
    written: list[int] = []
    lock = threading.Lock()

    def lane(number: int) -> None:
        while (held := queue.take(number, 256 * 1024)) is not None:
            for first, count in queue.begin_write(held, held.first, held.count):
                with lock:
                    written.extend(range(first, first + count))
                queue.finish_write(held, first, count)
            queue.release(held)

    threads = [threading.Thread(target=lane, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(written) == list(range(geometry.cell_count))
