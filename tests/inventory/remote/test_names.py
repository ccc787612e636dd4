"""Names: bytes inside, one line of reversible text outside, and paths compared part by part."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inventory.remote.names import RemoteName, escape, unescape

_raw = st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace"))


@given(_raw)
@example(bytes(range(256)))
@example("\u202egnp.exe\u200b\u2028\x85\ufeff".encode())
@example(b"\\x41\\n\\")
@settings(max_examples=300, deadline=None)
def test_what_is_shown_is_one_plain_line_that_turns_back_into_the_same_bytes(raw: bytes) -> None:
    shown = escape(raw)
    assert unescape(shown) == raw
    assert shown == " ".join(shown.splitlines()) or not shown
    assert all(character == " " or unicodedata.category(character)[0] not in "CZ" for character in shown)
    shown.encode()


@given(_raw, _raw)
@settings(max_examples=200, deadline=None)
def test_different_names_are_shown_differently(one: bytes, other: bytes) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@pytest.mark.parametrize("text", ["\\", "a\\q", "\\x4", "\\xZZ", "\\X41", "\\x4G"])
def test_a_backslash_that_starts_nothing_is_told_with_its_place(text: str) -> None:
    with pytest.raises(ValueError, match=f"position {text.index(chr(92)) + 1}"):
        unescape(text)


def test_what_a_person_types_is_taken_literally() -> None:
    assert RemoteName.from_text("/a\\n é").raw == "/a\\n é".encode()
    with pytest.raises(ValueError, match="NUL"):
        RemoteName.from_text("a\0b")


@pytest.mark.parametrize("raw", [b"/", b"/a", b"/a/b c/\n", b"/...", b"/.a/..b"])
def test_canonical_paths(raw: bytes) -> None:
    assert RemoteName(raw).is_canonical


@pytest.mark.parametrize("raw", [b"", b"a", b"//", b"/a/", b"/a//b", b"/./a", b"/a/..", b"../a", b"/.."])
def test_other_paths_are_not_canonical(raw: bytes) -> None:
    assert not RemoteName(raw).is_canonical


def test_below_means_part_by_part() -> None:
    folder = RemoteName(b"/home/user")
    for raw in (b"/home/user", b"/home/user/", b"/home/user/x"):
        assert RemoteName(raw).is_below(folder)
        assert RemoteName(raw).is_below(RemoteName(b"/home/user/"))
    for raw in (b"/home/user2", b"/home", b"/home/use", b"/"):
        assert not RemoteName(raw).is_below(folder)
    assert RemoteName(b"/x").is_below(RemoteName(b"/"))
    assert folder.join(b"a", b"b").raw == b"/home/user/a/b"
    assert RemoteName(b"/").join(b"a").raw == b"/a"
    assert (folder.base, RemoteName(b"/").base, RemoteName(b"/a/").base) == (b"user", b"", b"a")
