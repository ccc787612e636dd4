"""hashdeep's lists: `%%%% HASHDEEP-1.0`, a line that names the columns, comments with ##, then size,digests,name.

The name is the rest of the line, commas included. The format has no escapes, so a name with a line break can't stand
in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inventory.manifests.lists import Collector, FileList, ListedEntry, ListUnwritable, text_lines
from inventory.manifests.said import _

_HEAD = b"%%%% HASHDEEP-1.0"
_KNOWN = ("md5", "sha1", "sha256")


def read(content: bytes) -> FileList:
    """Read a hashdeep list. Raises ListError."""
    found = Collector("hashdeep")
    columns: list[str] = []
    for number, line in text_lines(content):
        if number == 1 and line.strip() != _HEAD:
            found.wrong(1, _("a hashdeep list begins with “%%%%%%%% HASHDEEP-1.0”."))
        elif line.startswith(b"%%%% ") and number > 1:
            columns = line[5:].strip().decode("ascii", "replace").split(",")
            if columns[:1] != ["size"] or columns[-1:] != ["filename"]:
                found.wrong(number, _("the columns must begin with “size” and end with “filename”."))
                columns = []
        elif line.startswith((b"%", b"##")) or not line:
            continue
        elif not columns:
            found.wrong(number, _("comes before the line that names the columns (“%%%%%%%% size,…,filename”)."))
        else:
            _entry(found, number, line, columns)
    return found.done()


def _entry(found: Collector, number: int, line: bytes, columns: list[str]) -> None:
    values = line.split(b",", len(columns) - 1)
    if len(values) != len(columns):
        found.wrong(
            number,
            _("has %(count)s columns, and %(count_2)s are named at the top.", count=len(values), count_2=len(columns)),
        )
        return
    size = found.size(values[0], number)
    name = found.name(values[-1], number)
    digests = []
    for algorithm, value in zip(columns[1:-1], values[1:-1], strict=True):
        digest = found.digest(value, number, algorithm) if algorithm in _KNOWN else None
        if digest is not None:
            digests.append(digest)
    if size is not None and name is not None:
        found.add(ListedEntry(name, number, size_bytes=size, digests=tuple(sorted(digests))))


def write(entries: Iterable[ListedEntry]) -> Iterator[bytes]:
    """A list with size, SHA-256 and name of the files that have a digest. Raises ListUnwritable."""
    files = [entry for entry in entries if entry.kind == "file" and entry.digest("sha256")]
    bad = [entry.name for entry in files if b"\n" in entry.name or b"\r" in entry.name]
    if bad:
        raise ListUnwritable("hashdeep", bad)
    yield _HEAD + b"\n%%%% size,sha256,filename\n"
    for entry in files:
        yield b"%d,%b,%b\n" % (entry.size_bytes or 0, entry.digest("sha256").encode(), entry.name)
