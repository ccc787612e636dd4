"""Include and exclude patterns over names, with the one meaning of gitignore (by the library pathspec).

Patterns are relative to the resource's own folder, as in a `.gitignore` that lies there: `*.o` at any depth, `/build/`
only at the top, `models/**/*.bin` below a folder, `!keep.o` takes back. A pattern that names a folder covers all that
is in it. Without include patterns everything is in; whatever an exclude pattern covers is out.

Names are bytes. They are matched as text in UTF-8; a byte that is not UTF-8 stands for itself and is matched by `?`
and `*` only.
"""

from __future__ import annotations

from collections.abc import Sequence

from pathspec import GitIgnoreSpec


class RuleError(ValueError):
    """A pattern that means nothing. `str()` names it."""


class Rules:
    """The rules of one pack. `is_in` counts, so that `unused` can tell which patterns matched nothing."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        """Raises RuleError."""
        self._include, self._exclude = _PatternList(include), _PatternList(exclude)

    def is_in(self, name: bytes, *, is_folder: bool) -> bool:
        """True when the entry with this name, relative to its resource, belongs into the pack.

        The resource itself (an empty name) is in unless there are include patterns.
        """
        if not name:
            return not self._include.has_patterns
        text = name.decode("utf-8", "surrogateescape") + ("/" if is_folder else "")
        included = self._include.covers(text) if self._include.has_patterns else True
        # Both lists look at every name: a pattern that only ever meets names the other list decided still matched.
        return not self._exclude.covers(text) and included

    @property
    def unused(self) -> tuple[str, ...]:
        """Patterns that decided about no name so far."""
        return (*self._include.unused, *self._exclude.unused)


class _PatternList:
    def __init__(self, patterns: Sequence[str]) -> None:
        self._texts = [text for line in patterns if (text := line.strip()) and not text.startswith("#")]
        self._singles: list[GitIgnoreSpec] = []
        for text in self._texts:
            try:
                GitIgnoreSpec.from_lines([text])  # “!” alone is an error that its positive half does not show
                self._singles.append(GitIgnoreSpec.from_lines([text.removeprefix("!")]))
            except ValueError as error:
                raise RuleError(f"The pattern “{text}” cannot be understood ({error}). Nothing was changed.") from error
        self._spec = GitIgnoreSpec.from_lines(self._texts)
        self._matched = [False] * len(self._texts)

    @property
    def has_patterns(self) -> bool:
        return bool(self._texts)

    def covers(self, text: str) -> bool:
        result = self._spec.check_file(text)
        if result.index is not None:
            self._matched[result.index] = True
        if not all(self._matched):
            # A pattern that a later one overrules still matched; only those that are open are asked one by one.
            for index, single in enumerate(self._singles):
                if not self._matched[index] and single.match_file(text):
                    self._matched[index] = True
        return bool(result.include)

    @property
    def unused(self) -> list[str]:
        return [text for text, matched in zip(self._texts, self._matched, strict=True) if not matched]
