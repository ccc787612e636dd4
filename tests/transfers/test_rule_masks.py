"""Deciding a whole listing pattern by pattern gives exactly what deciding it entry by entry gives."""

from __future__ import annotations

import uuid

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inventory.columns import Columns, columns_from
from transfers.rule_masks import decide
from transfers.rules import RuleError, Rules

parts = st.sampled_from(
    [b"a", b"b", b"ab", b"a.o", b"b.o", b"x y", b"caf\xc3\xa9", b"\xff", b"!a", b"#a", b"a\nb", b"-"]
)
trees = st.lists(st.lists(parts, min_size=1, max_size=4).map(b"/".join), max_size=14)
pieces = st.sampled_from(
    ["a", "b", "ab", "*", "**", "*.o", "a*", "?", "?b", "[ab]", "[!a]*", "a.o", "\\!a", "\\#a", "é", "caf?", "x y", "-"]
)
patterns = st.builds(
    lambda negated, top, body, end: ("!" if negated else "") + ("/" if top else "") + "/".join(body) + end,
    st.booleans(),
    st.booleans(),
    st.lists(pieces, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "/**"]),
)
rule_lists = st.lists(patterns, max_size=4)


def listing(names: list[bytes], *, with_folders: bool = True) -> tuple[Columns, list[tuple[bytes, bool]]]:
    """The columns of some files with the folders that they lie in, and each name with whether it is a folder."""
    folders = {b""}
    for name in names if with_folders else ():
        while name := name.rpartition(b"/")[0]:
            folders.add(name)
    found = sorted({*names, *folders}, key=lambda name: name.replace(b"/", b"\0"))
    rows = [(at, name, "folder" if name in folders else "file", 1, 0, 0, b"") for at, name in enumerate(found)]
    return columns_from(rows), [(name, name in folders) for name in found]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees, rule_lists, rule_lists, st.booleans())
@example([b"a/b", b"a/a"], [], ["a", "!a/a"], True)
@example([b"a/b/a.o", b"a/ab/b"], ["a/**", "!b"], ["*.o", "!a/b/*"], True)
@example([b"!a", b"a"], [], ["!!a"], True)
@example([b"a\nb/a/b"], [], ["a"], True)
def test_masks_say_what_rules_say(
    names: list[bytes], include: list[str], exclude: list[str], with_folders: bool
) -> None:
    try:
        rules = Rules(include, exclude)
    except RuleError:
        return
    columns, entries = listing(names, with_folders=with_folders)
    expected = [rules.is_in(name, is_folder=is_folder) for name, is_folder in entries]
    decided = decide(columns, uuid.uuid4().hex, include, exclude)
    assert [bool(one) for one in decided.mask] == expected
    if not any(text.startswith("!!") for text in (*include, *exclude)):
        assert decided.unused == rules.unused


def test_what_a_pattern_matches_is_looked_for_once() -> None:
    columns, _entries = listing([b"a/%d.o" % number for number in range(50)] + [b"b/%d.c" % n for n in range(50)])
    key = uuid.uuid4().hex
    decide(columns, key, [], ["*.o"])

    class Silent:
        """A listing that answers only what one more rule may ask."""

        def __getattr__(self, name: str) -> object:
            return getattr(columns, name)

        def with_piece(self, piece: bytes, first: int, end: int) -> object:
            assert piece == b".c", "the former rule is remembered"
            return columns.with_piece(piece, first, end)

    decided = decide(Silent(), key, [], ["*.o", "*.c"])  # type: ignore[arg-type]
    assert decided.mask.count(1) == 3 and decided.unused == ()
