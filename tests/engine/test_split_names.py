"""Sets of parts in the order of their numbers, whatever `split` called them; gaps and strays are errors."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from transfers.engine.split_names import PartsWrong, is_list_of_sums, number_parts


def _split(folder: Path, count: int, *options: str) -> list[bytes]:
    """Names that GNU split gives to so many parts of one byte, in the order of their content."""
    folder.mkdir()
    source = folder.parent / "source"
    source.write_bytes(b"x" * count)
    subprocess.run(["split", "-b", "1", *options, source, folder / "big.tar.part-"], check=True)
    # Each part's inode is made in order: names alone would beg the question.
    made = sorted(folder.iterdir(), key=lambda path: path.stat().st_ino)
    return [bytes(path.relative_to(folder)) for path in made]


@pytest.mark.parametrize("count", [2, 101, 1001])
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-d",),
        ("-x",),
        ("-a", "4"),
        ("-d", "-a", "5"),
        ("-x", "-a", "3"),
        ("--numeric-suffixes=1", "-a", "4"),
        ("-d", "--additional-suffix=.bin"),
        ("--additional-suffix=.7z",),
    ],
    ids=" ".join,
)
def test_parts_of_any_count_come_in_the_order_in_which_split_made_them(
    tmp_path: Path, count: int, options: tuple[str, ...]
) -> None:
    names = _split(tmp_path / "parts", count, *options)
    assert len(names) == count
    shuffled = random.Random(count).sample(names, count)
    found = number_parts(shuffled)
    ordered = found.ordered()
    first = min(found.numbers.values())
    assert [found.numbers[name] - first for name in ordered] == list(range(count))
    assert ordered == sorted(names, key=lambda name: _made_as(name, options))


def _made_as(name: bytes, options: tuple[str, ...]) -> tuple[int, int]:
    """The number by another way than the product's: length first (widened names are longer), then its value."""
    token = name.removeprefix(b"big.tar.part-").partition(b".")[0]
    alphabet = b"0123456789abcdef" if "-x" in options else b"abcdefghijklmnopqrstuvwxyz"
    if token.isdigit() and "-x" not in options:
        alphabet = b"0123456789"
    return len(token), sum(alphabet.index(sign) * len(alphabet) ** at for at, sign in enumerate(reversed(token)))


@pytest.mark.parametrize("count", [101, 1001])
@pytest.mark.parametrize("options", [("-d",), (), ("-x",), ("-d", "-a", "4")], ids=" ".join)
def test_a_missing_middle_part_is_an_error_that_names_its_number(
    tmp_path: Path, count: int, options: tuple[str, ...]
) -> None:
    names = number_parts(_split(tmp_path / "parts", count, *options)).ordered()
    with pytest.raises(PartsWrong, match=r"1 of its parts are missing \(number 57\)"):
        number_parts(names[:57] + names[58:]).ordered()
    with pytest.raises(PartsWrong, match="parts are missing"):
        number_parts(names[2:]).ordered()


@pytest.mark.parametrize("stray", [b"README", b"big.tar.part-", b"big.tar.part-12.old", b"big.tar", b"\xff\n"])
def test_a_stray_extra_is_an_error_that_names_it(tmp_path: Path, stray: bytes) -> None:
    names = _split(tmp_path / "parts", 101, "-d", "-a", "4")
    with pytest.raises(PartsWrong, match="1 of the files are no part of the set") as error:
        number_parts([*names, stray]).ordered()
    assert "\n" not in str(error.value)


def test_numbers_without_zeros_in_front_and_two_of_one_number() -> None:
    names = [f"dir/image.{number}.qcow2".encode() for number in range(1, 13)]
    assert number_parts(sorted(names)).ordered() == names
    with pytest.raises(PartsWrong, match="same number"):
        number_parts([*names, b"dir/image.07.qcow2"]).ordered()


def test_a_lone_file_is_a_set_of_one_and_sums_are_no_parts() -> None:
    assert number_parts([b"a/only.tar"]).ordered() == [b"a/only.tar"]
    for name in (b"SHA256SUMS", b"a/pack.sha256", b"x.md5", b"md5sums.txt"):
        assert is_list_of_sums(name)
    for name in (b"xaa", b"sha256/part1", b"part.b30", b"big.tar.part-00"):
        assert not is_list_of_sums(name)
