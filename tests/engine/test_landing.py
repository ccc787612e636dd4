"""The landing: bytes at their place, names that lead nowhere else, nothing of anybody's overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inventory.remote.names import RemoteName
from tests.engine.books import MIB, noise
from tests.engine.disks import small_disk
from transfers.engine.geometry import build_of_files, build_of_one_file
from transfers.engine.landing import (
    IncomingWriter,
    LandingFull,
    LandingRefused,
    NameRefused,
    TargetExists,
    check_names,
    publish,
)
from transfers.engine.types import BuildSpec


def _one(folder: Path, size: int = MIB, name: bytes = b"pack") -> BuildSpec:
    return build_of_one_file(key="k", source=RemoteName(b"/s"), size_bytes=size, folder=folder, name=name)


def _files(folder: Path, *files: tuple[bytes, int]) -> BuildSpec:
    return build_of_files(key="k", files=[(RemoteName(b"/s"), name, size) for name, size in files], folder=folder)


def test_bytes_written_in_any_order_lie_at_their_place(tmp_path: Path) -> None:
    spec = _one(tmp_path)
    content = noise(MIB)
    writer = IncomingWriter(spec)
    assert not writer.had_data
    for at in (MIB // 2, 0, MIB // 4):
        end = {0: MIB // 4, MIB // 4: MIB // 2, MIB // 2: MIB}[at]
        writer.write(at, content[at:end])
    writer.sync()
    assert b"".join(writer.stretches(0, MIB, 1000)) == content
    writer.close()
    writer.close()
    assert publish(spec).read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pack"]


def test_files_mode_puts_each_stretch_into_its_file(tmp_path: Path) -> None:
    spec = _files(tmp_path, (b"a/b/one", 10), (b"empty", 0), (b"two\n\xff", 20))
    writer = IncomingWriter(spec)
    writer.write(0, bytes(range(30)))
    assert writer.read(5, 10) == bytes(range(5, 15))
    writer.close()
    top = publish(spec)
    assert (top / "a/b/one").read_bytes() == bytes(range(10))
    assert (top / "empty").read_bytes() == b""
    assert (top / os.fsdecode(b"two\n\xff")).read_bytes() == bytes(range(10, 30))


def test_more_files_than_may_be_open_at_once_are_written_right(tmp_path: Path) -> None:
    spec = _files(tmp_path, *[(b"f%03d" % number, 3) for number in range(150)])
    writer = IncomingWriter(spec)
    content = noise(450)
    for at in (*range(0, 450, 7), *range(0, 450, 7)):
        writer.write(at, content[at : at + 7])
    assert b"".join(writer.stretches(0, 450)) == content
    writer.close()


@pytest.mark.parametrize("name", [b"../out", b"a/../../out", b"/abs", b"a//b", b".", b"a/\0"])
def test_a_name_that_leads_out_is_refused_before_anything_is_made(tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / "build"
    with pytest.raises(NameRefused) as caught:
        IncomingWriter(_files(folder, (name, 3)))
    assert "Nothing was fetched" in str(caught.value)
    assert not folder.exists()


def test_a_name_too_long_for_the_disk_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(NameRefused) as caught:
        check_names(_one(tmp_path, name=b"n" * 250))
    assert "up to 255 bytes" in str(caught.value) and "259 are needed" in str(caught.value)
    check_names(_one(tmp_path, name=b"n" * 246))
    with pytest.raises(NameRefused):
        check_names(_files(tmp_path, (b"d/" + b"n" * 256, 1)))


def test_a_link_in_the_folder_is_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "build"
    (folder / "files.incoming").mkdir(parents=True)
    (folder / "files.incoming" / "d").symlink_to(outside)
    writer = IncomingWriter(_files(folder, (b"d/f", 3)))
    with pytest.raises(LandingRefused):
        writer.write(0, b"abc")
    writer.close()
    assert list(outside.iterdir()) == []
    (folder / "pack.incoming").symlink_to(outside / "x")
    with pytest.raises(LandingRefused):
        IncomingWriter(_one(folder))
    assert list(outside.iterdir()) == []


def test_publishing_never_replaces_what_has_the_name(tmp_path: Path) -> None:
    spec = _one(tmp_path, 3)
    writer = IncomingWriter(spec)
    writer.write(0, b"new")
    writer.close()
    (tmp_path / "pack").write_bytes(b"old")
    with pytest.raises(TargetExists) as caught:
        publish(spec)
    assert "never overwritten" in str(caught.value)
    assert (tmp_path / "pack").read_bytes() == b"old" and (tmp_path / "pack.incoming").read_bytes() == b"new"


def test_too_little_room_is_told_with_both_numbers_and_makes_no_large_file(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2 * MIB) as disk:
        with pytest.raises(LandingFull) as caught:
            IncomingWriter(_one(disk, 8 * MIB))
        assert "bytes free" in str(caught.value) and f"{8 * MIB:,}" in str(caught.value)
        assert (disk / "pack.incoming").stat().st_size == 0


def test_a_disk_that_fills_while_files_arrive_is_told_as_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2 * MIB) as disk:
        writer = IncomingWriter(_files(disk, (b"a", MIB), (b"b", MIB // 2)))
        (disk / "other").write_bytes(bytes(MIB + MIB // 2))
        with pytest.raises(LandingFull):
            writer.write(0, noise(MIB))
        (disk / "other").unlink()
        writer.write(0, noise(MIB))
        assert writer.read(0, MIB) == noise(MIB)
        writer.close()


def test_a_longer_leftover_is_cut_and_a_shorter_one_is_kept(tmp_path: Path) -> None:
    (tmp_path / "pack.incoming").write_bytes(b"x" * 10)
    writer = IncomingWriter(_one(tmp_path, 4))
    assert writer.had_data and writer.read(0, 100) == b"xxxx"
    writer.close()


def test_sentences_about_hostile_local_names_stay_on_one_line(tmp_path: Path) -> None:
    assert "\n" not in str(TargetExists(tmp_path / "two\nlines"))
