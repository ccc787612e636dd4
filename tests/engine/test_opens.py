"""Opening: every archive is read to its proper end, every member accounted for, and damage is told where it is."""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path

import pytest
import zstandard

from tests.engine.archives import entry, file_member, gnu_tar, gzipped, tar_of, zstd
from tests.engine.books import MIB, noise
from transfers.engine.opens.base import ContentDamaged, ContentError, ContentRefused, Opened, Watch, WindowTooLarge
from transfers.engine.opens.opening import open_file, open_files
from transfers.engine.types import Member, Outcome
from transfers.engine.verify import Stopped

ONE, TWO = noise(100_001, 1), noise(5, 2)
PLAIN = tar_of(entry("a/one", ONE), entry("two", TWO, mode=0o755))
LISTED = [file_member(b"a/one", ONE), file_member(b"two", TWO, 0o755)]


def _open(tmp_path: Path, content: bytes, expected: list[Member] | None, name: str = "pack.tar") -> Opened:
    path = tmp_path / name
    path.write_bytes(content)
    return open_file(path, expected)


def _told(opened: Opened) -> list[tuple[bytes, Outcome]]:
    return [(one.subject, one.outcome) for one in opened.findings]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PLAIN, "tar"),
        (zstd(PLAIN), "zstd tar"),
        (gzipped(PLAIN), "gzip tar"),
        (zstd(PLAIN[:1000]) + zstd(PLAIN[1000:]), "zstd tar"),
        (gzipped(PLAIN[:777]) + gzipped(PLAIN[777:]), "gzip tar"),
    ],
    ids=["plain", "zstd", "gzip", "two zstd frames", "two gzip members"],
)
def test_every_member_is_compared_with_its_digest_at_the_source(tmp_path: Path, content: bytes, kind: str) -> None:
    opened = _open(tmp_path, content, LISTED)
    assert opened.is_good and opened.matched == 2 and opened.findings == ()
    assert opened.content == kind
    assert [member.name for member in opened.members] == [b"a/one", b"two"]


@pytest.mark.parametrize("make", [bytes, zstd, gzipped], ids=["plain", "zstd", "gzip"])
@pytest.mark.parametrize("keep", [0.3, 0.9, -1, -512, -1024])
def test_an_archive_that_is_cut_off_is_damaged(tmp_path: Path, make: type[bytes], keep: float) -> None:
    whole = make(PLAIN)
    bare = make is bytes
    if not bare and keep in (-512, -1024):
        whole, keep = make(PLAIN[: len(PLAIN) // 10240 * 10240 - 10240]), 1.0  # whole outside, cut off inside
    content = whole[: int(keep)] if keep < 0 else whole[: int(len(whole) * keep)]
    if bare and keep in (-1, -512, -1024):
        content = PLAIN.rstrip(b"\0")[: -1 if keep == -1 else None]  # without its end mark
    with pytest.raises(ContentDamaged) as caught:
        _open(tmp_path, content, LISTED)
    assert "The content is damaged at byte" in str(caught.value) and "are kept" in str(caught.value)


@pytest.mark.parametrize("make", [zstd, gzipped], ids=["zstd", "gzip"])
def test_bytes_after_the_compressed_data_are_told(tmp_path: Path, make: type[bytes]) -> None:
    opened = _open(tmp_path, make(PLAIN) + b"trailing garbage", LISTED)
    assert opened.is_good and any("16 bytes after" in note for note in opened.notes)


def test_bytes_after_the_end_mark_are_told(tmp_path: Path) -> None:
    opened = _open(tmp_path, PLAIN + b"hidden", LISTED)
    assert opened.is_good and any("follow the archive's end mark" in note for note in opened.notes)


@pytest.mark.parametrize("make", [zstd, gzipped], ids=["zstd", "gzip"])
def test_a_flipped_bit_in_compressed_data_is_damage_or_a_difference_never_good(
    tmp_path: Path, make: type[bytes]
) -> None:
    whole = make(PLAIN)
    for at in range(20, len(whole) - 20, len(whole) // 7):
        content = bytearray(whole)
        content[at] ^= 4
        try:
            opened = _open(tmp_path, bytes(content), LISTED)
        except ContentError:
            continue
        assert not opened.is_good


def test_a_damaged_header_in_the_middle_is_not_taken_for_the_end(tmp_path: Path) -> None:
    content = bytearray(PLAIN)
    at = PLAIN.index(b"two\0")
    content[at] ^= 1
    with pytest.raises(ContentDamaged) as caught:
        _open(tmp_path, bytes(content), LISTED)
    assert "checksum" in str(caught.value) and "“a/one”" in str(caught.value)


def test_members_that_differ_are_named_each_with_why(tmp_path: Path) -> None:
    content = tar_of(
        entry("changed", ONE + b"x"),
        entry("other", TWO),
        entry("mode", TWO, mode=0o600),
        entry("extra", TWO),
        entry("kind", kind=tarfile.DIRTYPE, mode=0o755),
        entry("link", kind=tarfile.SYMTYPE, link="elsewhere"),
    )
    listed = [
        file_member(b"changed", ONE),
        file_member(b"other", b"other"),
        file_member(b"mode", TWO),
        file_member(b"missing", TWO),
        file_member(b"kind", TWO),
        Member(b"link", "link", 0, 0, 0o777, b"there"),
    ]
    opened = _open(tmp_path, zstd(content), listed)
    assert not opened.is_good and opened.matched == 0
    told = {one.subject: (one.outcome, one.message) for one in opened.findings}
    assert told[b"changed"] == (
        Outcome.DIFFERED,
        "it is 100,002 bytes long instead of 100,001; its digest is another one than at the source",
    )
    assert told[b"other"][0] is Outcome.DIFFERED and "digest" in told[b"other"][1]
    assert "0600 instead of 0644" in told[b"mode"][1]
    assert told[b"missing"][0] is Outcome.MISSING and told[b"extra"][0] is Outcome.UNEXPECTED
    assert "it is a folder and should be a file" in told[b"kind"][1]
    assert "leads elsewhere" in told[b"link"][1]


def test_an_accepted_deviation_is_recorded_and_does_not_make_the_build_bad(tmp_path: Path) -> None:
    path = tmp_path / "pack.tar"
    path.write_bytes(PLAIN)
    opened = open_file(path, [file_member(b"a/one", b"before"), LISTED[1]], accepted={b"a/one"})
    assert opened.is_good and _told(opened) == [(b"a/one", Outcome.RECORDED)]
    assert "accepted deviation" in opened.findings[0].message


def test_a_member_that_stands_twice_is_told(tmp_path: Path) -> None:
    opened = _open(tmp_path, tar_of(entry("two", b"first"), entry("two", TWO, mode=0o755)), [LISTED[1]])
    assert _told(opened) == [(b"two", Outcome.UNEXPECTED)] and not opened.is_good


def test_an_existing_archive_gets_its_members_digests_here(tmp_path: Path) -> None:
    opened = _open(tmp_path, gzipped(PLAIN), None)
    assert opened.is_good and sum(one.sha256 is not None for one in opened.members) == 2
    assert [member.sha256 for member in opened.members] == [hashlib.sha256(one).digest() for one in (ONE, TWO)]
    assert opened.findings[0].outcome is Outcome.RECORDED and "2 members" in opened.findings[0].message


def test_content_that_holds_no_tar_is_read_to_its_end_and_recorded(tmp_path: Path) -> None:
    opened = _open(tmp_path, zstd(ONE), None, "weights.bin.zst")
    assert opened.content == "zstd stream" and opened.members[0].name == b"weights.bin"
    assert opened.members[0].sha256 == hashlib.sha256(ONE).digest()
    plain = _open(tmp_path, ONE, None, "weights.bin")
    assert plain.content == "unknown content" and plain.is_good
    with pytest.raises(ContentDamaged):
        _open(tmp_path, zstd(ONE)[:-9], None, "weights.bin.zst")


def test_long_names_of_gnu_and_pax_and_bytes_that_are_no_text_come_out_exactly(tmp_path: Path) -> None:
    long = "d" * 90 + "/" + "e" * 120 + "/" + "f" * 200
    odd = "two\nlines \udcff"
    for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        content = tar_of(entry(long, ONE), entry(odd, TWO), entry("l", kind=tarfile.SYMTYPE, link=long), kind=kind)
        opened = _open(tmp_path, content, None)
        names = [member.name for member in opened.members]
        assert names == [long.encode(), odd.encode("utf-8", "surrogateescape"), b"l"]
        assert opened.members[2].link_target == long.encode()


@pytest.mark.parametrize("kind", ["--format=gnu", "--format=posix"])
def test_what_gnu_tar_makes_is_read_with_holes_hard_links_and_long_names(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "tree"
    (folder / ("x" * 120)).mkdir(parents=True)
    with (folder / "sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(3 * MIB)
        file.write(b"middle")
        file.truncate(5 * MIB)
    with (folder / "many-holes").open("wb") as file:
        for at in range(0, 80):
            file.seek(at * 65536)
            file.write(b"%d" % at)
    (folder / ("x" * 120) / ("y" * 130)).write_bytes(ONE)
    os.link(folder / "sparse", folder / "zz-linked")
    (folder / "symbolic").symlink_to("sparse")
    opened = _open(
        tmp_path, gnu_tar(folder, "--sparse", kind, names=sorted(path.name for path in folder.iterdir())), None
    )
    found = {member.name: member for member in opened.members}
    for name in ("sparse", "many-holes", f"{'x' * 120}/{'y' * 130}", "zz-linked"):
        content = (folder / name).read_bytes()
        assert found[name.encode()].sha256 == hashlib.sha256(content).digest(), name
        assert found[name.encode()].size_bytes == len(content)
    assert found[b"sparse"].stored_bytes < MIB
    assert found[b"zz-linked"].hard_link_to == b"sparse"
    assert found[b"symbolic"].link_target == b"sparse"


def test_a_frame_that_wants_more_memory_than_allowed_is_whole_and_not_read(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = tmp_path / "pack.tar.zst"
    path.write_bytes(compressor.compress(PLAIN) + compressor.flush())
    with pytest.raises(WindowTooLarge) as caught:
        open_file(path, LISTED, window_limit_bytes=64 * MIB)
    assert "128 MiB" in str(caught.value) and "--window-mib 128" in str(caught.value)
    assert open_file(path, LISTED, window_limit_bytes=128 * MIB).is_good


def test_headers_that_ask_for_too_much_are_refused_in_flat_memory(tmp_path: Path) -> None:
    huge = bytearray(tar_of(entry("././@LongLink", b"x", kind=tarfile.GNUTYPE_LONGNAME)))
    huge[124:136] = b"77777777777\0"
    huge[148:156] = b"        "
    huge[148:156] = b"%06o\0 " % sum(huge[:512])
    with pytest.raises(ContentRefused):
        _open(tmp_path, bytes(huge), LISTED)


def test_an_empty_archive_and_an_empty_file(tmp_path: Path) -> None:
    assert _open(tmp_path, bytes(10240), []).is_good
    with pytest.raises(ContentDamaged):
        _open(tmp_path, b"", [])
    assert _open(tmp_path, b"", None).is_good


@pytest.mark.parametrize("size", [1024, 10240])
def test_one_record_of_zeros_is_an_empty_archive(tmp_path: Path, size: int) -> None:
    opened = _open(tmp_path, bytes(size), None)
    assert (opened.content, opened.members) == ("tar", ())


@pytest.mark.parametrize("content", [bytes(1024) + b"ext4's superblock" * 100, bytes(10241), bytes(2_000_000)])
def test_an_image_that_begins_with_zeros_is_no_empty_archive(tmp_path: Path, content: bytes) -> None:
    opened = _open(tmp_path, content, None)
    assert opened.content == "unknown content"
    assert [(member.size_bytes, member.sha256) for member in opened.members] == [
        (len(content), hashlib.sha256(content).digest())
    ]


def test_a_stop_ends_the_read(tmp_path: Path) -> None:
    path = tmp_path / "pack.tar"
    path.write_bytes(PLAIN)
    with pytest.raises(Stopped):
        open_file(path, LISTED, watch=Watch(stop=lambda: True))


def test_files_as_they_are_are_compared_with_the_list(tmp_path: Path) -> None:
    top = tmp_path / "files"
    (top / "a").mkdir(parents=True)
    (top / "a" / "one").write_bytes(ONE)
    (top / "two").write_bytes(TWO)
    listed = [*LISTED, Member(b"a", "folder", 0, 0, 0o755), Member(b"l", "link", 0, 0, 0o777, b"two")]
    assert open_files(top, listed).is_good
    (top / "two").write_bytes(b"other")
    (top / "extra").write_bytes(b"")
    (top / "a" / "one").unlink()
    told = dict(_told(open_files(top, listed)))
    assert told == {
        b"two": Outcome.DIFFERED,
        b"extra": Outcome.UNEXPECTED,
        b"a/one": Outcome.MISSING,
    }
