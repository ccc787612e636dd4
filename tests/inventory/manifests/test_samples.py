"""Lists as other programs write them: what is read, and that each comes back the same from our own writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from inventory.manifests import bagit
from inventory.manifests.formats import FORMATS, detect, read_list
from inventory.manifests.lists import FileList, ListedEntry, ListError

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SAMPLES = {
    "du-ab.txt": ("du", 7, 4107),
    "rclone-lsjson.json": ("lsjson", 6, None),
    "libreoffice-7.5.distinfo": ("sums", None, None),
    "relative.mtree": ("mtree", 6, 24_576),
    "hashdeep-list.txt": ("hashdeep", 3, 122),
    "ubuntu-core-12.04.4.SHA256SUMS": ("sums", 3, None),
}


def sample(name: str) -> bytes:
    return (FIXTURES / "manifests" / name).read_bytes()


def names(found: FileList) -> list[bytes]:
    return [entry.name for entry in found.entries]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_sample_is_told_by_its_content_and_read(name: str) -> None:
    format_name, count, total = SAMPLES[name]
    assert detect(sample(name)) == format_name
    found = read_list(sample(name))
    if count is not None:
        assert len(found.entries) == count
    if total is not None:
        assert sum(entry.size_bytes or 0 for entry in found.entries) == total


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("format_name", ["csv", "lsjson", "mtree"])
def test_a_sample_survives_writing_in_every_format_that_holds_all(name: str, format_name: str) -> None:
    found = read_list(sample(name)).entries
    writer, reader = FORMATS[format_name].write, FORMATS[format_name].read
    assert writer is not None and reader is not None
    again = reader(b"".join(writer(found))).entries
    if format_name == "csv":  # holds SHA-256 alone
        found = tuple(keep_sha256(entry) for entry in found)
    assert [at_line_one(entry) for entry in again] == [at_line_one(entry) for entry in found]


def at_line_one(entry: ListedEntry) -> tuple[object, ...]:
    return (entry.name, entry.kind, entry.size_bytes, entry.mtime_ns, entry.digests, entry.link_target)


def keep_sha256(entry: ListedEntry) -> ListedEntry:
    kept = tuple(pair for pair in entry.digests if pair[0] == "sha256")
    return ListedEntry(entry.name, 1, entry.kind, entry.size_bytes, entry.mtime_ns, kept, entry.link_target)


def test_dus_root_is_taken_away_and_folders_are_told_by_what_is_in_them() -> None:
    found = {entry.name: entry for entry in read_list(sample("du-ab.txt")).entries}
    assert found[b"a/b/zeros.bin"].size_bytes == 4096 and found[b"a/b"].kind == "folder" == found[b"a"].kind
    assert b"/srv/tree" not in found and found[b"a/with space.txt"].kind == "file"


def test_distinfo_gives_size_and_digest_of_one_file_together() -> None:
    found = read_list(sample("libreoffice-7.5.distinfo")).entries
    assert found[0].size_bytes == 266_318_492 and found[0].digest("sha256").startswith("920ddd15")
    assert all(entry.digests and entry.size_bytes for entry in found)


def test_mtree_knows_nested_relative_and_full_paths() -> None:
    found = names(read_list(sample("relative.mtree")))
    assert found == [b"lib", b"lib/foo", b"ayo", b"lib/dir/sub", b"lib/dir/sub/file.txt", b"lib/dir/PKG.info"]


def bags(kind: str) -> list[Path]:
    return sorted(path.parent for path in (FIXTURES / "bagit").glob(f"*/{kind}/*/bagit.txt"))


@pytest.mark.parametrize("folder", [*bags("valid"), *bags("warning")], ids=lambda path: path.name)
def test_a_valid_bag_is_read(folder: Path) -> None:
    found = bagit.read_bag(folder)
    assert found.entries and all(entry.name.startswith(b"data/") for entry in found.entries)


def test_a_bags_percent_signs_mean_what_its_version_says() -> None:
    found = bagit.read_bag(FIXTURES / "bagit/v0.97/valid/bag-with-encoded-names")
    assert b"data/%7Etest1.txt" in names(found) and b"data/%test2.txt" in names(found)
    assert names(bagit.read(b"8ad8757baa8564dc136c1e07507f4a98  data/a%0Ab%25\n")) == [b"data/a\nb%"]
    old = b"8ad8757baa8564dc136c1e07507f4a98  data/a%25\n"
    assert names(bagit.read(old, version="0.97")) == [b"data/a%25"]


def test_a_bag_that_leads_outside_is_refused_with_its_lines() -> None:
    with pytest.raises(ListError) as refusal:
        bagit.read_bag(FIXTURES / "bagit/v0.97/invalid/out-of-scope-file-paths-using-dot-notation")
    assert [problem.line for problem in refusal.value.problems] == [3, 4]


def test_an_absolute_path_in_fetch_txt_is_refused_and_nothing_is_fetched() -> None:
    with pytest.raises(ListError, match="data/"):
        bagit.read_bag(FIXTURES / "bagit/v0.97/linux-only/out-of-scope-file-paths-using-absolute-path-for-fetch")
    notes = "\n".join(bagit.read_bag(FIXTURES / "bagit/v0.97/valid/holey-bag").notes)
    assert "nothing is fetched" in notes


@pytest.mark.parametrize("folder", ["v1.0/invalid/notAllManifestsListAllFiles", "v0.97/invalid/extra-file-in-bag"])
def test_a_bag_with_a_file_that_no_manifest_lists_is_refused(folder: str) -> None:
    with pytest.raises(ListError, match="no manifest lists it"):
        bagit.read_bag(FIXTURES / "bagit" / folder)


def test_manifests_of_one_bag_that_list_different_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "bagit.txt").write_text("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    (tmp_path / "manifest-md5.txt").write_text("8ad8757baa8564dc136c1e07507f4a98  data/a\n")
    (tmp_path / "manifest-sha256.txt").write_text(f"{'0' * 64}  data/b\n")
    with pytest.raises(ListError, match="does not list"):
        bagit.read_bag(tmp_path)
