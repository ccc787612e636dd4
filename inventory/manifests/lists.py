"""What every list format shares: its lines, its entries, what is wrong with them, and names that stay inside.

A list is read to its end before anything is said, so that a person sees all that is wrong at once, each with its line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from inventory.manifests.sizes import LARGEST_BYTES
from inventory.remote.base import EntryKind
from inventory.remote.names import escape

PROBLEMS_SHOWN = 50
NAME_BYTES, PART_BYTES = 4096, 255
ALGORITHM_BY_HEX = {32: "md5", 40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}
_HEX_BY_ALGORITHM = {name: length for length, name in ALGORITHM_BY_HEX.items()}
_HEX = re.compile(rb"[0-9A-Fa-f]+")


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """One path that a list names, relative to the list's root. Sizes in bytes, times in nanoseconds since 1970.

    None is what the list does not say. `digests` are in lower-case hex by algorithm (md5, sha1, sha256 …).
    """

    name: bytes
    line: int
    kind: EntryKind = "file"
    size_bytes: int | None = None
    mtime_ns: int | None = None
    digests: tuple[tuple[str, str], ...] = ()
    link_target: bytes = b""

    def digest(self, algorithm: str) -> str:
        """A digest in hex; empty when the list gives none of that kind."""
        return dict(self.digests).get(algorithm, "")


@dataclass(frozen=True, slots=True)
class ListProblem:
    """What is wrong with one line (counted from 1; records of NUL-ended lists count as lines)."""

    line: int
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line:,}: {self.sentence}"


class ListError(Exception):
    """A list that cannot be taken as it is. Nothing of it was imported; `problems` are in the order of their lines."""

    def __init__(self, problems: list[ListProblem]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        shown = [str(problem) for problem in self.problems[:PROBLEMS_SHOWN]]
        if len(self.problems) > PROBLEMS_SHOWN:
            shown.append(f"and {len(self.problems) - PROBLEMS_SHOWN:,} more lines like these.")
        return "\n".join(shown)


class ListUnwritable(Exception):
    """Names that a format cannot hold. Nothing was written."""

    def __init__(self, format_name: str, names: list[bytes]) -> None:
        super().__init__(format_name, names)
        self.format_name, self.names = format_name, names

    def __str__(self) -> str:
        shown = ", ".join(f"“{escape(name)}”" for name in self.names[:3])
        return (
            f"{len(self.names):,} names cannot be written in the format {self.format_name}, the first: {shown}. "
            "Nothing was written. Choose a format that holds any name, for instance SHA256SUMS or CSV."
        )


@dataclass(frozen=True, slots=True)
class FileList:
    """A list as it was read. `notes` are sentences about what was understood with some freedom."""

    format_name: str
    entries: tuple[ListedEntry, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Collector:
    """Gathers a list's entries, notes and problems; the same name twice is found at the end."""

    format_name: str
    entries: list[ListedEntry] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    problems: list[ListProblem] = field(default_factory=list)

    def wrong(self, line: int, sentence: str) -> None:
        """Note a line that stops the import."""
        self.problems.append(ListProblem(line, sentence))

    def note(self, sentence: str) -> None:
        """Note something worth telling, counted."""
        self.notes[sentence] = self.notes.get(sentence, 0) + 1

    def add(self, entry: ListedEntry) -> None:
        """Keep an entry whose name stays inside the list's root."""
        self.entries.append(entry)

    def name(self, raw: bytes, line: int) -> bytes | None:
        """A name as it is kept: without “./” and doubled slashes. None, and a problem, when it cannot be kept."""
        sentence = refused(raw)
        if sentence:
            self.wrong(line, sentence)
            return None
        plain = plain_name(raw)
        if plain != raw.removesuffix(b"/"):
            self.note("a name was written with “./” or doubled slashes, which were taken away")
        return plain

    def digest(self, raw: bytes, line: int, algorithm: str = "") -> tuple[str, str] | None:
        """A digest in lower case with its algorithm, told by its length unless given."""
        found = algorithm or ALGORITHM_BY_HEX.get(len(raw))
        if not _HEX.fullmatch(raw) or found is None or _HEX_BY_ALGORITHM.get(found, len(raw)) != len(raw):
            what = f"is no {algorithm.upper()} digest" if algorithm else "is no digest"
            self.wrong(line, f"“{escape(raw[:80])}” {what}: it has {len(raw)} characters.")
            return None
        return found, raw.decode().lower()

    def size(self, raw: bytes, line: int) -> int | None:
        """A number of bytes."""
        if not raw.isdigit() or int(raw) > LARGEST_BYTES:
            self.wrong(line, f"“{escape(raw[:80])}” is no number of bytes.")
            return None
        return int(raw)

    def done(self) -> FileList:
        """The list. Raises ListError when anything is wrong with it."""
        entries = self._once()
        if not entries and not self.problems:
            self.wrong(1, f"there is not one entry in this {self.format_name} list. Is it the right file and format?")
        if self.problems:
            raise ListError(sorted(self.problems, key=lambda problem: problem.line))
        notes = [sentence if count == 1 else f"{sentence} ({count:,} times)" for sentence, count in self.notes.items()]
        return FileList(self.format_name, entries, tuple(notes) + tuple(_twins(entries)))

    def _once(self) -> tuple[ListedEntry, ...]:
        """Each name once. What several lines say of a name is put together; where they differ, it is a problem."""
        seen: dict[bytes, ListedEntry] = {}
        for entry in self.entries:
            before = seen.get(entry.name)
            if before is None:
                seen[entry.name] = entry
                continue
            both = merged(before, entry)
            if both is None:
                shown = escape(entry.name)
                self.wrong(entry.line, f"“{shown}” stands in line {before.line:,} already, and says something else.")
            else:
                seen[entry.name] = both
                if entry.digests == before.digests and entry.size_bytes == before.size_bytes:
                    self.note("a line stands there twice with the same content")
        return tuple(seen.values())


def merged(first: ListedEntry, second: ListedEntry) -> ListedEntry | None:
    """Two lines about one name as one entry; None when they contradict each other."""
    if first.kind != second.kind or first.link_target != second.link_target:
        return None
    digests = dict(first.digests)
    for algorithm, value in second.digests:
        if digests.setdefault(algorithm, value) != value:
            return None
    values = []
    for one, other in ((first.size_bytes, second.size_bytes), (first.mtime_ns, second.mtime_ns)):
        if one is not None and other is not None and one != other:
            return None
        values.append(other if one is None else one)
    return replace(first, digests=tuple(sorted(digests.items())), size_bytes=values[0], mtime_ns=values[1])


def refused(raw: bytes) -> str:
    """Why a name cannot be taken; empty when it can."""
    shown = f"“{escape(raw[:120])}”"
    if not raw or b"\0" in raw:
        return "the name is empty." if not raw else f"the name {shown} holds a NUL byte, which no file system knows."
    parts = raw.split(b"/")
    if b".." in parts:
        return f"the name {shown} leads out of its folder (“..”)."
    if len(raw) > NAME_BYTES:
        return f"the name {shown}… has {len(raw):,} bytes; {NAME_BYTES:,} are the most that a path can have."
    if any(len(part) > PART_BYTES for part in parts):
        return f"a part of the name {shown}… has more than {PART_BYTES} bytes, which no file system holds."
    return ""


def plain_name(raw: bytes) -> bytes:
    """A name without “.” parts, doubled slashes and a slash at its end; a leading slash stays."""
    start = b"/" if raw.startswith(b"/") else b""
    return start + b"/".join(part for part in raw.split(b"/") if part not in (b"", b"."))


def text_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, without their ends. A byte order mark goes, UTF-16 becomes UTF-8, CRLF counts as LF.

    A carriage return belongs to the end of the line only where every line ends so; a name's own is written escaped.
    """
    body = decoded(content)
    lines = body.split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    is_crlf = bool(lines) and all(line.endswith(b"\r") for line in lines[:-1]) and (len(lines) > 1 or b"\r" in lines[0])
    for number, line in enumerate(lines, start=1):
        yield number, line.removesuffix(b"\r") if is_crlf else line


def decoded(content: bytes) -> bytes:
    """The bytes without a byte order mark; UTF-16 as UTF-8. Raises ListError."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return content.decode("utf-16").encode()
        except UnicodeError as error:
            raise ListError([ListProblem(1, "the file begins as UTF-16 but is none. Save it as UTF-8.")]) from error
    return content.removeprefix(b"\xef\xbb\xbf")


def _twins(entries: tuple[ListedEntry, ...]) -> Iterator[str]:
    """Names that some file systems take for one another."""
    forms: dict[str, set[bytes]] = {}
    cases: dict[str, set[bytes]] = {}
    for entry in entries:
        if entry.name.isascii():
            form = entry.name.decode()
        else:
            form = unicodedata.normalize("NFC", entry.name.decode("utf-8", "surrogateescape"))
            forms.setdefault(form, set()).add(entry.name)
        cases.setdefault(form.casefold(), set()).add(entry.name)
    alike = [names for names in forms.values() if len(names) > 1]
    folded = [names for names in cases.values() if len(names) > 1]
    if alike:
        shown = " and ".join(f"“{escape(name)}”" for name in sorted(alike[0]))
        yield f"{len(alike):,} names differ only in how their accents are written, for instance {shown}"
    elif folded:
        shown = " and ".join(f"“{escape(name)}”" for name in sorted(folded[0]))
        yield f"{len(folded):,} names differ only in upper and lower case, for instance {shown}"
