"""Checksum lists as `sha256sum` and its kin write them, and the BSD form (also FreeBSD's distinfo).

    HEX  NAME            text mode          HEX *NAME      binary mode
    \\HEX  NAME          NAME has \\\\, \\n and \\r escaped
    SHA256 (NAME) = HEX  BSD form; SIZE (NAME) = BYTES beside it in distinfo; TIMESTAMP = … is passed over

After the digest come one blank and one mode character; the rest of the line is the name, untouched. The digest's
length tells the algorithm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from inventory.manifests.lists import Collector, FileList, ListedEntry, text_lines
from inventory.manifests.said import _

_GNU = re.compile(rb"(\\?)([0-9A-Fa-f]{32,128})( [ *]|\t| )(.+)", re.DOTALL)
_BSD = re.compile(rb"(\\?)([A-Za-z0-9-]{2,12}) ?\((.*)\) = (\S+)", re.DOTALL)
_ESCAPE = re.compile(rb"\\(.?)", re.DOTALL)
_ESCAPED = {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}
_ALGORITHMS = {"MD5": "md5", "SHA1": "sha1", "SHA256": "sha256", "SHA384": "sha384", "SHA512": "sha512"}


def read(content: bytes) -> FileList:
    """Read a checksum list. Raises ListError."""
    found = Collector("checksums")
    for number, line in text_lines(content):
        if not line.strip() or line.startswith((b"#", b";")) or line.startswith(b"TIMESTAMP = "):
            continue
        bsd = _BSD.fullmatch(line)
        gnu = None if bsd else _GNU.fullmatch(line)
        if bsd:
            _bsd(found, number, bsd)
        elif gnu:
            _gnu(found, number, gnu)
        else:
            found.wrong(number, _("is neither “DIGEST  NAME” nor “SHA256 (NAME) = DIGEST”."))
    return found.done()


def _gnu(found: Collector, number: int, match: re.Match[bytes]) -> None:
    escaped, digest, between, raw = match.groups()
    if between in (b" ", b"\t"):
        found.note(_("a line has one blank between digest and name, which sha256sum would not take"))
        raw = raw.lstrip(b" \t*") if between == b"\t" else raw
    _add(found, number, _unescaped(found, number, raw) if escaped else raw, found.digest(digest, number))


def _bsd(found: Collector, number: int, match: re.Match[bytes]) -> None:
    escaped, word, raw, value = match.groups()
    name = _unescaped(found, number, raw) if escaped else raw
    if word == b"SIZE":
        size, kept = found.size(value, number), None if name is None else found.name(name, number)
        if size is not None and kept is not None:
            found.add(ListedEntry(kept, number, size_bytes=size))
        return
    algorithm = _ALGORITHMS.get(word.decode().upper().replace("-", ""))
    if algorithm is None:
        found.wrong(
            number,
            _(
                "“%(name)s” is no known kind of digest; known are %(listed)s.",
                name=word.decode(),
                listed=", ".join(_ALGORITHMS),
            ),
        )
        return
    _add(found, number, name, found.digest(value, number, algorithm))


def _add(found: Collector, number: int, name: bytes | None, digest: tuple[str, str] | None) -> None:
    kept = None if name is None else found.name(name, number)
    if kept is not None and digest is not None:
        found.add(ListedEntry(kept, number, digests=(digest,)))


def _unescaped(found: Collector, number: int, raw: bytes) -> bytes | None:
    """A name of a line that begins with a backslash."""
    for code in _ESCAPE.findall(raw):
        if code not in _ESCAPED:
            found.wrong(
                number, _("the line begins with “\\”, so its name is escaped, but a backslash in it means nothing.")
            )
            return None
    return _ESCAPE.sub(lambda match: _ESCAPED[match.group(1)], raw)


def write(entries: Iterable[ListedEntry]) -> Iterator[bytes]:
    """`SHA256SUMS` that `sha256sum -c` takes: files that have a SHA-256, in coreutils' own escapes."""
    for entry in entries:
        digest = entry.digest("sha256")
        if entry.kind == "file" and digest:
            yield line_of(digest, entry.name)


def line_of(digest: str, name: bytes) -> bytes:
    """One line for a digest in hex."""
    raw = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return (b"\\" if raw != name else b"") + digest.encode() + b"  " + raw + b"\n"
