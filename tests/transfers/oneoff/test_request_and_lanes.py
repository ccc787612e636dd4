"""What a person may write, and how many lanes the product takes by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from inventory.remote.names import RemoteName
from transfers.engine.types import Sample
from transfers.oneoff.lanes import LaneChooser
from transfers.oneoff.request import FetchRefused, check_folder, read_lanes, read_place, read_port


@pytest.mark.parametrize(
    ("text", "username", "address", "path"),
    [
        ("ada@host:/x/y.tar", "ada", "host", b"/x/y.tar"),
        ("ada@[2001:db8::1]:/x", "ada", "2001:db8::1", b"/x"),
        ("ada@10.0.0.1:relative/x", "ada", "10.0.0.1", b"relative/x"),
        ("ada@host:~/x", "ada", "host", b"x"),
        ("ada@host:/a:b@c", "ada", "host", b"/a:b@c"),
        ("ada@host:/two\nlines", "ada", "host", b"/two\nlines"),
        ("ada@host:/\udcff", "ada", "host", b"/\xff"),
        ("ada@host:-rf", "ada", "host", b"-rf"),
    ],
)
def test_a_place_is_read_byte_for_byte(text: str, username: str, address: str, path: bytes) -> None:
    place = read_place(text)
    assert (place.username, place.address, place.path) == (username, address, RemoteName(path))


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:/x", "@host:/x", "ada@:/x", "ada@host", "ada@host:", "ada@::1:/x", "ada@[::1:/x", "a b@host:/x"],
)
def test_a_place_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(FetchRefused) as caught:
        read_place(text)
    assert "Nothing was changed" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["ada@host:/", "ada@host:/x/", "ada@host:..", "ada@host:/x/.", "ada@host:~/"])
def test_a_path_that_can_only_be_a_folder_is_refused(text: str) -> None:
    with pytest.raises(FetchRefused):
        read_place(text)


def test_ports_and_lanes_are_numbers_within_their_bounds() -> None:
    assert read_port("22") == 22 and read_port("65535") == 65535
    assert read_lanes("auto") is None and read_lanes("64") == 64
    for wrong in ("0", "65536", "-1", "x", "", "٢"):
        with pytest.raises(FetchRefused):
            read_port(wrong)
    for wrong in ("0", "65", "-1", "x", "", "AUTO"):
        with pytest.raises(FetchRefused):
            read_lanes(wrong)


def test_a_folder_must_be_there(tmp_path: Path) -> None:
    assert check_folder(tmp_path) == tmp_path
    with pytest.raises(FetchRefused):
        check_folder(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(FetchRefused):
        check_folder(tmp_path / "file")


def _seconds(chooser: LaneChooser, count: int, bytes_per_second: int, left_bytes: int = 10**12) -> None:
    for _ in range(count):
        chooser.observe(Sample(1.0, bytes_per_second, bytes_per_second, (), 0, 0), left_bytes)


def test_lanes_are_doubled_while_that_brings_more_and_taken_back_when_it_does_not() -> None:
    chooser = LaneChooser(None)
    _seconds(chooser, 2, 10**9)  # the burst at the beginning does not count
    assert chooser.lanes == 8
    _seconds(chooser, 4, 10**6)
    assert chooser.lanes == 16
    _seconds(chooser, 12, 10**6)
    assert chooser.lanes == 8
    assert "16 are tried" in chooser.decisions[0].reason and "back to 8" in chooser.decisions[-1].reason


def test_long_round_trips_begin_with_more_lanes_unless_a_number_was_asked_for() -> None:
    chooser, asked, near = LaneChooser(None), LaneChooser(3), LaneChooser(None)
    chooser.note_round_trip(0.18)
    asked.note_round_trip(0.18)
    near.note_round_trip(0.02)
    assert (chooser.lanes, asked.lanes, near.lanes) == (48, 3, 8)


def test_a_small_file_gets_few_lanes_unless_a_number_was_asked_for() -> None:
    for asked, size_bytes, lanes in ((None, 0, 4), (None, 8 * 2**20, 16), (None, 2**30, 48), (20, 0, 20)):
        chooser = LaneChooser(asked)
        assert chooser.note_round_trip(0.2) == (asked or 48)
        chooser.note_size(size_bytes)
        assert chooser.lanes == lanes


def test_lanes_asked_for_are_kept_and_the_end_is_too_late_for_more() -> None:
    asked = LaneChooser(5)
    _seconds(asked, 30, 10**6)
    assert asked.lanes == 5
    late = LaneChooser(None)
    _seconds(late, 30, 10**6, left_bytes=10**6)
    assert late.lanes == 8
