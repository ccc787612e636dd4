"""YAML read as far as plan files need it: lists, maps and texts, each with its line, and nothing that can grow.

Anchors, aliases, tags, merge keys and further documents are refused, so a small file stays small in memory. Scalars are
kept as the text that stands there: what a field means is decided by whoever reads the field, not by YAML's guesses
(`no`, `012` and `1.0` stay as they are written).
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from inventory.manifests.said import _

LIMIT_BYTES = 2**19
DEPTH_AT_MOST = 12
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, order=True, slots=True)
class Problem:
    """One thing that is wrong, and where. Lines and columns count from 1."""

    line: int
    column: int
    sentence: str


class PlanFileError(ValueError):
    """A plan file that cannot be taken. Carries every problem; `str()` is one sentence a line."""

    SHOWN_AT_MOST = 50

    def __init__(self, *problems: Problem) -> None:
        self.problems = tuple(sorted(set(problems)))
        self.line, self.column = self.problems[0].line, self.problems[0].column
        self.sentence = self.problems[0].sentence
        super().__init__(self.line, self.column, self.sentence)

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """A sentence for each problem with its line, as far as a person reads, to be shown in any language."""
        shown: list[str] = [
            _("Line %(line)s: %(sentence)s", line=problem.line, sentence=problem.sentence)
            for problem in self.problems[: self.SHOWN_AT_MOST]
        ]
        if (more := len(self.problems) - self.SHOWN_AT_MOST) > 0:
            shown.append(_("And %(more)s more. Mend these first, then load the file again.", more=more))
        return shown


@dataclass(frozen=True, slots=True)
class Node:
    """A place in the file. Lines and columns count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class TextNode(Node):
    """A scalar as it is written. `is_nothing`: it stands for no value."""

    text: str = ""
    is_nothing: bool = False


@dataclass(frozen=True, slots=True)
class ListNode(Node):
    """Its items, in order."""

    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MapNode(Node):
    """Its pairs, in order; a name may stand there twice."""

    pairs: list[tuple[TextNode, Node]] = field(default_factory=list)


def read_nodes(content: bytes) -> Node:
    """Parse one YAML document. Raises PlanFileError with the first place that cannot be read."""
    text = _decode(content)
    stream = _checked(_events(text))
    first = next(stream, None)
    if first is None:
        raise PlanFileError(Problem(1, 1, _("the file is empty. It begins with “version: 1”.")))
    node = _node(stream, first)
    second = next(stream, None)
    if second is not None:
        line = second.start_mark.line + 1
        raise PlanFileError(Problem(line, 1, _("the file holds more than one document. Keep one (no “---” inside).")))
    return node


def _decode(content: bytes) -> str:
    if len(content) > LIMIT_BYTES:
        sentence = _(
            "the file has %(count)s bytes, and a plan file has at most %(limit_bytes)s. Nothing of "
            "it was read. Check that it is the right file.",
            count=f"{len(content):,}",
            limit_bytes=f"{LIMIT_BYTES:,}",
        )
        raise PlanFileError(Problem(1, 1, sentence))
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        byte = content[error.start]
        sentence = _(
            "byte %(column)s (hex %(byte)s) is not UTF-8. Save the file as UTF-8.", column=column, byte=f"{byte:02x}"
        )
        raise PlanFileError(Problem(line, column, sentence)) from error


def _events(text: str) -> Iterator[events.Event]:
    """ruamel's events; its errors as ours."""
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark is not None else (0, 0)
        raise PlanFileError(Problem(line + 1, column + 1, _syntax_sentence(error, text, line))) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position)
        column = error.position - text.rfind("\n", 0, error.position)
        sentence = _(
            "the character U+%(value)s may not stand in a plan file. Remove it.", value=f"{_code(error.character):04X}"
        )
        raise PlanFileError(Problem(line + 1, column, sentence)) from error
    except (YAMLError, ValueError, OverflowError) as error:
        # Escapes and directives with impossible numbers reach Python's own functions and come without a place.
        raise PlanFileError(
            Problem(1, 1, _("the YAML cannot be read (%(error)s). Check escapes and quotes.", error=error))
        ) from error


def _code(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[:1])


def _syntax_sentence(error: MarkedYAMLError, text: str, line: int) -> str:
    lines = text.split("\n")
    here = lines[line] if line < len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return _("the line is indented with a tab. Use spaces.")
    problem = " ".join(str(error.problem or error.context or "it is not YAML").split())
    return _("the YAML cannot be read here (%(problem)s). Check indentation, colons and quotes.", problem=problem)


def _checked(parsed: Iterator[events.Event]) -> Iterator[events.Event]:
    """The events of one document's content; refuses what plan files do not use."""
    depth = 0
    for event in parsed:
        mark = event.start_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        if isinstance(event, events.AliasEvent) or getattr(event, "anchor", None):
            sentence = _(
                "anchors and aliases (“&name”, “*name”) are not read. Write the text out, or put it into quotes."
            )
            raise PlanFileError(Problem(line, column, sentence))
        tag = getattr(event, "tag", None)
        if tag is not None and str(tag) != "!":
            sentence = _("tags like “%(tag)s” are not read. Remove it, or put the text into quotes.", tag=tag)
            raise PlanFileError(Problem(line, column, sentence))
        if isinstance(event, events.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_AT_MOST:
                sentence = _(
                    "lists and fields lie more than %(depth_at_most)s deep in one another. This is no plan file.",
                    depth_at_most=DEPTH_AT_MOST,
                )
                raise PlanFileError(Problem(line, column, sentence))
        elif isinstance(event, events.CollectionEndEvent):
            depth -= 1
        if not isinstance(
            event,
            events.StreamStartEvent | events.StreamEndEvent | events.DocumentStartEvent | events.DocumentEndEvent,
        ):
            yield event


def _node(stream: Iterator[events.Event], event: events.Event) -> Node:
    """Build one node; the depth was bounded before."""
    line, column = event.start_mark.line + 1, event.start_mark.column + 1
    if isinstance(event, events.ScalarEvent):
        is_plain = event.style is None or event.style == ""
        return TextNode(line, column, event.value, is_plain and event.value in _NOTHING)
    if isinstance(event, events.SequenceStartEvent):
        items: list[Node] = []
        while not isinstance(following := next(stream), events.SequenceEndEvent):
            items.append(_node(stream, following))
        return ListNode(line, column, items)
    pairs: list[tuple[TextNode, Node]] = []
    while not isinstance(following := next(stream), events.MappingEndEvent):
        key = _node(stream, following)
        if not isinstance(key, TextNode):
            raise PlanFileError(Problem(key.line, key.column, _("a field's name must be plain text.")))
        pairs.append((key, _node(stream, next(stream))))
    return MapNode(line, column, pairs)
