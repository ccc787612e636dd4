"""The 512-byte headers of tar: v7, ustar, GNU and PAX, with names as exact bytes.

Formats: POSIX.1-2001 (pax), and GNU tar's manual, "Basic Tar Format" and "Storing Sparse Files". The standard
library's reader is not used: it takes a damaged header in the middle for the end of the archive, keeps every member in
memory, recurses over chained long names, and reads a header's extension whole, however large it says that it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from transfers.engine.opens.base import ContentDamaged, ContentRefused

BLOCK = 512
LOOK_BYTES = 20 * 512 + 1  # more than an empty archive has: tar writes records of 20 blocks
EXTENSION_BYTES_AT_MOST = 8 * 2**20  # of one PAX header or GNU long name
SPARSE_RUNS_AT_MOST = 1_000_000
EXPANDED_BYTES_AT_MOST = 64 * 2**40  # of one sparse member
TIME_NS_AT_MOST = 2**62

KINDS = {
    b"0": "file",
    b"\0": "file",
    b"7": "file",
    b"S": "file",
    b"1": "hard link",
    b"2": "link",
    b"3": "device",
    b"4": "device",
    b"5": "folder",
    b"D": "folder",
    b"6": "pipe",
}
Runs = tuple[tuple[int, int], ...]  # (offset in the expanded file, bytes stored), in order


@dataclass(frozen=True, slots=True)
class Header:
    """One header block, decoded. `size_bytes` is what follows it in the archive."""

    name: bytes
    mode: int
    size_bytes: int
    mtime_ns: int
    type: bytes
    link_name: bytes
    block: bytes


def parse_header(block: bytes, offset: int) -> Header:
    """Decode a header that is not all zeros. Raises ContentDamaged when its checksum or a number is wrong."""
    if not checksum_is_right(block):
        raise ContentDamaged("a tar header's checksum is wrong", offset, "tar stream")
    try:
        size, mtime = number(block[124:136]), number(block[136:148])
        mode = number(block[100:108]) & 0o7777
    except ValueError as error:
        raise ContentDamaged(f"a tar header holds a number that is none ({error})", offset, "tar stream") from error
    if size < 0:
        raise ContentRefused("a member's size is negative", offset)
    name = text(block[0:100])
    if block[257:263] == b"ustar\0" and (prefix := text(block[345:500])):
        name = prefix + b"/" + name
    return Header(name, mode, size, clamp(mtime * 10**9), block[156:157], text(block[157:257]), block)


def checksum_is_right(block: bytes) -> bool:
    """True when a block's checksum fits, summed unsigned or, as some old programs did, signed."""
    try:
        stated = number(block[148:156])
    except ValueError:
        return False
    rest = block[:148] + b"        " + block[156:]
    unsigned = sum(rest)
    return stated in (unsigned, unsigned - 256 * sum(byte > 127 for byte in rest))


def looks_like_tar(beginning: bytes) -> bool:
    """True when content that begins so is a tar: a header with a right checksum, or an empty archive.

    `beginning`: LOOK_BYTES of the content, or all of it when it is shorter. An empty archive is one record of zeros and
    nothing else; an image of a disk begins with zeros as well, and is none.
    """
    if len(beginning) < BLOCK:
        return False
    block = beginning[:BLOCK]
    if any(block):
        return checksum_is_right(block) and (block[257:262] == b"ustar" or block[156:157] in KINDS)
    return 2 * BLOCK <= len(beginning) < LOOK_BYTES and not any(beginning)


def number(field: bytes) -> int:
    """An octal or base-256 number. Raises ValueError."""
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big") - (256 ** (len(field) - 1) if field[0] == 0xFF else 0)
    digits = field.split(b"\0", 1)[0].strip()
    if digits.strip(b"01234567"):
        raise ValueError(repr(digits))
    return int(digits or b"0", 8)


def text(field: bytes) -> bytes:
    """The bytes of a field up to its first NUL."""
    return field.split(b"\0", 1)[0]


def clamp(nanoseconds: int) -> int:
    """A time that the file system's calls take, whatever a header says."""
    return max(-TIME_NS_AT_MOST, min(TIME_NS_AT_MOST, nanoseconds))


def parse_pax(content: bytes, offset: int) -> list[tuple[bytes, bytes]]:
    """The records of a PAX header in order. Raises ContentDamaged."""
    records: list[tuple[bytes, bytes]] = []
    at = 0
    while at < len(content) and content[at]:
        space = content.find(b" ", at, at + 20)
        length = content[at:space] if space > 0 else b""
        end = at + int(length) if length.isdigit() else 0
        key, equals, value = content[space + 1 : end - 1].partition(b"=")
        if not equals or end <= space + 1 or end > len(content) or content[end - 1 : end] != b"\n":
            raise ContentDamaged("a PAX header's record is broken", offset, "tar stream")
        records.append((key, value))
        at = end
    return records


def pax_time(value: bytes) -> int:
    """A PAX time in nanoseconds. Raises ValueError."""
    sign = -1 if value.startswith(b"-") else 1
    whole, _, part = value.lstrip(b"-").partition(b".")
    if not (whole + part).isdigit() or len(value) > 60:
        raise ValueError(repr(value))
    return clamp(sign * (int(whole or b"0") * 10**9 + int((part + b"0" * 9)[:9])))


def check_runs(runs: list[tuple[int, int]], expanded_bytes: int, stored_bytes: int, offset: int) -> Runs:
    """Refuse a sparse map that is not in order, overlaps, leaves the file or does not fit what is stored."""
    if expanded_bytes > EXPANDED_BYTES_AT_MOST or len(runs) > SPARSE_RUNS_AT_MOST:
        raise ContentRefused("a sparse member is larger than this reader expands", offset)
    at = 0
    for start, count in runs:
        if start < at or count < 0 or start + count > expanded_bytes:
            raise ContentRefused("a sparse member's map is out of order or leaves the file", offset)
        at = start + count
    if sum(count for _start, count in runs) != stored_bytes:
        raise ContentRefused("a sparse member's map does not fit the bytes that are stored", offset)
    return tuple((start, count) for start, count in runs if count)
