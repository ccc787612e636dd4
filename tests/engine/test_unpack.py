"""Unpacking: usable files in a fresh folder, checked again, and nothing outside it touched whatever an archive says."""

from __future__ import annotations

import hashlib
import stat
import tarfile
from pathlib import Path

import pytest

from tests.engine.archives import entry, file_member, gnu_tar, gzipped, tar_of, zstd
from tests.engine.books import MIB, noise
from tests.engine.disks import small_disk
from transfers.engine.landing import LandingError, LandingFull
from transfers.engine.opens.base import ContentDamaged, Watch
from transfers.engine.types import Member
from transfers.engine.unpack import UnpackDiffers, Unpacked, unpack_file, unpack_files
from transfers.engine.verify import Stopped

ONE, TWO = noise(100_001, 1), noise(5, 2)


def _unpack(tmp_path: Path, content: bytes, expected: dict[bytes, bytes] | None = None) -> Unpacked:
    source = tmp_path / "pack.tar"
    source.write_bytes(content)
    return unpack_file(source, tmp_path / "out" / "pack", expected or {})


def _remarks(unpacked: Unpacked) -> dict[bytes, str]:
    return {remark.name: remark.what for remark in unpacked.remarks}


def _tree(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        else:
            found[name] = "folder" if path.is_dir() else path.read_bytes()
    return found


@pytest.mark.parametrize("make", [bytes, zstd, gzipped], ids=["plain", "zstd", "gzip"])
def test_files_folders_and_links_come_out_with_modes_and_times(tmp_path: Path, make: type[bytes]) -> None:
    content = tar_of(
        entry("d", kind=tarfile.DIRTYPE, mode=0o500),
        entry("d/one", ONE, mode=0o640),
        entry("run", TWO, mode=0o755),
        entry("l", kind=tarfile.SYMTYPE, link="d/one"),
        entry("hard", kind=tarfile.LNKTYPE, link="d/one"),
    )
    expected = {b"d/one": hashlib.sha256(ONE).digest(), b"run": hashlib.sha256(TWO).digest()}
    unpacked = _unpack(tmp_path, make(content), expected)
    top = unpacked.folder
    assert _tree(top) == {"d": "folder", "d/one": ONE, "run": TWO, "l": ("link", "d/one"), "hard": ONE}
    assert unpacked.checked == 2 and unpacked.members == 5 and unpacked.remarks == () and unpacked.former is None
    assert stat.S_IMODE((top / "d/one").stat().st_mode) == 0o640 and stat.S_IMODE((top / "d").stat().st_mode) == 0o500
    assert (top / "run").stat().st_mtime == 1_700_000_000 == (top / "d").stat().st_mtime
    assert (top / "hard").stat().st_ino == (top / "d/one").stat().st_ino
    (top / "d").chmod(0o700)


HOSTILE = [
    ("../out-of-it", "it leads out of the folder"),
    ("a/../../out-of-it", "it leads out of the folder"),
    ("..", "it leads out of the folder"),
]


@pytest.mark.parametrize(("name", "why"), HOSTILE)
def test_names_that_lead_out_are_left_out_and_named(tmp_path: Path, name: str, why: str) -> None:
    unpacked = _unpack(tmp_path, tar_of(entry(name, b"evil"), entry("good", TWO)))
    assert _tree(unpacked.folder) == {"good": TWO}
    assert [(r.name, r.what, r.detail) for r in unpacked.remarks] == [(name.encode(), "left out", why)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "pack.tar"]


def test_an_absolute_name_is_placed_below_the_folder(tmp_path: Path) -> None:
    target = tmp_path / "absolute"
    unpacked = _unpack(tmp_path, tar_of(entry(str(target), b"x")))
    assert not target.exists() and _remarks(unpacked) == {bytes(target): "placed below"}
    assert (unpacked.folder / str(target).lstrip("/")).read_bytes() == b"x"


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    content = tar_of(
        entry("way", kind=tarfile.SYMTYPE, link=str(outside)),
        entry("way/kept", b"evil"),
        entry("up", kind=tarfile.SYMTYPE, link="../../outside/kept"),
        entry("up", b"evil"),
        entry("last", kind=tarfile.SYMTYPE, link="../../outside/kept"),
    )
    unpacked = _unpack(tmp_path, content)
    assert (outside / "kept").read_bytes() == b"kept" and [p.name for p in outside.iterdir()] == ["kept"]
    tree = _tree(unpacked.folder)
    assert tree["way/kept"] == b"evil" and tree["up"] == b"evil"
    assert tree["last"] == ("link", "../../outside/kept")
    assert _remarks(unpacked)[b"last"] == "leads outside" and _remarks(unpacked)[b"way"] == "left out"


def test_hard_links_reach_files_of_the_folder_only(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    content = tar_of(
        entry("abs", kind=tarfile.LNKTYPE, link=str(secret)),
        entry("up", kind=tarfile.LNKTYPE, link="../../secret"),
        entry("l", kind=tarfile.SYMTYPE, link=str(secret)),
        entry("through", kind=tarfile.LNKTYPE, link="l"),
    )
    unpacked = _unpack(tmp_path, content)
    assert secret.stat().st_nlink == 1
    assert set(_tree(unpacked.folder)) == {"l", "through"}
    assert _tree(unpacked.folder)["through"] == ("link", str(secret))
    assert _remarks(unpacked)[b"abs"] == _remarks(unpacked)[b"up"] == "left out"


def test_devices_and_pipes_are_left_out_and_special_bits_dropped(tmp_path: Path) -> None:
    content = tar_of(
        entry("null", kind=tarfile.CHRTYPE),
        entry("disk", kind=tarfile.BLKTYPE),
        entry("pipe", kind=tarfile.FIFOTYPE),
        entry("suid", TWO, mode=0o4755),
    )
    unpacked = _unpack(tmp_path, content)
    assert set(_tree(unpacked.folder)) == {"suid"}
    assert stat.S_IMODE((unpacked.folder / "suid").stat().st_mode) == 0o755
    assert _remarks(unpacked) == {
        b"null": "left out",
        b"disk": "left out",
        b"pipe": "left out",
        b"suid": "bits dropped",
    }


def test_of_two_members_of_one_name_the_last_one_counts(tmp_path: Path) -> None:
    content = tar_of(entry("x", b"first"), entry("hard", kind=tarfile.LNKTYPE, link="x"), entry("x", b"second"))
    unpacked = _unpack(tmp_path, content)
    assert _tree(unpacked.folder) == {"x": b"second", "hard": b"first"}
    assert _remarks(unpacked) == {b"x": "replaced"}


def test_a_file_in_the_place_of_a_folder_is_left_out(tmp_path: Path) -> None:
    unpacked = _unpack(tmp_path, tar_of(entry("d/x", TWO), entry("d", b"file"), entry("d/x/y", b"z")))
    assert _tree(unpacked.folder) == {"d": "folder", "d/x": TWO}
    assert _remarks(unpacked) == {b"d": "left out", b"d/x/y": "left out"}


@pytest.mark.parametrize("kind", ["--format=gnu", "--format=posix"])
def test_sparse_files_and_long_names_come_out_as_they_were(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "tree"
    (folder / ("x" * 120)).mkdir(parents=True)
    with (folder / "sparse").open("wb") as file:
        file.seek(2 * MIB)
        file.write(b"middle")
        file.truncate(8 * MIB)
    (folder / ("x" * 120) / ("y" * 130)).write_bytes(ONE)
    (folder / "two\nlines").write_bytes(TWO)
    content = gnu_tar(folder, "--sparse", kind, names=sorted(path.name for path in folder.iterdir()))
    unpacked = _unpack(tmp_path, zstd(content))
    assert _tree(unpacked.folder) == _tree(folder)
    assert (unpacked.folder / "sparse").stat().st_blocks * 512 < MIB


def test_a_member_that_does_not_match_its_digest_publishes_nothing(tmp_path: Path) -> None:
    expected = {b"one": hashlib.sha256(b"other").digest(), b"missing": hashlib.sha256(b"").digest()}
    with pytest.raises(UnpackDiffers) as caught:
        _unpack(tmp_path, tar_of(entry("one", ONE)), expected)
    assert "2 unpacked files do not match" in str(caught.value) and "untouched" in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_damaged_archive_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ContentDamaged):
        _unpack(tmp_path, zstd(tar_of(entry("one", ONE)))[:-20])
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_is_there_is_kept_aside(tmp_path: Path) -> None:
    first = _unpack(tmp_path, tar_of(entry("x", b"first")))
    (first.folder / "mine").write_bytes(b"mine")
    second = _unpack(tmp_path, tar_of(entry("x", b"second")))
    assert second.former == tmp_path / "out" / "pack.1"
    assert _tree(tmp_path / "out" / "pack.1") == {"mine": b"mine", "x": b"first"}
    assert _tree(second.folder) == {"x": b"second"}


def test_what_a_killed_attempt_left_is_in_nobodys_way(tmp_path: Path) -> None:
    left = tmp_path / "out" / ".pack.unpacking-only-0123abcd"
    (left / "d").mkdir(parents=True)
    (left / "d" / "x").write_bytes(b"half")
    (left / "d").chmod(0o500)
    assert _tree(_unpack(tmp_path, tar_of(entry("x", TWO))).folder) == {"x": TWO}
    assert not left.exists()


@pytest.mark.parametrize("at_question", [1, 2, 4, 5])
def test_a_worker_that_was_away_too_long_spoils_nothing_of_its_successor(tmp_path: Path, at_question: int) -> None:
    source = tmp_path / "pack.tar"
    source.write_bytes(tar_of(entry("x", ONE), entry("y", TWO)))
    expected = {b"x": hashlib.sha256(ONE).digest(), b"y": hashlib.sha256(TWO).digest()}
    target = tmp_path / "out" / "pack"
    questions = 0

    def away() -> bool:
        """The first worker stands still here; meanwhile its lease runs out and another one does the act."""
        nonlocal questions
        questions += 1
        if questions == at_question:
            unpack_file(source, target, expected, act="7")
        return False

    with pytest.raises(LandingError):
        unpack_file(source, target, expected, act="7", watch=Watch(stop=away))
    assert questions >= at_question
    assert [path.name for path in target.parent.iterdir()] == ["pack"]
    assert _tree(target) == {"x": ONE, "y": TWO}


def test_two_acts_on_one_folder_do_not_meet(tmp_path: Path) -> None:
    source = tmp_path / "pack.tar"
    source.write_bytes(tar_of(entry("x", ONE)))
    target = tmp_path / "out" / "pack"
    others: list[Unpacked] = []

    def another() -> bool:
        if not others:
            others.append(unpack_file(source, target, {}, act="8"))
        return False

    mine = unpack_file(source, target, {}, act="7", watch=Watch(stop=another))
    assert mine.former == tmp_path / "out" / "pack.1"
    assert _tree(target) == {"x": ONE} == _tree(mine.former)


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "pack.tar"
    source.write_bytes(tar_of(entry("big", noise(3 * MIB))))
    with small_disk(tmp_path / "disk", MIB) as disk:
        with pytest.raises(LandingFull):
            unpack_file(source, disk / "pack", {})
        assert list(disk.iterdir()) == []


def test_a_stop_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "pack.tar"
    source.write_bytes(tar_of(entry("x", TWO)))
    with pytest.raises(Stopped):
        unpack_file(source, tmp_path / "out" / "pack", {}, watch=Watch(stop=lambda: True))
    assert list((tmp_path / "out").iterdir()) == []


def test_an_image_that_begins_with_zeros_becomes_one_file(tmp_path: Path) -> None:
    source = tmp_path / "disk.img"
    source.write_bytes(bytes(1024) + ONE)
    assert _tree(unpack_file(source, tmp_path / "out", {}).folder) == {"disk.img": bytes(1024) + ONE}


def test_content_without_a_tar_becomes_one_file(tmp_path: Path) -> None:
    source = tmp_path / "weights.bin.zst"
    source.write_bytes(zstd(ONE))
    unpacked = unpack_file(source, tmp_path / "out", {b"weights.bin": hashlib.sha256(ONE).digest()})
    assert _tree(unpacked.folder) == {"weights.bin": ONE} and unpacked.checked == 1


def test_a_set_of_files_becomes_copies_with_the_lists_folders_links_modes_and_times(tmp_path: Path) -> None:
    landed = tmp_path / "files"
    (landed / "d").mkdir(parents=True)
    (landed / "d" / "one").write_bytes(ONE)
    members = [
        Member(b"d", "folder", 0, 1_600_000_000 * 10**9, 0o750),
        file_member(b"d/one", ONE, 0o600),
        Member(b"empty", "folder", 0, 0, 0o755),
        Member(b"l", "link", 0, 0, 0o777, b"d/one"),
    ]
    unpacked = unpack_files(landed, tmp_path / "out", members)
    assert _tree(unpacked.folder) == {"d": "folder", "d/one": ONE, "empty": "folder", "l": ("link", "d/one")}
    assert stat.S_IMODE((unpacked.folder / "d" / "one").stat().st_mode) == 0o600
    assert (unpacked.folder / "d").stat().st_mtime == 1_600_000_000
    assert (landed / "d" / "one").stat().st_ino != (unpacked.folder / "d" / "one").stat().st_ino
    (landed / "d" / "one").write_bytes(b"damaged")
    with pytest.raises(UnpackDiffers):
        unpack_files(landed, tmp_path / "other", members)
