"""BagIt 0.97 and 1.0: a payload manifest (`manifest-ALG.txt`), or a whole bag's folder here.

A manifest's line is `HEX PATH` with any number of blanks between; version 1.0 writes CR, LF and % as %0D, %0A and %25,
and older versions CR and LF alone. A path begins with `data/`. `fetch.txt` names what the bag does not carry: it is
shown and never fetched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from inventory.manifests.lists import Collector, FileList, ListedEntry, text_lines
from inventory.manifests.said import _
from inventory.remote.names import escape

_LINE = re.compile(rb"([0-9A-Fa-f]{32,128})[ \t]+\*?(.+)", re.DOTALL)
_FETCH = re.compile(rb"(\S+)[ \t]+(\d+|-)[ \t]+(.+)", re.DOTALL)
_CODES = re.compile(rb"%(0[AaDd]|25)")
_OLD_CODES = re.compile(rb"%(0[AaDd])")
_PLAIN = {b"0A": b"\n", b"0D": b"\r", b"25": b"%"}


def read(content: bytes, *, version: str = "1.0") -> FileList:
    """Read one payload manifest. Raises ListError, also for paths outside `data/`."""
    found = Collector("BagIt")
    _manifest(found, content, version)
    return found.done()


def read_bag(folder: Path) -> FileList:
    """Read every manifest and fetch.txt of a bag's folder here, and compare them with what lies there.

    Raises ListError, OSError.
    """
    found = Collector("BagIt")
    version = _version(folder)
    manifests = sorted(folder.glob("manifest-*.txt"))
    if not manifests:
        found.wrong(1, _("the folder has no manifest-*.txt, so it is no bag."))
    names = []
    for path in manifests:
        before = len(found.entries)
        _manifest(found, path.read_bytes(), version)
        names.append({entry.name for entry in found.entries[before:]})
    for path, own in zip(manifests, names, strict=True):
        for name in sorted(set().union(*names) - own)[:20] if version != "0.97" else ():
            found.wrong(
                1,
                _(
                    "%(name)s does not list “%(name_2)s”, which another manifest does.",
                    name=path.name,
                    name_2=name.decode("utf-8", "replace"),
                ),
            )
    if (folder / "fetch.txt").is_file():
        _fetch(found, (folder / "fetch.txt").read_bytes())
    _payload(found, folder)
    return found.done()


def _payload(found: Collector, folder: Path) -> None:
    """A file that lies in `data/` and in no manifest makes the bag invalid; one that is listed and absent is a note."""
    listed = {entry.name for entry in found.entries}
    top = os.fsencode(folder)
    lying = {os.fsencode(path)[len(top) + 1 :] for path in (folder / "data").rglob("*") if path.is_file()}
    for name in sorted(lying - listed):
        found.wrong(1, _("“%(name)s” lies in the bag, and no manifest lists it.", name=escape(name)))
    for _name in listed - lying:
        found.note(_("a file is listed and does not lie in the bag"))


def _version(folder: Path) -> str:
    lines = dict(line.split(b":", 1) for _, line in text_lines((folder / "bagit.txt").read_bytes()) if b":" in line)
    return lines.get(b"BagIt-Version", b"1.0").strip().decode("ascii", "replace")


def _manifest(found: Collector, content: bytes, version: str) -> None:
    for number, line in text_lines(content):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            found.wrong(number, _("is not “DIGEST PATH”."))
            continue
        digest = found.digest(match.group(1), number)
        name = _name(found, match.group(2), number, version)
        if digest is not None and name is not None:
            found.add(ListedEntry(name, number, digests=(digest,)))


def _name(found: Collector, raw: bytes, number: int, version: str) -> bytes | None:
    codes = _OLD_CODES if version.startswith("0.") else _CODES
    name = found.name(codes.sub(lambda match: _PLAIN[match.group(1).upper()], raw), number)
    if name is not None and not name.startswith(b"data/"):
        found.wrong(number, _("the path does not lie in “data/”, where a bag's content is."))
        return None
    return name


def _fetch(found: Collector, content: bytes) -> None:
    """What is to be fetched from elsewhere, told in notes; a path outside the bag stops the import."""
    for number, line in text_lines(content):
        match = _FETCH.fullmatch(line)
        if not line.strip():
            continue
        if match is None:
            found.wrong(number, _("of fetch.txt is not “ADDRESS LENGTH PATH”."))
            continue
        address, length, raw = match.groups()
        name = _name(found, raw, number, "1.0")
        if name is not None:
            size = _("of unknown length") if length == b"-" else _("of %(count)s bytes", count=f"{int(length):,}")
            shown = address[:200].decode("utf-8", "replace")
            found.note(
                _(
                    "fetch.txt would take “%(name)s” %(size)s from %(shown)s; nothing is fetched",
                    name=name.decode("utf-8", "replace"),
                    size=size,
                    shown=shown,
                )
            )


def write(entries: Iterable[ListedEntry], *, algorithm: str = "sha256") -> Iterator[bytes]:
    """A payload manifest of version 1.0 for the files that have this digest; names are put below `data/`."""
    for entry in entries:
        digest = entry.digest(algorithm)
        if entry.kind != "file" or not digest:
            continue
        raw = entry.name if entry.name.startswith(b"data/") else b"data/" + entry.name.lstrip(b"/")
        coded = raw.replace(b"%", b"%25").replace(b"\n", b"%0A").replace(b"\r", b"%0D")
        yield digest.encode() + b"  " + coded + b"\n"
