"""mtree specifications (BSD): a tree by indentation and `..`, or full paths, with `key=value` words.

    /set type=file            values that hold until another /set or /unset
    .   type=dir              the root
        name size=12 sha256digest=…
    ..                        back to the folder above
    lib/dir/file type=file    a name with a slash is a path from the root and enters nothing

Names are in vis(3)'s octal form (`\\040` for a blank); a backslash at the end of a line continues it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from inventory.manifests.lists import Collector, FileList, ListedEntry, text_lines
from inventory.manifests.said import _
from inventory.remote.base import EntryKind

_KINDS: dict[bytes, EntryKind] = {
    b"file": "file", b"dir": "folder", b"link": "link", b"socket": "socket", b"fifo": "pipe", b"block": "device",
    b"char": "device",
}  # fmt: skip
_WORDS = {kind: word for word, kind in reversed(_KINDS.items())}
_DIGESTS = {
    b"md5": "md5", b"md5digest": "md5", b"sha1": "sha1", b"sha1digest": "sha1", b"sha256": "sha256",
    b"sha256digest": "sha256", b"sha384": "sha384", b"sha384digest": "sha384", b"sha512": "sha512",
    b"sha512digest": "sha512",
}  # fmt: skip
_VIS = re.compile(rb"\\(?:([0-7]{3})|([abfnrstv\\#0])|(.?))", re.DOTALL)
_SHORT = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"s": b" ", b"t": b"\t", b"v": b"\v",
    b"\\": b"\\", b"#": b"#", b"0": b"\0",
}  # fmt: skip
_PLAIN = re.compile(rb"[!-~]")
_SPECIAL = frozenset(b"\\#*?[=")


def read(content: bytes) -> FileList:
    """Read a specification. Raises ListError."""
    found = Collector("mtree")
    defaults: dict[bytes, bytes] = {}
    folders: list[bytes] = []
    for number, line in _joined(content):
        words = line.split()
        if not words or words[0].startswith(b"#"):
            continue
        if words[0] == b"/set":
            defaults |= _values(words[1:])
        elif words[0] == b"/unset":
            for word in words[1:]:
                defaults.pop(word, None)
                if word == b"all":
                    defaults.clear()
        elif words[0] == b"..":
            if not folders:
                found.wrong(number, _("“..” leads above the root."))
            else:
                folders.pop()
        else:
            _entry(found, number, words[0], {**defaults, **_values(words[1:])}, folders)
    return found.done()


def _entry(found: Collector, number: int, word: bytes, values: dict[bytes, bytes], folders: list[bytes]) -> None:
    raw = unvis(word)
    kind = _KINDS.get(values.get(b"type", b"file"))
    if kind is None:
        found.wrong(number, _("“%(name)s” is no type of entry.", name=values[b"type"].decode("ascii", "replace")))
        return
    if raw is None:
        found.wrong(number, _("the name holds a backslash that starts no escape of vis(3)."))
        return
    if raw == b".":
        folders.append(b"")
        return
    above = folders[-1] if folders and b"/" not in word else b""
    name = found.name(above + b"/" + raw if above else raw, number)
    if name is None:
        return
    if kind == "folder" and b"/" not in word:
        folders.append(name)
    if name:
        found.add(_listed(found, number, name, kind, values))


def _listed(found: Collector, number: int, name: bytes, kind: EntryKind, values: dict[bytes, bytes]) -> ListedEntry:
    size = found.size(values[b"size"], number) if b"size" in values and kind == "file" else None
    digests = []
    for key, algorithm in _DIGESTS.items():
        digest = found.digest(values[key], number, algorithm) if key in values else None
        digests += [digest] if digest is not None else []
    target = unvis(values.get(b"link", b"")) if kind == "link" else b""
    mtime_ns = None
    if b"time" in values:
        seconds, _point, rest = values[b"time"].partition(b".")
        if seconds.removeprefix(b"-").isdigit() and (rest.isdigit() or not rest):
            # mtree's own writers differ on what follows the point: nanoseconds as a number, or a fraction of nine.
            mtime_ns = int(seconds) * 10**9 + int((rest or b"0")[:9])
        else:
            found.wrong(number, _("the “time” is no number of seconds."))
    return ListedEntry(name, number, kind, size, mtime_ns, tuple(sorted(digests)), target or b"")


def _values(words: list[bytes]) -> dict[bytes, bytes]:
    pairs = (word.partition(b"=") for word in words)
    return {key: value for key, _, value in pairs}


def _joined(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with their continuations, numbered by their first."""
    held, start = b"", 0
    for number, line in text_lines(content):
        start = start or number
        if line.endswith(b"\\") and not line.endswith(b"\\\\"):
            held += line[:-1] + b" "
            continue
        yield start, held + line
        held, start = b"", 0
    if held:
        yield start, held


def unvis(word: bytes) -> bytes | None:
    """A name out of vis(3)'s form; None when it is none."""

    def plain(match: re.Match[bytes]) -> bytes:
        octal, short, other = match.groups()
        if octal is not None:
            return bytes([int(octal, 8) & 255])
        if short is not None:
            return _SHORT[short]
        raise ValueError(other)

    try:
        return _VIS.sub(plain, word)
    except ValueError:
        return None


def vis(name: bytes) -> bytes:
    """A name in vis(3)'s octal form."""
    return b"".join(
        bytes([byte]) if _PLAIN.fullmatch(bytes([byte])) and byte not in _SPECIAL else b"\\%03o" % byte for byte in name
    )


def write(entries: Iterable[ListedEntry]) -> Iterator[bytes]:
    """Full paths from the root, one entry a line."""
    yield b"#mtree\n"
    for entry in entries:
        start = b"" if entry.name.startswith(b"/") else b"./"
        words = [start + vis(entry.name), b"type=" + _WORDS.get(entry.kind, b"file")]
        if entry.kind == "file" and entry.size_bytes is not None:
            words.append(b"size=%d" % entry.size_bytes)
        if entry.mtime_ns is not None:
            words.append(b"time=%d.%09d" % divmod(entry.mtime_ns, 10**9))
        if entry.kind == "link" and entry.link_target:
            words.append(b"link=" + vis(entry.link_target))
        words += [f"{algorithm}digest={value}".encode() for algorithm, value in entry.digests]
        yield b" ".join(words) + b"\n"
