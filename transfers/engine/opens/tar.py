"""Reading a tar stream, member by member, in flat memory, to its proper end.

What counts as the proper end: two blocks of zeros. An archive that stops before is damaged (it may have been cut off
exactly between two members); what follows the end, other than zeros, is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from transfers.engine.opens.base import READ_BYTES, ContentDamaged, ContentRefused
from transfers.engine.opens.plain import ExactStream
from transfers.engine.opens.tar_headers import (
    BLOCK,
    EXTENSION_BYTES_AT_MOST,
    KINDS,
    SPARSE_RUNS_AT_MOST,
    Header,
    Runs,
    check_runs,
    number,
    parse_header,
    parse_pax,
    pax_time,
)


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member. `runs` are the stored stretches of its expanded content; None: all of it, from 0 on."""

    name: bytes
    kind: str  # "file", "hard link", "link", "folder", "device", "pipe", "other"
    size_bytes: int
    stored_bytes: int
    mtime_ns: int
    mode: int
    link_target: bytes
    offset: int
    runs: Runs | None = None


class TarReader:
    """Iterate over it once. `pieces()` reads the content of the member that came last; what is not read is skipped."""

    def __init__(self, stream: ExactStream) -> None:
        self._stream = stream
        self._start = stream.offset
        self._left = 0  # content of the present member that was not read yet, with its padding
        self._stored = 0
        self._member: TarMember | None = None
        self._common: dict[bytes, bytes] = {}
        self._name = b""
        self.notes: list[str] = []

    @property
    def offset(self) -> int:
        """Bytes of the tar stream that were read."""
        return self._stream.offset - self._start

    def __iter__(self) -> Iterator[TarMember]:
        while (member := self._next()) is not None:
            self._member, self._name = member, member.name
            yield member
        self._drain()

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Stored stretches of the present member: (offset in the expanded file, bytes). Raises ContentError."""
        member = self._member
        if member is None:
            return
        for start, count in ((0, member.stored_bytes),) if member.runs is None else member.runs:
            at, end = start, start + count
            while at < end:
                data = self._stream.read(min(READ_BYTES, end - at))
                if not data:
                    raise self._cut()
                self._left -= len(data)
                yield at, data
                at += len(data)

    def _cut(self) -> ContentDamaged:
        return ContentDamaged("the archive is cut off", self.offset, "tar stream", self._name)

    def _skip(self) -> None:
        while self._left:
            data = self._stream.read(min(READ_BYTES, self._left))
            if not data:
                raise self._cut()
            self._left -= len(data)
        self._member = None

    def _block(self) -> bytes:
        block = self._stream.exactly(BLOCK)
        if not block:
            reason = "the archive ends without its end mark (two blocks of zeros); it may be cut off"
            raise ContentDamaged(reason, self.offset, "tar stream", self._name)
        if len(block) < BLOCK:
            raise self._cut()
        return block

    def _extension(self, header: Header, at: int) -> bytes:
        """The content of a header that says more about the next one."""
        if header.size_bytes > EXTENSION_BYTES_AT_MOST:
            raise ContentRefused(f"a header's extension is {header.size_bytes:,} bytes long", at, self._name)
        padded = -(-header.size_bytes // BLOCK) * BLOCK
        content = self._stream.exactly(padded)
        if len(content) < padded:
            raise self._cut()
        return content[: header.size_bytes]

    def _next(self) -> TarMember | None:
        self._skip()
        first = self.offset
        long_name = long_link = b""
        own: list[tuple[bytes, bytes]] = []
        while True:
            at = self.offset
            block = self._block()
            if not any(block):
                if not any(self._block()):
                    return None
                raise ContentDamaged("a single block of zeros stands between two members", at, "tar stream", self._name)
            try:
                header = parse_header(block, at)
            except (ContentDamaged, ContentRefused) as error:
                error.member = self._name
                raise
            if header.type == b"L":
                long_name = self._extension(header, at).split(b"\0", 1)[0]
            elif header.type == b"K":
                long_link = self._extension(header, at).split(b"\0", 1)[0]
            elif header.type in (b"x", b"X"):
                own = parse_pax(self._extension(header, at), at)
            elif header.type == b"g":
                self._common.update(parse_pax(self._extension(header, at), at))
            elif header.type == b"M":
                raise ContentRefused("it is the later part of a set of tar volumes", at, self._name)
            elif header.type == b"V":
                self._left = -(-header.size_bytes // BLOCK) * BLOCK
                self._skip()
            else:
                return self._made(header, first, long_name, long_link, own)
            if self.offset - first > 4 * EXTENSION_BYTES_AT_MOST:
                raise ContentRefused("a member has more extension headers than any honest one", at, self._name)

    def _made(
        self, header: Header, first: int, long_name: bytes, long_link: bytes, own: list[tuple[bytes, bytes]]
    ) -> TarMember:
        records = self._common | dict(own)
        name = records.get(b"path", long_name or header.name)
        link = records.get(b"linkpath", long_link or header.link_name)
        kind = KINDS.get(header.type, "other")
        if kind == "file" and header.type == b"\0" and name.endswith(b"/"):
            kind = "folder"
        try:
            stored = int(records.get(b"size", header.size_bytes))
            mtime_ns = pax_time(records[b"mtime"]) if b"mtime" in records else header.mtime_ns
            if stored < 0:
                raise ValueError("negative size")
            # GNU tar writes no content after a link, whatever size the header repeats.
            self._left = 0 if kind in ("hard link", "link") else -(-stored // BLOCK) * BLOCK
            size, runs = stored, None
            if header.type == b"S":
                size, runs = self._old_sparse(header, stored, first)
            elif any(key.startswith(b"GNU.sparse.") for key, _value in own):
                name = records.get(b"GNU.sparse.name", name)
                size, runs, stored = self._pax_sparse(records, own, stored, first)
        except ValueError as error:
            reason = f"a header holds a number that is none ({error})"
            raise ContentDamaged(reason, first, "tar stream", name) from error
        if b"\0" in name or b"\0" in link:
            raise ContentRefused("a name holds a NUL byte", first, name)
        if kind != "file":
            size = stored = 0
        if kind == "folder":
            name = name.rstrip(b"/") or name[:1]
        return TarMember(name, kind, size, stored, mtime_ns, header.mode, link, first, runs)

    def _old_sparse(self, header: Header, stored: int, at: int) -> tuple[int, Runs]:
        expanded = number(header.block[483:495])
        runs = _triples(header.block, 386, 4)
        more = header.block[482]
        while more:
            block = self._block()
            runs += _triples(block, 0, 21)
            more = block[504]
            if len(runs) > SPARSE_RUNS_AT_MOST:
                raise ContentRefused("a sparse member's map is too long", at, header.name)
        return expanded, check_runs(runs, expanded, stored, at)

    def _pax_sparse(
        self, records: dict[bytes, bytes], own: list[tuple[bytes, bytes]], stored: int, at: int
    ) -> tuple[int, Runs, int]:
        expanded = int(records.get(b"GNU.sparse.realsize") or records[b"GNU.sparse.size"])
        if records.get(b"GNU.sparse.major") == b"1":
            before = self._left
            runs = self._map_in_content(at)
            stored -= before - self._left
        elif b"GNU.sparse.map" in records:
            numbers = [int(value) for value in records[b"GNU.sparse.map"].split(b",") if value]
            runs = list(zip(numbers[::2], numbers[1::2], strict=True))
        else:
            starts = [int(value) for key, value in own if key == b"GNU.sparse.offset"]
            counts = [int(value) for key, value in own if key == b"GNU.sparse.numbytes"]
            runs = list(zip(starts, counts, strict=True))
        return expanded, check_runs(runs, expanded, stored, at), stored

    def _map_in_content(self, at: int) -> list[tuple[int, int]]:
        """PAX sparse 1.0: decimal lines at the beginning of the content, padded to whole blocks."""
        lines: list[bytes] = []
        rest = b""
        wanted = 1
        while len(lines) < wanted:
            if self._left < BLOCK or wanted > 2 * SPARSE_RUNS_AT_MOST + 1:
                raise ContentRefused("a sparse member's map is too long", at)
            block = self._block()
            self._left -= BLOCK
            *whole, rest = (rest + block).split(b"\n")
            lines += whole
            if lines:
                wanted = 1 + 2 * int(lines[0])
        numbers = [int(line) for line in lines[1:wanted]]
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def _drain(self) -> None:
        """Read to the end of the content, so that every compressed byte was seen to decompress."""
        trailing = 0
        while data := self._stream.read(READ_BYTES):
            trailing += len(data) - data.count(0) if trailing else len(data.lstrip(b"\0"))
        if trailing:
            self.notes.append(
                f"About {trailing:,} bytes that are not zero follow the archive's end mark; tar reads none of them."
            )
        self.notes.extend(self._stream.notes())


def _triples(block: bytes, at: int, count: int) -> list[tuple[int, int]]:
    runs = []
    for start in range(at, at + count * 24, 24):
        if not block[start]:
            break
        runs.append((number(block[start : start + 12]), number(block[start + 12 : start + 24])))
    return runs
