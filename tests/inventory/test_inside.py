"""Looking inside archives: every form gives the same members, images their tree, hostile ones a word and no harm."""

from __future__ import annotations

import ast
import gzip
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.overlap import inside
from inventory.overlap.archives import FindingsDamaged, identity_of, is_archive_name, look_here, read_records
from inventory.overlap.hostlook import program
from inventory.overlap.images import tree_of
from inventory.overlap.inside import Record, encode
from inventory.overlap.spool import Spool, packed, unpacked
from tests.inventory.archives import digest, docker_save, oci_layout, tar_of

MEMBERS = {"d": None, "d/one": b"1" * 700, "d/two": b"", "d/\udcff bad": b"x", "long/" + "n" * 180: b"y" * 512}
FILES = {
    b"d/one": digest(b"1" * 700),
    b"d/two": digest(b""),
    b"d/\xff bad": digest(b"x"),
    b"long/" + b"n" * 180: digest(b"y" * 512),
}


def looked(path: Path) -> tuple[dict[bytes, str], Record, str]:
    """Files of the tree by name, the end, and what the tree was found to be."""
    with Spool() as spool:
        tree = tree_of(spool.fill(look_here(path)))
        files = {one.name: one.sha256 for piece, _count, _size in packed(tree.files()) for one in unpacked(piece)}
        return files, spool.end, " ".join([tree.kind, *tree.faults])


def put(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "an archive.tar"
    path.write_bytes(content)
    return path


def two_frames(content: bytes) -> bytes:
    half = len(content) // 2
    return b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstandard.compress(content[:half]) + zstandard.compress(content[half:])


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("packer", [bytes, gzip.compress, zstandard.compress, two_frames])
def test_every_form_gives_the_same_members(tmp_path: Path, form: int, packer: type[bytes]) -> None:
    content = packer(tar_of(MEMBERS, format=form))
    files, end, kind = looked(put(tmp_path, content))
    assert (files, end.name, kind) == (FILES, b"", "tar")
    assert (end.sha256, end.size_bytes) == (digest(content), len(content))
    found = identity_of(end)
    assert found is not None and found.inode == (tmp_path / "an archive.tar").stat().st_ino


def test_the_program_for_hosts_finds_the_same_and_needs_no_library(tmp_path: Path) -> None:
    packers: tuple[Callable[[bytes], bytes], ...] = (bytes, gzip.compress, two_frames)
    for number, packer in enumerate(packers):
        (tmp_path / f"{number}.tar").write_bytes(packer(tar_of(MEMBERS)))
    layered = docker_save([zstandard.compress(tar_of({"a": b"1"})), tar_of({"b": b"2"})])
    (tmp_path / "3.tar").write_bytes(zstandard.compress(layered))
    (tmp_path / "look.py").write_bytes(program())
    (tmp_path / "list").write_bytes(b"0.tar\0001.tar\0002.tar\0003.tar\0gone.tar\0")
    command = [sys.executable, "-I", "-S", "-B", "look.py", "list", ".", "progress"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "progress").read_text() == "5"
    for number in range(4):
        here = list(look_here(tmp_path / f"{number}.tar"))
        there = list(read_records([(tmp_path / f"out.{number}").read_bytes()]))
        assert there == here and here[-1].name == b""
    assert list(read_records([(tmp_path / "out.4").read_bytes()])) == [Record("e", b"unreadable")]


def test_the_program_for_hosts_can_be_read_by_an_older_python() -> None:
    tree = ast.parse(program(), feature_version=(3, 6))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names)


def test_an_image_is_its_tree_after_whiteouts(tmp_path: Path) -> None:
    layers = [
        tar_of({"etc/gone": b"1", "etc/kept": b"2", "opt/a/x": b"3", "opt/b": b"4", "was/folder": b"5", "top": b"6"}),
        tar_of({"etc/.wh.gone": b"", "opt/.wh..wh..opq": b"", "opt/new": b"7", "was": b"8", "top": b"9"}),
        tar_of({"./etc/gone": b"again", ".wh.top": b""}),
    ]
    expected = {b"etc/kept": b"2", b"opt/new": b"7", b"was": b"8", b"etc/gone": b"again"}
    digests = {name: digest(content) for name, content in expected.items()}
    saved, end, kind = looked(put(tmp_path, docker_save(layers)))
    assert (saved, end.name, kind) == (digests, b"", "image")
    layout = oci_layout(tmp_path / "layout", layers)
    assert looked(layout)[::2] == (digests, "image")
    packed_layout = io.BytesIO()
    with tarfile.open(fileobj=packed_layout, mode="w:gz") as archive:
        archive.add(layout, arcname=".")
    assert looked(put(tmp_path, packed_layout.getvalue()))[::2] == (digests, "image")


def test_two_images_in_one_archive_keep_their_names_apart(tmp_path: Path) -> None:
    one, other = tar_of({"a": b"1"}), tar_of({"a": b"2"})
    saved = b'[{"RepoTags":["x:1"],"Layers":["1/layer.tar"]},{"RepoTags":null,"Layers":["2/layer.tar"]}]'
    content = tar_of({"1/layer.tar": one, "2/layer.tar": other, "manifest.json": saved})
    files = looked(put(tmp_path, content))[0]
    assert files == {b"x:1/a": digest(b"1"), b"image 2/a": digest(b"2")}


def test_layers_that_are_missing_or_cut_off_are_told(tmp_path: Path) -> None:
    whole = tar_of({"a": b"1" * 2000})
    missing = tar_of({"manifest.json": b'[{"Layers":["1/layer.tar"]}]'})
    assert looked(put(tmp_path, missing))[2] == "image layers-missing"
    cut = docker_save([whole[:1500]])
    assert looked(put(tmp_path, cut))[2] == "image cut-off"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (tar_of(MEMBERS)[:700], b"cut-off"),
        (tar_of({"a": b"1"})[:1024], b"cut-off"),
        (gzip.compress(tar_of(MEMBERS))[:-30], b"cut-off"),
        (zstandard.compress(tar_of(MEMBERS))[:-3], b"cut-off"),
        (tar_of({"a": b"1" * 600}) + b"x", b""),
        (b"no archive at all", b"no-archive"),
        (b"", b"no-archive"),
        (tar_of({"a": b"1"})[:1024] + b"?" * 1024, b"damaged"),
        (b"\x1f\x8b" + b"?" * 600, b"damaged"),
    ],
)
def test_what_is_not_whole_is_told_by_a_word(tmp_path: Path, content: bytes, word: bytes) -> None:
    assert looked(put(tmp_path, content))[1].name == word


def test_hostile_names_are_names_and_nothing_is_written(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    members = [("../victim", b"x"), (str(victim), b"x"), ("d/../../victim", b"y"), ("a" * 5000, b"z")]
    files, end, _kind = looked(put(tmp_path, tar_of(members)))
    assert end.name == b"" and len(files) == 4 and b"../victim" in files
    assert sorted(path.name for path in tmp_path.iterdir()) == ["an archive.tar"]


def test_links_and_devices_are_told_and_never_followed(tmp_path: Path) -> None:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for kind, target in ((tarfile.SYMTYPE, "/etc/passwd"), (tarfile.LNKTYPE, "/etc/passwd"), (tarfile.CHRTYPE, "")):
            info = tarfile.TarInfo("x" + kind.decode())
            info.type, info.linkname = kind, target
            archive.addfile(info)
    records = list(look_here(put(tmp_path, held.getvalue())))
    assert [record.kind for record in records] == ["l", "h", "o", "e"]
    (tmp_path / "link.tar").symlink_to(tmp_path / "an archive.tar")
    assert list(look_here(tmp_path / "link.tar")) == [Record("e", b"unreadable")]


def test_a_bomb_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "BYTES_WITHOUT_RATIO", 2**20)
    monkeypatch.setattr(inside, "RATIO_AT_MOST", 2)
    bomb = gzip.compress(tar_of({"a": b"\0" * 8 * 2**20}))
    assert looked(put(tmp_path, bomb))[1].name == b"too-large"
    layered = docker_save([bomb])
    assert looked(put(tmp_path, layered))[1].name == b"too-large"
    monkeypatch.setattr(inside, "MEMBERS_AT_MOST", 10)
    assert looked(put(tmp_path, tar_of({str(number): b"" for number in range(11)})))[1].name == b"too-many"


def test_a_sparse_member_that_claims_exabytes_ends_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "BYTES_WITHOUT_RATIO", 2**24)
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(2**60), "GNU.sparse.numblocks": "1"}
    content = info.tobuf(tarfile.PAX_FORMAT) + b"\0" * 1024
    assert looked(put(tmp_path, content))[1].name == b"too-large"


def test_a_header_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**40
    assert looked(put(tmp_path, info.tobuf() + b"x" * 5000))[1].name == b"damaged"
    info.type, info.size = tarfile.XHDTYPE, 100 * 2**20
    assert looked(put(tmp_path, info.tobuf() + b"x" * 5000))[1].name == b"damaged"


def test_a_frame_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    packer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    )
    held = io.BytesIO()
    with packer.stream_writer(held, closefd=False) as writer:
        writer.write(tar_of({"a": b"1"}))
    (tmp_path / "look.py").write_bytes(program())
    path = put(tmp_path, held.getvalue())
    assert looked(path)[1].name == b"window"
    (tmp_path / "list").write_bytes(b"./an archive.tar\0")
    command = [sys.executable, "-I", "-S", "-B", "look.py", "list", ".", "progress"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert list(read_records([(tmp_path / "out.0").read_bytes()]))[-1].name == b"window"


names = st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name and name.strip(b"./") != b"")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault of ours
@given(members=st.lists(st.tuples(names, st.binary(max_size=5)), max_size=5), cut=st.integers(1, 7))
def test_findings_hold_any_bytes_as_a_name(members: list[tuple[bytes, bytes]], cut: int) -> None:
    records = [Record("f", name, len(content), digest(content)) for name, content in members]
    records += [Record("l", name, 0, "", content) for name, content in members]
    text = b"".join(encode(record) for record in records)
    assert list(read_records(text[at : at + cut] for at in range(0, len(text), cut))) == records


@pytest.mark.parametrize(
    "text", [b"f 1 - 1 0\na", b"z 1 - 1 0\na", b"f 1 %b 9 0\na" % (b"0" * 64), b"x" * 300, b"f -1 - 0 0\n"]
)
def test_findings_that_no_look_writes_are_refused(text: bytes) -> None:
    with pytest.raises(FindingsDamaged):
        list(read_records([text]))


def test_names_of_archives() -> None:
    assert all(is_archive_name(name) for name in (b"a.tar", b"A.TAR.GZ", b"x.tgz", b"b.tar.zst"))
    assert not any(is_archive_name(name) for name in (b"a.zip", b"tar", b"a.tar.part", b"a.tar.xz"))
