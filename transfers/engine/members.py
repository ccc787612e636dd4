"""The explicit list of a build: its canonical form, its digest, and the checksum lines made from it.

Canonical form, one record a member, in the list's own order (sorted by name for archives and files, the order of
the parts for a set of parts):

    KIND SP MODE(octal) SP SIZE SP MTIME_NS SP SHA256(hex or -) NUL NAME NUL LINK_TARGET NUL

KIND is f, d or l. Names are exact bytes, which may hold anything but NUL, so the form needs no escapes. The list's
digest is the SHA-256 of that form; approvals bind to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from transfers.engine.types import Member

_LETTERS = {"file": b"f", "folder": b"d", "link": b"l"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}


def encode_members(members: Iterable[Member]) -> Iterator[bytes]:
    """Yield the canonical record of each member."""
    for member in members:
        digest = member.sha256.hex().encode() if member.sha256 else b"-"
        yield b"%s %o %d %d %s\0%s\0%s\0" % (
            _LETTERS[member.kind],
            member.mode,
            member.size_bytes,
            member.mtime_ns,
            digest,
            member.name,
            member.link_target,
        )


def decode_members(content: bytes) -> Iterator[Member]:
    """Yield the members of a canonical list. Raises ValueError when the form is broken."""
    fields = content.split(b"\0")
    if fields.pop() != b"" or len(fields) % 3:
        raise ValueError("The member list is cut off or damaged.")
    for at in range(0, len(fields), 3):
        letter, mode, size, mtime, digest = fields[at].split(b" ")
        yield Member(
            name=fields[at + 1],
            kind=_KINDS[letter],
            size_bytes=int(size),
            mtime_ns=int(mtime),
            mode=int(mode, 8),
            link_target=fields[at + 2],
            sha256=None if digest == b"-" else bytes.fromhex(digest.decode()),
        )


def checksum_line(sha256: bytes, name: bytes) -> bytes:
    """One line as `sha256sum` 9.1 writes it and `sha256sum -c` reads it: escaped when the name needs it."""
    escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    marker = b"\\" if escaped != name else b""
    return marker + sha256.hex().encode() + b"  " + escaped + b"\n"
