"""Reading a source: trailers, nonces, greetings, digests, with GNU tools, BusyBox's, and without python3."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.remote.names import RemoteName
from tests.engine.books import noise
from tests.parts import find, need
from tests.sshd import busybox_folder
from transfers.engine.geometry import Piece
from transfers.engine.source import (
    PieceFault,
    PieceReader,
    StreamConfused,
    block_digests_script,
    digests_script,
    opening_line,
    parse_digests,
    prelude,
    request,
)

NONCE = b"0123456789abcdef0123456789abcdef"
NAMES = [
    b"plain",
    b"with space",
    b'it\'s "quoted"',
    b"two\nlines",
    b"-rf",
    b"\xff\xfe",
    b"$(touch x)`id`;&|*?[a]",
    b"\\",
]
Run = Callable[[bytes], bytes]


def _piece(length: int, offset: int = 0) -> Piece:
    return Piece(offset, length, RemoteName(b"/s"), offset)


@pytest.fixture(params=["this machine", "busybox", "without python"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run shell text by /bin/sh with a host's tools."""
    shell, path = ["/bin/sh", "-s"], os.environ["PATH"]
    folder = tmp_path_factory.mktemp("tools")
    if request.param == "busybox":
        need("busybox")
        path = str(busybox_folder(folder))
        shell = [f"{folder}/sh", "-s"]
    elif request.param == "without python":
        for tool in ("dd", "tail", "head", "sha256sum", "mktemp", "mkfifo", "tee", "wc", "rm", "cat"):
            (folder / tool).symlink_to(find(tool) or tool)
        path = str(folder)

    def run_script(script: bytes) -> bytes:
        done = subprocess.run(shell, input=script, capture_output=True, env={"PATH": path, "HOME": "/"}, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_script


def _read(output: bytes, pieces: list[Piece], step: int = 1000) -> list[bytes]:
    line = opening_line(NONCE)
    rest = output[output.index(line) + len(line) :]
    reader, got, at = PieceReader(NONCE), [], 0
    for piece in pieces:
        data = b""
        while True:
            more, is_end = reader.read(piece)
            data += more
            if is_end:
                break
            if not more:
                assert at < len(rest), "the stream ended in the middle"
                reader.feed(rest[at : at + step])
                at += step
        got.append(data)
    return got


@pytest.mark.parametrize("name", NAMES)
def test_any_stretch_of_a_file_of_any_name_is_read_exactly(run: Run, tmp_path: Path, name: bytes) -> None:
    content = noise(300_000)
    path = bytes(tmp_path) + b"/" + name
    with open(path, "wb") as file:
        file.write(content)
    spans = [(0, 65536), (65536, 131072), (1, 70_000), (299_999, 1), (262_144, 37_856), (100, 65536)]
    pieces = [Piece(at, count, RemoteName(path), at) for at, count in spans]
    output = run(prelude(NONCE) + request(pieces))
    assert _read(output, pieces) == [content[at : at + count] for at, count in spans]


def test_a_source_that_ends_early_is_a_fault_at_that_byte_and_the_next_piece_is_right(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"x" * 70_000)
    missing = RemoteName(bytes(tmp_path) + b"/missing")
    source = RemoteName(bytes(path))
    pieces = [Piece(0, 131072, source, 0), Piece(0, 65536, missing, 0), Piece(0, 5, source, 0)]
    output = run(prelude(NONCE) + request(pieces))
    reader = PieceReader(NONCE)
    reader.feed(output[output.index(opening_line(NONCE)) + len(opening_line(NONCE)) :])
    data = b""
    with pytest.raises(PieceFault) as short:
        while True:
            data += reader.read(pieces[0])[0]
    assert short.value.got == 70_000 and "ended at byte 70,000" in short.value.sentence()
    with pytest.raises(PieceFault) as gone:
        reader.read(pieces[1])
    assert gone.value.got == 0
    assert reader.read(pieces[2]) == (b"xxxxx", True)


@given(st.binary(max_size=400), st.integers(1, 90), st.data())
def test_a_reader_gives_the_same_bytes_however_the_stream_is_cut(
    content: bytes, step: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(content)))
    parts = [part for part in (content[:cut], content[cut:]) if part]
    stream = b"".join(part + NONCE + b" 000\n" for part in parts)
    pieces = [_piece(len(part)) for part in parts]
    assert _read(opening_line(NONCE) + stream, pieces, step) == parts


def test_content_that_looks_like_the_beginning_of_a_trailer_is_content() -> None:
    content = NONCE[:20] + b" 000\n" + NONCE[:31]
    stream = opening_line(NONCE) + content + NONCE + b" 000\n"
    for step in range(1, 40):
        assert _read(stream, [_piece(len(content))], step) == [content]


@pytest.mark.parametrize("stream", [b"x" * 200, b"x" * 11 + NONCE + b" 000\n", NONCE + b" abc\n"])
def test_a_stream_that_no_request_explains_is_told(stream: bytes) -> None:
    reader = PieceReader(NONCE)
    reader.feed(stream)
    with pytest.raises((StreamConfused, PieceFault)):
        for _ in range(5):
            reader.read(_piece(10))


@pytest.mark.parametrize("name", NAMES)
def test_digests_of_chunks_and_whole_are_those_of_the_bytes(run: Run, tmp_path: Path, name: bytes) -> None:
    content = noise(400_001)
    path = bytes(tmp_path) + b"/" + name
    with open(path, "wb") as file:
        file.write(content)
    cuts = [(0, 131072), (131072, 100_000), (231_072, 168_929)]
    pieces = [[Piece(at, count, RemoteName(path), at)] for at, count in cuts]
    lines = list(parse_digests(run(digests_script(pieces)).splitlines()))
    assert [line.sha256 for line in lines] == [
        *(hashlib.sha256(content[at : at + count]).digest() for at, count in cuts),
        hashlib.sha256(content).digest(),
    ]
    assert [line.index for line in lines] == [0, 1, 2, None]
    later = list(parse_digests(run(digests_script(pieces[1:], first=1, whole=False)).splitlines()))
    assert later == lines[1:3]


def test_a_chunk_over_several_files_has_one_digest(run: Run, tmp_path: Path) -> None:
    pieces = []
    for number, size in enumerate((70_000, 5, 65536)):
        (tmp_path / f"f{number}").write_bytes(noise(size, number))
        pieces.append(Piece(0, size, RemoteName(bytes(tmp_path / f"f{number}")), 0))
    content = b"".join(noise(size, number) for number, size in enumerate((70_000, 5, 65536)))
    lines = list(parse_digests(run(block_digests_script([pieces])).splitlines()))
    assert [line.sha256 for line in lines] == [hashlib.sha256(content).digest()]


def test_no_file_at_all_has_the_digest_of_nothing(run: Run) -> None:
    assert [line.sha256 for line in parse_digests(run(digests_script([])).splitlines())] == [
        hashlib.sha256(b"").digest()
    ]


def test_a_chunk_that_cannot_be_read_in_full_gives_no_digest(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(noise(100_000))
    source = RemoteName(bytes(tmp_path / "s"))
    pieces = [[Piece(0, 65536, source, 0)], [Piece(65536, 65536, source, 65536)]]
    lines = parse_digests(run(digests_script(pieces)).splitlines())
    assert next(lines).index == 0
    with pytest.raises(ValueError, match="chunk 1 could not be read in full"):
        next(lines)


@pytest.mark.parametrize("line", [b"", b"chunk 1 abc", b"whole", b"hello there you", b"chunk x " + b"0" * 64])
def test_a_line_of_another_kind_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        list(parse_digests([line]))
