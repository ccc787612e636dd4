"""What archivers' own excludes surprise people with has one meaning here: that of gitignore, as git itself has it.

GNU tar drops nothing for `tmp/`, only the top one for `./tmp`, and lets `*` cross `/`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parts import need
from transfers.rules import Rules

TREE = (
    b"tmp", b"tmp/one", b"a", b"a/tmp", b"a/tmp/two", b"b", b"b/tmp", b"ab", b"ab/c", b"ab/c/z.txt", b"a1.txt",
    b"x y", b"x y/k!", b"#n", b"!n", b"d", b"d/e", b"d/e/f.o", b"d/e/keep.o", b"d/[x]",
)  # fmt: skip
FOLDERS = frozenset({b"tmp", b"a", b"a/tmp", b"b", b"ab", b"ab/c", b"x y", b"d", b"d/e"})


def left_out(*patterns: str) -> set[bytes]:
    rules = Rules([], patterns)
    return {name for name in TREE if not rules.is_in(name, is_folder=name in FOLDERS)}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("tmp", {b"tmp", b"tmp/one", b"a/tmp", b"a/tmp/two", b"b/tmp"}),  # at any depth, files as well
        ("tmp/", {b"tmp", b"tmp/one", b"a/tmp", b"a/tmp/two"}),  # folders of that name, at any depth
        ("/tmp", {b"tmp", b"tmp/one"}),  # the top one alone
        ("/tmp/", {b"tmp", b"tmp/one"}),
        ("/a*.txt", {b"a1.txt"}),  # `*` does not cross `/`
        ("*.txt", {b"a1.txt", b"ab/c/z.txt"}),  # without a slash: at any depth
        ("a/**", {b"a", b"a/tmp", b"a/tmp/two"}),  # the folder comes along where something in it is taken back
    ],
)
def test_each_way_to_write_a_folder_means_what_gitignore_says(pattern: str, expected: set[bytes]) -> None:
    assert left_out(pattern) == expected


def test_a_pattern_as_tar_would_take_it_and_git_would_not_is_told_as_matching_nothing() -> None:
    rules = Rules([], ["./tmp", "tmp"])
    for name in TREE:
        rules.is_in(name, is_folder=name in FOLDERS)
    assert rules.unused == ("./tmp",)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("git")
    top = tmp_path_factory.mktemp("rules")
    for name in TREE:
        path = top / name.decode()
        path.mkdir(parents=True, exist_ok=True) if name in FOLDERS else path.write_bytes(b"")
    subprocess.run(["git", "init", "-q"], cwd=top, check=True, timeout=30)
    return top


_WORD = st.sampled_from(["tmp", "a", "*", "*.o", "d", "e", "keep.o", "**", "a?", "[abx]*", "f.o", "ab", "x y", "z.txt"])
_PATTERN = st.builds(
    lambda head, words, tail: head + "/".join(words) + tail,
    st.sampled_from(["", "", "/", "!", "!/"]),
    st.lists(_WORD, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_PATTERN, min_size=1, max_size=4))
def test_files_are_left_out_exactly_where_git_ignores_them(repository: Path, patterns: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(patterns) + "\n")
    files = [name for name in TREE if name not in FOLDERS]
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=repository,
        input=b"\0".join(files) + b"\0",
        capture_output=True,
        timeout=30,
    )
    assert asked.returncode in (0, 1), asked.stderr
    ignored = {name for name in asked.stdout.split(b"\0") if name}
    assert left_out(*patterns) - FOLDERS == ignored
