"""What lies below what, told from names in the order of their parts, in one pass and with no more than a path held."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Folder:
    """A folder whose content is passing by. Bytes are those of the files below it."""

    position: int
    name: bytes
    entries_below: int = 0
    bytes_below: int = 0


class Climb:
    """Call `enter` for each entry in order; at the end `leave`."""

    def __init__(self) -> None:
        self._open: list[Folder] = []

    def enter(self, position: int, name: bytes, size_bytes: int, *, is_folder: bool) -> tuple[int | None, list[Folder]]:
        """The position of the folder that an entry lies in (None for the first), and the folders that ended before it.

        `size_bytes` counts for files; pass 0 for what is none.
        """
        ended = []
        while self._open and not _holds(self._open[-1].name, name):
            ended.append(self._pop())
        parent = self._open[-1].position if self._open else None
        if self._open:
            self._open[-1].entries_below += 1
            self._open[-1].bytes_below += size_bytes
        if is_folder:
            self._open.append(Folder(position, name))
        return parent, ended

    def leave(self) -> list[Folder]:
        """The folders that end with the last entry, innermost first."""
        ended = []
        while self._open:
            ended.append(self._pop())
        return ended

    def _pop(self) -> Folder:
        folder = self._open.pop()
        if self._open:
            self._open[-1].entries_below += folder.entries_below
            self._open[-1].bytes_below += folder.bytes_below
        return folder


def _holds(folder: bytes, name: bytes) -> bool:
    return not folder or name.startswith(folder + b"/")
