"""Plan files: tiers, resources, packs and capabilities of one host, as YAML. The format is told in docs/plan-file.md.

`read_plan_file` checks everything and tells all problems at once, each with its line; `write_plan_file` writes what
`read_plan_file` reads back as the same plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, TypeVar

from inventory.manifests.fields import Fields, Problems, nearest
from inventory.manifests.planlines import (
    CHUNK_BYTES,
    Basis,
    CapabilityLine,
    PackLine,
    PlanFile,
    ResourceLine,
    TierLine,
)
from inventory.manifests.planwriting import VERSION, write_plan_file
from inventory.manifests.said import _
from inventory.manifests.sizes import LARGEST_BYTES, UNITS, format_size, parse_size
from inventory.manifests.yamlnodes import MapNode, Node, PlanFileError, Problem, TextNode, read_nodes
from inventory.remote.names import RemoteName, unescape

__all__ = [
    "Basis",
    "CapabilityLine",
    "PackLine",
    "PlanFile",
    "PlanFileError",
    "Problem",
    "ResourceLine",
    "TierLine",
    "read_plan_file",
    "write_plan_file",
]

BASES: tuple[Basis, ...] = ("exact", "declared", "about")
KINDS = ("folder", "file", "archive", "image", "parts", "repository", "store", "parameters", "other")
MODES = ("archive", "files", "existing", "parts")
_CHUNK_LEAST, _CHUNK_MOST = 2**20, 2**40
_TIERS_MOST = 32_767
_PACK_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)

_TOP = ("version", "clear_by", "stated", "tiers", "resources", "packs", "capabilities")
_TIER = ("position", "name", "note")
_RESOURCE = ("name", "path", "kind", "tier", "size", "value", "recommendation")
_PACK = (
    "name", "aim", "mode", "resources", "include", "exclude", "chunk", "hold", "until", "leave_out", "from", "before",
    "delta_of", "came_of",
)  # fmt: skip
_STATED = ("rate", "packed_percent")
_UNTIL = ("at", "rest", "rate")
_LEFT_OUT = ("carried", "here")
_CAPABILITY = ("name", "description", "needs")
_Line = TypeVar("_Line")


# -- reading -----------------------------------------------------------------------------------------------------------


def read_plan_file(content: bytes) -> PlanFile:
    """Read and check a plan file. Raises PlanFileError with every problem, each with its line."""
    node = read_nodes(content)
    problems = Problems()
    top = Fields(node, _("the plan file"), _TOP, problems)
    if isinstance(node, MapNode) and top.integer("version", least=0, most=10**6, needed=True) not in (None, VERSION):
        top.problem(
            "version", _("the file is of another version; this program reads version %(version)s.", version=VERSION)
        )
    reader = _PlanReader(problems)
    stated = Fields(top.get("stated") or MapNode(node.line, node.column, []), _("“stated”"), _STATED, problems)
    plan = PlanFile(
        tiers=reader.each(top, "tiers", _("tier"), _TIER, reader.tier),
        resources=reader.each(top, "resources", _("resource"), _RESOURCE, reader.resource),
        packs=reader.each(top, "packs", _("pack"), _PACK, reader.pack),
        capabilities=reader.each(top, "capabilities", _("capability"), _CAPABILITY, reader.capability),
        clear_by=_day(top, "clear_by"),
        stated_bytes_per_second=_rate(stated, "rate"),
        stated_packed_percent=stated.integer("packed_percent", least=1, most=200),
    )
    if problems.found:
        raise PlanFileError(*problems.found)
    return plan


def _day(fields: Fields, name: str) -> date | None:
    text = fields.text(name)
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        fields.problem(name, _("“%(value)s” is no day: write it like “2026-12-31”.", value=text[:60]))
        return None


def _moment(fields: Fields, name: str) -> datetime | None:
    text = fields.text(name)
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        fields.problem(
            name,
            _("“%(value)s” is no time: write it with its zone, like “2026-12-31T18:00:00+00:00”.", value=text[:60]),
        )
        return None
    return found


def _rate(fields: Fields, name: str) -> int | None:
    text = fields.text(name)
    rate = parse_size(text) if text else None
    if text and not rate:
        fields.problem(
            name,
            _(
                "“%(value)s” is no rate: a number above zero and one of %(units)s, of bytes a second.",
                value=text[:60],
                units=UNITS,
            ),
        )
    return rate or None


class _PlanReader:
    """Reads section by section and remembers the names that later sections refer to."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._tiers: dict[int, Node] = {}
        self._names: dict[str, dict[str, Node]] = {}
        self._in_tier: dict[int | None, int] = {}

    def each(
        self, top: Fields, section: str, word: str, known: Sequence[str], read: Callable[[Fields], _Line]
    ) -> tuple[_Line, ...]:
        """Read the lines of one section."""
        return tuple(
            read(Fields(node, _("%(word)s %(number)s", word=word, number=number), known, self._problems))
            for number, node in enumerate(top.items(section), start=1)
        )

    def tier(self, fields: Fields) -> TierLine:
        """One line of `tiers`."""
        position = fields.integer("position", least=1, most=_TIERS_MOST, needed=True)
        if position is not None:
            if (before := self._tiers.get(position)) is not None:
                fields.problem(
                    "position",
                    _("tier %(position)s stands in line %(line)s already.", position=position, line=before.line),
                )
            self._tiers.setdefault(position, fields.place("position"))
        return TierLine(position or 0, fields.name("name"), fields.text("note"))

    def resource(self, fields: Fields) -> ResourceLine:
        """One line of `resources`."""
        name = self._new_name(fields, "resource")
        tier = fields.integer("tier", least=1, most=_TIERS_MOST)
        if tier is not None and tier not in self._tiers:
            known = ", ".join(str(position) for position in sorted(self._tiers)) or "none"
            fields.problem(
                "tier", _("tier %(tier)s is not among the tiers of this file (%(known)s).", tier=tier, known=known)
            )
        self._in_tier[tier] = self._in_tier.get(tier, 0) + 1
        size_bytes, basis = self._size(fields)
        return ResourceLine(
            name=name,
            path=self._path(fields),
            kind=fields.choice("kind", KINDS, "folder"),
            tier=tier,
            position=self._in_tier[tier],
            size_bytes=size_bytes,
            size_basis=basis,
            value=fields.text("value"),
            recommendation=fields.text("recommendation"),
        )

    def pack(self, fields: Fields) -> PackLine:
        """One line of `packs`."""
        name = self._new_name(fields, "pack")
        if name and _PACK_NAME.fullmatch(name) is None:
            fields.problem(
                "name", _("“%(name)s” is no pack name: up to 100 letters (a-z, A-Z), digits, “-” and “_”.", name=name)
            )
        resources = self._references(fields, "resources", fields.texts("resources"), "resource")
        if not resources and isinstance(fields.node, MapNode):
            fields.problem("resources", _("%(what)s names no resource. A pack needs one or more.", what=fields.what))
        reason = fields.text("hold")
        return PackLine(
            name=name,
            aim=fields.text("aim"),
            mode=fields.choice("mode", MODES, "archive"),
            resources=resources,
            include=tuple(text for text, _ in fields.texts("include")),
            exclude=tuple(text for text, _ in fields.texts("exclude")),
            chunk_bytes=self._chunk(fields),
            on_hold=bool(reason),
            hold_reason=reason,
            **self._until(fields, is_held=bool(reason)),
            **self._leaves_out(fields),
            first_name=self._bound(fields, "from"),
            end_name=self._bound(fields, "before"),
            delta_of=self._delta_of(fields, name),
            came_of=tuple(text for text, _ in fields.texts("came_of")),
        )

    def capability(self, fields: Fields) -> CapabilityLine:
        """One line of `capabilities`."""
        name = self._new_name(fields, "capability")
        groups = []
        for node in fields.items("needs"):
            if isinstance(node, TextNode):
                found = self._references(fields, "needs", [(fields.text_of(node, "needs"), node)], "pack")
            else:
                group = Fields(node, _("a need of %(what)s", what=fields.what), ("any",), self._problems)
                found = self._references(group, "any", group.texts("any"), "pack")
                if isinstance(node, MapNode) and not found:
                    self._problems.add(
                        node, _("a need of %(what)s names no pack: give one, or “any:” with a list.", what=fields.what)
                    )
            if found:
                groups.append(found)
        if not groups and isinstance(fields.node, MapNode):
            fields.problem("needs", _("%(what)s needs at least one pack in “needs”.", what=fields.what))
        return CapabilityLine(name, fields.text("description"), tuple(groups))

    # -- parts of lines --------------------------------------------------------------------------------------------

    def _new_name(self, fields: Fields, sort: str) -> str:
        name = fields.name("name")
        taken = self._names.setdefault(sort, {})
        if name and name in taken:
            fields.problem(
                "name",
                _(
                    "the %(sort)s “%(name)s” stands in line %(line)s already.",
                    sort=_(sort),
                    name=name,
                    line=taken[name].line,
                ),
            )
        taken.setdefault(name, fields.place("name"))
        return name

    def _references(self, fields: Fields, field: str, given: Sequence[tuple[str, Node]], sort: str) -> tuple[str, ...]:
        """Names of lines above; unknown ones and doubles are problems."""
        known = [name for name in self._names.get(sort, {}) if name]
        found: list[str] = []
        for text, node in given:
            if not text:
                self._problems.add(
                    node, _("the “%(field)s” of %(what)s has an empty line in its list.", field=field, what=fields.what)
                )
            elif text in found:
                self._problems.add(node, _("%(what)s names “%(text)s” twice. Keep one.", what=fields.what, text=text))
            else:
                found.append(text)
                if text not in known:
                    self._problems.add(
                        node,
                        _(
                            "%(what)s names “%(text)s”, which is no %(sort)s of this file.%(hint)s",
                            what=fields.what,
                            text=text,
                            sort=_(sort),
                            hint=nearest(text, known),
                        ),
                    )
        return tuple(found)

    def _until(self, fields: Fields, *, is_held: bool) -> dict[str, Any]:
        node = fields.get("until")
        if node is None:
            return {}
        if not is_held:
            fields.problem(
                "until", _("%(what)s has an end of its hold and no “hold”. Say why it waits.", what=fields.what)
            )
        inner = Fields(node, _("the “until” of %(what)s", what=fields.what), _UNTIL, self._problems)
        return {
            "hold_until_at": _moment(inner, "at"),
            "hold_until_rest": inner.choice("rest", ("yes", "no"), "no") == "yes",
            "hold_until_rate": _rate(inner, "rate"),
        }

    def _leaves_out(self, fields: Fields) -> dict[str, Any]:
        given = fields.texts("leave_out")
        for text, node in given:
            if text not in _LEFT_OUT:
                sentence = _(
                    "“%(value)s” is nothing to leave out: it is one of %(listed)s.",
                    value=text[:60],
                    listed=", ".join(_LEFT_OUT),
                )
                self._problems.add(node, sentence)
        words = {text for text, _node in given}
        return {"leaves_out_carried": "carried" in words, "leaves_out_here": "here" in words}

    def _bound(self, fields: Fields, name: str) -> bytes:
        path = self._path(fields, name)
        return path.raw.lstrip(b"/") if path is not None else b""

    def _delta_of(self, fields: Fields, name: str) -> str:
        other = fields.text("delta_of")
        known = [one for one in self._names.get("pack", {}) if one and one != name]
        if other and other not in known:
            sentence = _(
                "%(what)s is said to be a delta of “%(other)s”, which is no pack above it.",
                what=fields.what,
                other=other,
            )
            fields.problem("delta_of", sentence + nearest(other, known))
        return other

    def _path(self, fields: Fields, name: str = "path") -> RemoteName | None:
        node = fields.get(name)
        if node is None:
            return None
        try:
            if isinstance(node, MapNode):
                inner = Fields(
                    node, _("the %(name)s of %(what)s", name=name, what=fields.what), ("escaped",), self._problems
                )
                path = RemoteName(unescape(inner.text("escaped", needed=True, is_exact=True)))
            else:
                path = RemoteName.from_text(fields.text(name, is_exact=True))
        except ValueError as error:
            fields.problem(
                name, _("the %(name)s of %(what)s cannot be read: %(error)s", name=name, what=fields.what, error=error)
            )
            return None
        if not path.is_canonical:
            sentence = _(
                "is not absolute and plain: it begins with “/” and has no “.”, “..”, “//” or slash at its end."
            )
            fields.problem(
                name, _("the %(name)s of %(what)s %(sentence)s", name=name, what=fields.what, sentence=sentence)
            )
        return path

    def _size(self, fields: Fields) -> tuple[int | None, Basis]:
        node = fields.get("size")
        if node is None:
            return None, "unknown"
        if not isinstance(node, MapNode):
            fields.problem(
                "size",
                _(
                    "the size of %(what)s needs its basis: “size: {declared: 1234}” or “{about: 1.2 GB}”.",
                    what=fields.what,
                ),
            )
            return None, "unknown"
        inner = Fields(node, _("the size of %(what)s", what=fields.what), BASES, self._problems)
        given = [basis for basis in BASES if inner.get(basis) is not None]
        if len(given) != 1:
            fields.problem(
                "size",
                _("the size of %(what)s must have one of %(listed)s.", what=fields.what, listed=", ".join(BASES)),
            )
            return None, "unknown"
        basis = given[0]
        if basis != "about":
            size = inner.integer(basis, least=0, most=LARGEST_BYTES)
            return size, basis if size is not None else "unknown"
        text = inner.text("about")
        size = parse_size(text)
        if size is None:
            inner.problem(
                "about", _("“%(value)s” is no size: a number and one of %(units)s.", value=text[:60], units=UNITS)
            )
            return None, "unknown"
        return size, "about"

    def _chunk(self, fields: Fields) -> int:
        text = fields.text("chunk")
        if not text:
            return CHUNK_BYTES
        size = parse_size(text)
        if size is None or not _CHUNK_LEAST <= size <= _CHUNK_MOST:
            least, most = format_size(_CHUNK_LEAST), format_size(_CHUNK_MOST)
            fields.problem(
                "chunk",
                _(
                    "“%(value)s” is no chunk size: between %(least)s and %(most)s, like “64 MiB”.",
                    value=text[:60],
                    least=least,
                    most=most,
                ),
            )
            return CHUNK_BYTES
        return size
