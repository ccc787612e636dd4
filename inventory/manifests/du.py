"""`du -ab`: bytes, a tab and a path for everything; `du -0ab` ends records with NUL, so that any name survives.

du counts a folder with what is in it, and does not say what a folder is: whatever has something below it is one, and
so is the last line, the root. An empty folder looks like a file of its own size. All paths lie below the root, which
is taken away from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inventory.manifests.lists import Collector, FileList, ListedEntry, text_lines
from inventory.manifests.said import _


def read(content: bytes) -> FileList:
    """Read what du printed. Raises ListError."""
    found = Collector("du -ab")
    lines = _records(content) if b"\0" in content else text_lines(content)
    read_lines: list[tuple[int, int, bytes]] = []
    for number, line in lines:
        size, tab, raw = line.partition(b"\t")
        if not tab:
            if line.strip():
                found.wrong(number, _("is not “BYTES, a tab, PATH” as `du -ab` prints it."))
            continue
        count, name = found.size(size, number), found.name(raw, number)
        if count is not None and name is not None:
            read_lines.append((number, count, name))
    _add(found, read_lines)
    return found.done()


def _add(found: Collector, lines: list[tuple[int, int, bytes]]) -> None:
    folders = {name.rpartition(b"/")[0] for _number, _size, name in lines}
    root = lines[-1][2] if lines else b""
    is_rooted = bool(root) and all(name == root or name.startswith(root + b"/") for _number, _size, name in lines)
    for number, size, name in lines:
        is_folder = name in folders or (is_rooted and name == root and len(lines) > 1)
        short = name[len(root) + 1 :] if is_rooted else name
        if short or len(lines) == 1:
            entry = ListedEntry(short or name, number, kind="folder" if is_folder else "file")
            found.add(entry if is_folder else ListedEntry(short or name, number, size_bytes=size))
    if is_rooted and len(lines) > 1:
        found.note(_("all paths lie below the list's last line, which was taken as the root"))


def _records(content: bytes) -> Iterator[tuple[int, bytes]]:
    records = content.split(b"\0")
    if records[-1] == b"":
        records.pop()
    return iter(list(enumerate(records, start=1)))


def write(entries: Iterable[ListedEntry]) -> Iterator[bytes]:
    """As `du -0ab` would print files (folders are not summed up): NUL-ended, any name."""
    for entry in entries:
        if entry.kind == "file":
            yield b"%d\t%b\0" % (entry.size_bytes or 0, entry.name)
