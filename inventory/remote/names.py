"""Remote names are bytes: kept exactly, shown escaped, never interpreted.

A name on a Linux host is any byte string without NUL. `RemoteName` carries those bytes; its text form is for
people only and is reversible: printable UTF-8 stays as it is, a backslash becomes two, and every other byte
becomes `\\xNN` (line feed, carriage return and tab have their usual short forms).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_SHORT_FORMS = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_SHORT_BYTES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
_PLAIN = re.compile(rb"[ -\[\]-~]*")  # printable ASCII without the backslash stands for itself
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|[nrt\\])")


def escape(raw: bytes) -> str:
    """Show a name's bytes as one line of text that `unescape` turns back into exactly the same bytes."""
    if _PLAIN.fullmatch(raw):
        return raw.decode("ascii")
    shown: list[str] = []
    for character in raw.decode("utf-8", "surrogateescape"):
        short = _SHORT_FORMS.get(character)
        if short is not None:
            shown.append(short)
        elif "\udc80" <= character <= "\udcff":
            shown.append(f"\\x{ord(character) - 0xDC00:02x}")
        elif character == " " or unicodedata.category(character)[0] not in "CZ":
            shown.append(character)
        else:
            # Control, format and exotic space characters could hide or reorder what a person reads.
            shown.extend(f"\\x{byte:02x}" for byte in character.encode())
    return "".join(shown)


def unescape(text: str) -> bytes:
    """Turn the text form of a name back into its bytes.

    Raises ValueError when the text holds a backslash that starts no known escape.
    """
    parts: list[bytes] = []
    at = 0
    while (found := text.find("\\", at)) >= 0:
        match = _ESCAPE.match(text, found)
        if match is None:
            raise ValueError(f"“{text}” has a backslash at position {found + 1} that starts no known escape.")
        parts.append(text[at:found].encode())
        code = match.group(1)
        parts.append(bytes([int(code[1:], 16)]) if code[0] == "x" else _SHORT_BYTES[code])
        at = match.end()
    parts.append(text[at:].encode())
    return b"".join(parts)


@dataclass(frozen=True, order=True, slots=True)
class RemoteName:
    """A path or file name on a host: exact bytes inside, escaped text outside."""

    raw: bytes

    def __post_init__(self) -> None:
        if b"\0" in self.raw:
            raise ValueError("A file name cannot hold a NUL byte.")

    @classmethod
    def from_text(cls, text: str) -> RemoteName:
        """The name that a person typed: its UTF-8 bytes, taken literally (a backslash is a backslash)."""
        return cls(text.encode("utf-8", "surrogateescape"))

    def __str__(self) -> str:
        return escape(self.raw)

    @property
    def is_absolute(self) -> bool:
        return self.raw.startswith(b"/")

    @property
    def is_canonical(self) -> bool:
        """True for an absolute path without empty, `.` or `..` parts and without a trailing slash."""
        if self.raw == b"/":
            return True
        return self.is_absolute and all(part not in (b"", b".", b"..") for part in self.raw[1:].split(b"/"))

    @property
    def base(self) -> bytes:
        """The last part of the path."""
        return self.raw.rstrip(b"/").rpartition(b"/")[2]

    def join(self, *parts: bytes) -> RemoteName:
        """This folder with further parts below it."""
        return RemoteName(b"/".join((self.raw.rstrip(b"/"), *parts)))

    def is_below(self, folder: RemoteName) -> bool:
        """True when this path is the folder itself or lies inside it, compared part by part."""
        top = folder.raw.rstrip(b"/")
        return self.raw == top or self.raw.startswith(top + b"/")
