"""Reading a map's fields one by one: every problem is noted with its line, and reading goes on."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence

from inventory.manifests.said import _
from inventory.manifests.yamlnodes import ListNode, MapNode, Node, Problem, TextNode

NAME_CHARACTERS = 120
TEXT_CHARACTERS = 20_000
_INTEGER = re.compile(r"\d{1,3}(?:[,_]\d{3})+|\d{1,20}", re.ASCII)


class Problems:
    """What was found wrong so far."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, node: Node, sentence: str) -> None:
        """Note a problem at a place."""
        self.found.append(Problem(node.line, node.column, sentence))


def nearest(word: str, known: Sequence[str]) -> str:
    """A hint at the known word that was probably meant, and nothing when none is near."""
    found = difflib.get_close_matches(word, known, 1, 0.6) or difflib.get_close_matches(word.lower(), known, 1, 0.5)
    return _(" Did you mean “%(value)s”?", value=found[0]) if found else ""


class Fields:
    """The fields of one map. `what` names it in sentences (“resource 3”)."""

    def __init__(self, node: Node, what: str, known: Sequence[str], problems: Problems) -> None:
        self.node, self.what, self._problems = node, what, problems
        self._values: dict[str, Node] = {}
        if not isinstance(node, MapNode):
            problems.add(node, _("%(what)s must be a map of fields (“name: …”), and is something else.", what=what))
            return
        for key, value in node.pairs:
            if key.text not in known:
                listed = ", ".join(known)
                hint = nearest(key.text, known) or _(" Known are: %(listed)s.", listed=listed)
                problems.add(
                    key, _("%(what)s has no field “%(text)s”.%(hint)s", what=what, text=_shown(key.text), hint=hint)
                )
            elif key.text in self._values:
                problems.add(key, _("%(what)s has the field “%(text)s” twice. Keep one.", what=what, text=key.text))
            else:
                self._values[key.text] = value

    def place(self, name: str) -> Node:
        """Where a field stands; the whole map when it is not there."""
        return self._values.get(name, self.node)

    def get(self, name: str) -> Node | None:
        """A field's node, None when it is absent or empty."""
        value = self._values.get(name)
        return None if value is None or (isinstance(value, TextNode) and value.is_nothing) else value

    def problem(self, name: str, sentence: str) -> None:
        """Note a problem with a field."""
        self._problems.add(self.place(name), sentence)

    def text(self, name: str, *, needed: bool = False, is_exact: bool = False) -> str:
        """Text of any number of lines, without white space around it unless `is_exact`; "" when absent."""
        node = self.get(name)
        if node is None:
            if needed and isinstance(self.node, MapNode):
                self.problem(name, _("%(what)s needs a “%(name)s”.", what=self.what, name=name))
            return ""
        return self.text_of(node, name, is_exact=is_exact)

    def name(self, name: str) -> str:
        """A needed text of one line."""
        text = self.text(name, needed=True)
        if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in text):
            self.problem(
                name,
                _("the “%(name)s” of %(what)s has a line break or control character in it.", name=name, what=self.what),
            )
        elif len(text) > NAME_CHARACTERS:
            self.problem(
                name,
                _(
                    "the “%(name)s” of %(what)s has %(count)s characters; %(name_characters)s are the most.",
                    name=name,
                    what=self.what,
                    count=len(text),
                    name_characters=NAME_CHARACTERS,
                ),
            )
        return text

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """One of the known words."""
        text = self.text(name) or default
        if text not in choices:
            listed = ", ".join(choices)
            self.problem(
                name,
                _(
                    "“%(text)s” is no %(name)s of %(what)s: it is one of %(listed)s.%(hint)s",
                    text=_shown(text),
                    name=name,
                    what=self.what,
                    listed=listed,
                    hint=nearest(text, choices),
                ),
            )
            return default
        return text

    def integer(self, name: str, *, least: int, most: int, needed: bool = False) -> int | None:
        """A whole number, with or without separators between its thousands (1,000 or 1_000)."""
        text = self.text(name, needed=needed)
        if not text:
            return None
        if _INTEGER.fullmatch(text) is None:
            self.problem(
                name,
                _(
                    "the “%(name)s” of %(what)s must be a whole number, and is “%(text)s”.",
                    name=name,
                    what=self.what,
                    text=_shown(text),
                ),
            )
            return None
        number = int(text.replace(",", "").replace("_", ""))
        if not least <= number <= most:
            self.problem(
                name,
                _(
                    "the “%(name)s” of %(what)s must lie between %(least)s and %(most)s.",
                    name=name,
                    what=self.what,
                    least=f"{least:,}",
                    most=f"{most:,}",
                ),
            )
            return None
        return number

    def items(self, name: str) -> list[Node]:
        """A list's items; none when absent."""
        node = self.get(name)
        if node is None:
            return []
        if not isinstance(node, ListNode):
            self.problem(
                name,
                _("the “%(name)s” of %(what)s must be a list (lines that begin with “- ”).", name=name, what=self.what),
            )
            return []
        return node.items

    def texts(self, name: str) -> list[tuple[str, Node]]:
        """A list of texts, each with its place; empty ones are problems."""
        found = []
        for node in self.items(name):
            text = self.text_of(node, name)
            if isinstance(node, TextNode) and not text:
                self._problems.add(
                    node, _("the “%(name)s” of %(what)s has an empty line in its list.", name=name, what=self.what)
                )
            elif text:
                found.append((text, node))
        return found

    def text_of(self, node: Node, name: str, *, is_exact: bool = False) -> str:
        """The text of a node that stands in a field; "" and a problem when it is none."""
        if not isinstance(node, TextNode):
            self._problems.add(
                node, _("the “%(name)s” of %(what)s must be text, and is a list or map.", name=name, what=self.what)
            )
            return ""
        if any(_is_barred(character) for character in node.text):
            self._problems.add(
                node,
                _("the “%(name)s” of %(what)s has a control character in it. Remove it.", name=name, what=self.what),
            )
            return ""
        if len(node.text) > TEXT_CHARACTERS:
            self._problems.add(
                node,
                _(
                    "the “%(name)s” of %(what)s is longer than %(text_characters)s characters.",
                    name=name,
                    what=self.what,
                    text_characters=f"{TEXT_CHARACTERS:,}",
                ),
            )
            return ""
        return node.text if is_exact else node.text.strip()


def _is_barred(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs")


def _shown(text: str) -> str:
    """Somebody's text in a sentence of ours: one line, not endless."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
