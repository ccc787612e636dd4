"""Every list format by its name, and how one is told from its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from inventory.manifests import bagit, csvlist, du, findlist, hashdeep, lsjson, mtree, sums
from inventory.manifests.lists import FileList, ListedEntry, ListError, ListProblem, decoded, utf16_of
from inventory.manifests.said import _

Read = Callable[[bytes], FileList]
Write = Callable[[Iterable[ListedEntry]], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `file_name` is what an exported file ends in; `needs_digests` when it holds only files with one."""

    name: str
    words: str
    read: Read | None
    write: Write | None
    file_name: str
    needs_digests: bool = False


FORMATS = {
    one.name: one
    for one in (
        Format("sums", "SHA256SUMS (GNU or BSD form)", sums.read, sums.write, "SHA256SUMS", needs_digests=True),
        Format("csv", "CSV", csvlist.read, csvlist.write, "list.csv"),
        Format("lsjson", "rclone lsjson", lsjson.read, lsjson.write, "lsjson.json"),
        Format("mtree", "mtree", mtree.read, mtree.write, "list.mtree"),
        Format("hashdeep", "hashdeep", hashdeep.read, hashdeep.write, "hashdeep.txt", needs_digests=True),
        Format("bagit", "BagIt manifest", bagit.read, bagit.write, "manifest-sha256.txt", needs_digests=True),
        Format("du", "du -ab", du.read, du.write, "du-0ab.bin"),
        Format("find", "find -printf, or names with NUL", findlist.read, findlist.write, "find.bin"),
        Format("files0", "names for --files-from0", None, findlist.write_names, "files-from0.bin"),
    )
}
READABLE = tuple(one for one in FORMATS.values() if one.read is not None)
WRITABLE = tuple(one for one in FORMATS.values() if one.write is not None)
_CSV_NAMES = (b"path", b"name", b"file", b"filename", b"escaped_path")


def detect(content: bytes, file_name: str = "") -> str:
    """The name of the format that a content most likely has. Raises ListError when it looks like none."""
    if not content.strip(b" \t\r\n\0"):
        raise ListError([ListProblem(1, _("the file is empty."))])
    if b"\0" in content and not utf16_of(content):
        first = content.partition(b"\0")[0]
        return "du" if first.partition(b"\t")[0].isdigit() and b"\t" in first else "find"
    body = decoded(content)[: 2**16]
    lines = [line.strip() for line in body.split(b"\n") if line.strip()]
    first = lines[0]
    if first.startswith(b"%%%% HASHDEEP"):
        return "hashdeep"
    if first.startswith(b"["):
        return "lsjson"
    if file_name.startswith("manifest-") and file_name.endswith(".txt"):
        return "bagit"
    head = first.lower().replace(b'"', b"").replace(b";", b",").replace(b"\t", b",").split(b",")
    if any(cell.strip() in _CSV_NAMES for cell in head) and len(head) > 1:
        return "csv"
    size, tab, _name = first.partition(b"\t")
    if tab and size.isdigit() and len(size) < 20:
        return "du"
    if any(line.startswith(b"/set ") or b" type=" in line or line == b"#mtree" for line in lines[:50]):
        return "mtree"
    return "sums"


def read_list(content: bytes, *, format_name: str = "", file_name: str = "") -> FileList:
    """Read a list in a format, or in the one that it looks like. Raises ListError."""
    chosen = FORMATS.get(format_name or detect(content, file_name))
    if chosen is None or chosen.read is None:
        raise ListError(
            [ListProblem(1, _("“%(format_name)s” is no format that can be read.", format_name=format_name))]
        )
    return chosen.read(content)
