"""What every list format shares: its lines, its entries, what is wrong with them, and names that stay inside.

A list is read to its end before anything is said, so that a person sees all that is wrong at once, each with its line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from inventory.manifests.said import _
from inventory.manifests.sizes import LARGEST_BYTES
from inventory.remote.base import EntryKind
from inventory.remote.names import escape

PROBLEMS_SHOWN = 50
NAME_BYTES, PART_BYTES = 4096, 255
ALGORITHM_BY_HEX = {32: "md5", 40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}
_HEX_BY_ALGORITHM = {name: length for length, name in ALGORITHM_BY_HEX.items()}
_HEX = re.compile(rb"[0-9A-Fa-f]+")
_WIDE_DIGEST = re.compile(rb"(?:\\\0)?(?:[0-9A-Fa-f]\0){31}[0-9A-Fa-f]")


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
        return self.said()

    def said(self) -> str:
        """The sentence with its line, to be shown in any language."""
        return _("line %(line)s: %(sentence)s", line=f"{self.line:,}", sentence=self.sentence)


class ListError(Exception):
    """A list that cannot be taken as it is. Nothing of it was imported; `problems` are in the order of their lines."""

    def __init__(self, problems: list[ListProblem]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """A sentence for each problem, as far as a person reads."""
        shown: list[str] = [problem.said() for problem in self.problems[:PROBLEMS_SHOWN]]
        if len(self.problems) > PROBLEMS_SHOWN:
            shown.append(_("and %(count)s more lines like these.", count=f"{len(self.problems) - PROBLEMS_SHOWN:,}"))
        return shown


class ListUnwritable(Exception):
    """Names that a format cannot hold. Nothing was written."""

    def __init__(self, format_name: str, names: list[bytes]) -> None:
        super().__init__(format_name, names)
        self.format_name, self.names = format_name, names

    def __str__(self) -> str:
        return self.said()

    def said(self) -> str:
        """The sentence, to be shown in any language."""
        shown = ", ".join(f"“{escape(name)}”" for name in self.names[:3])
        return _(
            "%(count)s names cannot be written in the format %(format_name)s, the first: %(shown)s. "
            "Nothing was written. Choose a format that holds any name, for instance SHA256SUMS or "
            "CSV.",
            count=f"{len(self.names):,}",
            format_name=self.format_name,
            shown=shown,
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
            self.note(_("a name was written with “./” or doubled slashes, which were taken away"))
        return plain

    def digest(self, raw: bytes, line: int, algorithm: str = "") -> tuple[str, str] | None:
        """A digest in lower case with its algorithm, told by its length unless given."""
        found = algorithm or ALGORITHM_BY_HEX.get(len(raw))
        if not _HEX.fullmatch(raw) or found is None or _HEX_BY_ALGORITHM.get(found, len(raw)) != len(raw):
            shown, count = escape(raw[:80]), len(raw)
            if algorithm:
                sentence = _(
                    "“%(shown)s” is no %(algorithm)s digest: it has %(count)s characters.",
                    shown=shown,
                    algorithm=algorithm.upper(),
                    count=count,
                )
            else:
                sentence = _("“%(shown)s” is no digest: it has %(count)s characters.", shown=shown, count=count)
            self.wrong(line, sentence)
            return None
        return found, raw.decode().lower()

    def size(self, raw: bytes, line: int) -> int | None:
        """A number of bytes."""
        if not raw.isdigit() or int(raw) > LARGEST_BYTES:
            self.wrong(line, _("“%(name)s” is no number of bytes.", name=escape(raw[:80])))
            return None
        return int(raw)

    def done(self) -> FileList:
        """The list. Raises ListError when anything is wrong with it."""
        entries = self._once()
        if not entries and not self.problems:
            self.wrong(
                1,
                _(
                    "there is not one entry in this %(format_name)s list. Is it the right file and format?",
                    format_name=self.format_name,
                ),
            )
        if self.problems:
            raise ListError(sorted(self.problems, key=lambda problem: problem.line))
        notes = [
            sentence if count == 1 else _("%(sentence)s (%(count)s times)", sentence=sentence, count=f"{count:,}")
            for sentence, count in self.notes.items()
        ]
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
                self.wrong(
                    entry.line,
                    _(
                        "“%(shown)s” stands in line %(line)s already, and says something else.",
                        shown=shown,
                        line=f"{before.line:,}",
                    ),
                )
            else:
                seen[entry.name] = both
                if entry.digests == before.digests and entry.size_bytes == before.size_bytes:
                    self.note(_("a line stands there twice with the same content"))
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
        return (
            _("the name is empty.")
            if not raw
            else _("the name %(shown)s holds a NUL byte, which no file system knows.", shown=shown)
        )
    parts = raw.split(b"/")
    if b".." in parts:
        return _("the name %(shown)s leads out of its folder (“..”).", shown=shown)
    if len(raw) > NAME_BYTES:
        return _(
            "the name %(shown)s… has %(count)s bytes; %(name_bytes)s are the most that a path can have.",
            shown=shown,
            count=f"{len(raw):,}",
            name_bytes=f"{NAME_BYTES:,}",
        )
    if any(len(part) > PART_BYTES for part in parts):
        return _(
            "a part of the name %(shown)s… has more than %(part_bytes)s bytes, which no file system holds.",
            shown=shown,
            part_bytes=PART_BYTES,
        )
    return ""


def plain_name(raw: bytes) -> bytes:
    """A name without “.” parts, doubled slashes and a slash at its end; a leading slash stays."""
    start = b"/" if raw.startswith(b"/") else b""
    return start + b"/".join(part for part in raw.split(b"/") if part not in (b"", b"."))


def text_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, without their ends. A byte order mark goes, UTF-16 becomes UTF-8, CRLF counts as LF.

    A carriage return belongs to the end of the line only where every line ends so; a name's own is written escaped.
    Where some lines end so and others do not, nobody knows which is meant. Raises ListError.
    """
    body = decoded(content)
    lines = body.split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    is_crlf = bool(lines) and all(line.endswith(b"\r") for line in lines[:-1]) and (len(lines) > 1 or b"\r" in lines[0])
    ended = [number for number, line in enumerate(lines, start=1) if line.endswith(b"\r")]
    if ended and not is_crlf:
        sentence = _(
            "ends in a carriage return and other lines do not, so it may be part of the name. Make them alike."
        )
        raise ListError([ListProblem(number, sentence) for number in ended])
    for number, line in enumerate(lines, start=1):
        yield number, line.removesuffix(b"\r") if is_crlf else line


def decoded(content: bytes) -> bytes:
    """The bytes without a byte order mark; UTF-16 as UTF-8, also that of digests without a mark. Raises ListError."""
    encoding = utf16_of(content)
    if encoding:
        try:
            return content.decode(encoding).encode()
        except UnicodeError as error:
            raise ListError([ListProblem(1, _("the file begins as UTF-16 but is none. Save it as UTF-8."))]) from error
    return content.removeprefix(b"\xef\xbb\xbf")


def utf16_of(content: bytes) -> str:
    """Which UTF-16 a content is, by its mark or by a digest at its beginning; empty when it is none."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return "utf-16-le" if _WIDE_DIGEST.match(content) else "utf-16-be" if _WIDE_DIGEST.match(content[1:]) else ""


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
        shown = ", ".join(f"“{escape(name)}”" for name in sorted(alike[0]))
        yield _(
            "%(count)s names differ only in how their accents are written, for instance %(shown)s",
            count=f"{len(alike):,}",
            shown=shown,
        )
    elif folded:
        shown = ", ".join(f"“{escape(name)}”" for name in sorted(folded[0]))
        yield _(
            "%(count)s names differ only in upper and lower case, for instance %(shown)s",
            count=f"{len(folded):,}",
            shown=shown,
        )
