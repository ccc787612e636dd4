"""Include and exclude patterns have gitignore's meaning, relative to the resource's own folder."""

from __future__ import annotations

import pytest

from transfers.rules import RuleError, Rules


def chosen(rules: Rules, *names: str) -> list[str]:
    return [name for name in names if rules.is_in(name.rstrip("/").encode(), is_folder=name.endswith("/"))]


def test_without_rules_everything_is_in() -> None:
    assert chosen(Rules([], []), "a", "b/", "b/c") == ["a", "b/", "b/c"]
    assert Rules([], []).is_in(b"", is_folder=True)


def test_a_folder_pattern_covers_all_that_is_in_it() -> None:
    rules = Rules([], [".local/share/containers", "/build/"])
    names = ("build/", "build/x.o", "src/build/", "src/build/y", ".local/share/containers/a/b", ".local/share/other")
    assert chosen(rules, *names) == ["src/build/", "src/build/y", ".local/share/other"]


def test_includes_choose_and_excludes_take_away() -> None:
    rules = Rules(["*.bin", "docs/"], ["param_blk*.bin"])
    assert chosen(rules, "a.bin", "x/param_blk0.bin", "docs/readme", "other.txt") == ["a.bin", "docs/readme"]


def test_a_negated_pattern_takes_back() -> None:
    assert chosen(Rules([], ["*.o", "!keep.o"]), "a.o", "keep.o") == ["keep.o"]


def test_names_that_are_not_utf8_are_matched_by_wildcards() -> None:
    rules = Rules([], ["caf?"])
    assert not rules.is_in(b"caf\xe9", is_folder=False)
    assert rules.is_in(b"caf\xe9s", is_folder=False)


def test_patterns_that_match_nothing_are_named() -> None:
    rules = Rules(["*.c", "*.h"], ["*.tmp", "a.*"])
    chosen(rules, "a.c", "b.c")
    assert rules.unused == ("*.h", "*.tmp")


def test_a_pattern_that_a_later_one_overrules_still_matched() -> None:
    rules = Rules([], ["*.o", "!keep.o"])
    chosen(rules, "keep.o")
    assert rules.unused == ()


@pytest.mark.parametrize("pattern", ["!", "\\", "a\\"])
def test_a_pattern_that_means_nothing_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(RuleError) as caught:
        Rules([pattern], [])
    assert f"“{pattern}”" in str(caught.value)


def test_blank_lines_and_remarks_are_no_rules() -> None:
    assert chosen(Rules(["", "  ", "# all"], []), "a") == ["a"]
