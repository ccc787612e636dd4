"""Faults that lists of this kind have, and any byte string as a name in every format."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from inventory.manifests import csvlist, findlist, hashdeep, sums
from inventory.manifests.formats import FORMATS, WRITABLE, detect, read_list
from inventory.manifests.lists import FileList, ListedEntry, ListError, ListUnwritable
from inventory.manifests.said import Said
from inventory.saying import said_here

SAMPLES = Path(__file__).resolve().parents[2] / "fixtures" / "manifests"
DIGEST = "0123456789abcdef" * 4
OTHER = "f" * 64

part = st.binary(min_size=1, max_size=40).filter(
    lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b"..")
)
any_name = st.lists(part, min_size=1, max_size=3).map(b"/".join)


def names(found: FileList) -> list[bytes]:
    return [entry.name for entry in found.entries]


def both_ways(format_name: str, entries: list[ListedEntry]) -> list[bytes]:
    one = FORMATS[format_name]
    assert one.write is not None and one.read is not None
    return names(one.read(b"".join(one.write(entries))))


@pytest.mark.parametrize("format_name", ["sums", "csv", "lsjson", "mtree", "du", "find"])
@given(found=st.lists(any_name, min_size=1, max_size=5, unique=True))
def test_any_bytes_survive_as_a_name(format_name: str, found: list[bytes]) -> None:
    entries = [ListedEntry(name, 1, "file", 3, 5, (("sha256", DIGEST),)) for name in found]
    if format_name == "du":  # whose last line is the root when all others lie below it
        entries, found = [*entries, ListedEntry(b"zz", 1, "file", 1)], [*found, b"zz"]
        found = [name for name in found if not any(other.startswith(name + b"/") for other in found)]
        entries = [entry for entry in entries if entry.name in found]
        if len(set(found)) != len(found) or b"zz" not in found:
            return
    assert both_ways(format_name, entries) == found


@given(found=st.lists(any_name, min_size=1, max_size=5, unique=True))
def test_hashdeep_refuses_what_it_cannot_hold_and_holds_the_rest(found: list[bytes]) -> None:
    entries = [ListedEntry(name, 1, "file", 3, None, (("sha256", DIGEST),)) for name in found]
    if any(b"\n" in name or b"\r" in name for name in found):
        with pytest.raises(ListUnwritable, match="Nothing was written"):
            both_ways("hashdeep", entries)
    else:
        assert both_ways("hashdeep", entries) == found


@pytest.mark.parametrize(
    "encoding",
    ["lf", "crlf", "bom", "utf-16", "utf-16-le", "utf-16-be", "utf-16 crlf", "upper", "no end", "crlf, no end"],
)
def test_the_same_list_in_every_encoding_is_the_same(encoding: str) -> None:
    plain = f"{DIGEST}  a b\n{OTHER} *c\n"
    variants = {
        "lf": plain.encode(),
        "crlf": plain.replace("\n", "\r\n").encode(),
        "bom": b"\xef\xbb\xbf" + plain.encode(),
        "utf-16": plain.encode("utf-16"),
        "utf-16-le": plain.encode("utf-16-le"),
        "utf-16-be": plain.encode("utf-16-be"),
        "utf-16 crlf": plain.replace("\n", "\r\n").encode("utf-16"),
        "crlf, no end": plain.replace("\n", "\r\n").removesuffix("\r\n").encode(),
        "upper": plain.replace(DIGEST, DIGEST.upper()).encode(),
        "no end": plain.rstrip("\n").encode(),
    }
    found = read_list(variants[encoding])
    assert [(entry.name, entry.digest("sha256")) for entry in found.entries] == [(b"a b", DIGEST), (b"c", OTHER)]


def test_sha256sums_own_lines_are_read_as_it_means_them(tmp_path: Path) -> None:
    odd = [b" lead", b"trail ", b"*star", b"--", b"-dash", b"a\\b", b"a\nb", b"cr\r", b"a) = b(", b"plain"]
    for name in odd:
        (tmp_path / name.decode()).write_bytes(name)
    arguments = [name.decode() for name in odd]
    for form in ([], ["--binary"], ["--tag"]):
        made = subprocess.run(["sha256sum", *form, "--", *arguments], cwd=tmp_path, capture_output=True, check=True)
        assert names(sums.read(made.stdout)) == odd, form
    entries = sums.read(made.stdout).entries
    (tmp_path / "SUMS").write_bytes(b"".join(sums.write(entries)))
    assert subprocess.run(["sha256sum", "-c", "SUMS"], cwd=tmp_path, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (f"{DIGEST}  ../up\n", 1, "leads out"),
        (f"{DIGEST}  ok\n{DIGEST}  a/../b\n", 2, "leads out"),
        (f"{DIGEST}  {'x' * 300}\n", 1, "255"),
        (f"{DIGEST}  {'x/' * 2500}y\n", 1, "4,096"),
        (f"{DIGEST}  a\nnot a line\n", 2, "is neither"),
        (f"{DIGEST}  a\n{OTHER}  a\n", 2, "says something else"),
        (f"{DIGEST[:-1]}  a\n", 1, "no digest"),
        (f"\\{DIGEST}  a\\qb\n", 1, "means nothing"),
        (f"SHA256 (a) = {DIGEST[:-2]}\n", 1, "SHA256 digest"),
        (f"WHIRL (a) = {DIGEST}\n", 1, "known kind"),
        ("", 1, "empty"),
    ],
)
def test_a_doubtful_line_stops_the_whole_list_with_its_number(content: str, line: int, words: str) -> None:
    with pytest.raises(ListError, match=words) as refusal:
        read_list(content.encode())
    assert refusal.value.problems[0].line == line


def test_a_carriage_return_that_only_some_lines_end_in_is_doubtful() -> None:
    with pytest.raises(ListError, match="carriage return") as refusal:
        read_list(f"{DIGEST}  a\r\n{DIGEST}  b\n{OTHER}  c\r\n".encode())
    assert [problem.line for problem in refusal.value.problems] == [1, 3]


def test_a_long_list_in_utf16_is_told_by_all_of_it() -> None:
    plain = "".join(f"{DIGEST}  {'x' * 40}\U0001f600{number}\n" for number in range(400))
    assert len(read_list(plain.encode("utf-16")).entries) == 400


def test_names_of_one_letter_with_nul_are_no_utf16() -> None:
    assert names(read_list(b"a\0b\0c\0")) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("format_name", [one.name for one in WRITABLE])
@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.iterdir()))
def test_every_sample_comes_back_from_every_format_as_far_as_that_holds_it(format_name: str, sample: str) -> None:
    found = read_list((SAMPLES / sample).read_bytes()).entries
    one = FORMATS[format_name]
    assert one.write is not None
    files = [entry for entry in found if entry.kind == "file" and (entry.digest("sha256") or not one.needs_digests)]
    written = b"".join(one.write(found))
    if not files:
        return
    again = (one.read or findlist.read)(written).entries
    told = [entry for entry in again if entry.kind == "file"]
    top = b"data/" if format_name == "bagit" else b""
    assert {top + entry.name.lstrip(b"/" if top else b"") for entry in files} == {entry.name for entry in told}
    if one.needs_digests:
        assert {entry.digest("sha256") for entry in files} == {entry.digest("sha256") for entry in told}
    if format_name in ("du", "hashdeep", "csv", "lsjson", "mtree"):
        sizes = {entry.name: entry.size_bytes or 0 for entry in files}
        assert sizes == {entry.name: entry.size_bytes or 0 for entry in told}


def test_a_sentence_keeps_what_it_was_made_of_for_other_languages() -> None:
    with pytest.raises(ListError) as refusal:
        read_list(f"{DIGEST}  a\n{DIGEST[:-1]}  b\n".encode())
    said = refusal.value.sentences()[0]
    assert isinstance(said, Said) and said == str(refusal.value)
    assert said.text == "line %(line)s: %(sentence)s" and isinstance(said.values["sentence"], Said)
    with translation.override("zh-hans"):
        assert said_here(said + " 100 %") == f"{said_here(said)} 100 %" and "63" in said_here(said)


def test_everything_wrong_is_told_at_once() -> None:
    with pytest.raises(ListError) as refusal:
        sums.read(b"x\n" + DIGEST.encode() + b"  ok\ny\n")
    assert [problem.line for problem in refusal.value.problems] == [1, 3]


def test_dots_and_doubled_slashes_are_taken_away_with_a_note() -> None:
    found = sums.read(b"".join(f"{DIGEST}  {name}\n".encode() for name in ("./data/x", "data//y", "data/./z")))
    assert names(found) == [b"data/x", b"data/y", b"data/z"] and "3 times" in found.notes[0]


def test_the_same_line_twice_is_a_note_and_twins_are_hinted_at() -> None:
    assert "twice" in sums.read(f"{DIGEST}  a\n{DIGEST}  a\n".encode()).notes[0]
    found = sums.read(f"{DIGEST}  caf\u00e9\n{DIGEST}  cafe\u0301\n".encode())
    assert len(found.entries) == 2 and "accents" in found.notes[0]
    assert "upper and lower" in sums.read(f"{DIGEST}  A\n{DIGEST}  a\n".encode()).notes[0]


@pytest.mark.parametrize("name", [b'=HYPERLINK("x:y","z")', b"+1", b"@SUM(A1)", b"\tx", b"-1", b"'quoted"])
def test_no_name_is_a_formula_and_each_comes_back(name: bytes) -> None:
    made = b"".join(csvlist.write([ListedEntry(name, 1, "file", 1)]))
    cell = made.split(b"\r\n")[1].lstrip(b'"')
    assert not cell.startswith((b"=", b"+", b"-", b"@", b"\t"))
    assert names(csvlist.read(made)) == [name]


def test_somebody_elses_csv_is_taken_literally() -> None:
    found = csvlist.read(b"File;Bytes;SHA256;Owner\n=x;12;;root\n'y;;" + DIGEST.encode() + b";\n")
    assert names(found) == [b"=x", b"'y"] and found.entries[0].size_bytes == 12
    assert found.entries[1].digest("sha256") == DIGEST


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"path,size\na,1,2\n", 2),
        (b"path,size\na,many\n", 2),
        (b'path,size\n"a\nb",1\nc,x\n', 4),
        (b"owner,size\nx,1\n", 1),
        (b'path,size\n"a,1\n', 2),
    ],
)
def test_a_wrong_csv_says_where(content: bytes, line: int) -> None:
    with pytest.raises(ListError) as refusal:
        csvlist.read(content)
    assert refusal.value.problems[0].line == line


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'[\n{"Path":"a","Size":1},\n{"Path":"b","Size"', 3),
        (b'[\n{"Size":1}\n]', 2),
        (b'[{"Path":"a","Size":"x"}]', 1),
        (b'[\n{"Path":"\xff"}]', 2),
        (b'[{"Path":"a","ModTime":"soon"}]', 1),
        (b'[\n{"Path":"\\ud800"}]', 2),
    ],
)
def test_a_wrong_lsjson_says_where(content: bytes, line: int) -> None:
    with pytest.raises(ListError) as refusal:
        read_list(content, format_name="lsjson")
    assert refusal.value.problems[0].line == line


def test_a_cut_nul_list_is_refused() -> None:
    with pytest.raises(ListError, match="cut off"):
        findlist.read(b"a\0b")
    assert names(findlist.read(b"./a\0./b\n\0")) == [b"a", b"b\n"]


def test_finds_own_listing_is_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a\nb").write_bytes(b"12345")
    listed = ["find", ".", "-printf", "%y %s %T@ %p\\0"]
    made = subprocess.run(listed, cwd=tmp_path, capture_output=True, check=True).stdout
    found = {entry.name: entry for entry in read_list(made).entries}
    assert found[b"sub/a\nb"].size_bytes == 5 and found[b"sub"].kind == "folder"
    assert found[b"sub/a\nb"].mtime_ns == (tmp_path / "sub" / "a\nb").stat().st_mtime_ns
    made = subprocess.run(["du", "-0ab", "."], cwd=tmp_path, capture_output=True, check=True).stdout
    assert detect(made) == "du" and {b"sub/a\nb", b"sub"} == set(names(read_list(made)))


def test_hashdeep_without_its_columns_says_so() -> None:
    with pytest.raises(ListError, match="names the columns"):
        hashdeep.read(b"%%%% HASHDEEP-1.0\n12,aa,b\n")
