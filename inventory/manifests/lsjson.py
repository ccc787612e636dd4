"""`rclone lsjson -R --hash`: one JSON list, an object a line. Line numbers are those on which an object begins.

JSON is text. A byte of a name that is no UTF-8 is written as a lone surrogate (\\udcXX), which this module reads back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from inventory.manifests.lists import Collector, FileList, ListedEntry, ListError, ListProblem, decoded
from inventory.manifests.said import _

_KNOWN = ("md5", "sha1", "sha256", "sha512")
_DECODER = json.JSONDecoder()


def read(content: bytes) -> FileList:
    """Read a lsjson list. Raises ListError."""
    found = Collector("rclone lsjson")
    for number, item in _objects(content):
        _add(found, number, item)
    return found.done()


def _objects(content: bytes) -> Iterator[tuple[int, Any]]:
    """The list's objects, each with the line it begins on, one after another so that an error has its place."""
    try:
        text = decoded(content).decode()
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise ListError([ListProblem(number, _("holds bytes that are no UTF-8, so it is no JSON."))]) from error
    at, line = _skip(text, 0), 1
    if text[at : at + 1] != "[":
        raise ListError([ListProblem(1, _("a lsjson list begins with “[”."))])
    before, at = 0, _skip(text, at + 1)
    while text[at : at + 1] != "]":
        line += text.count("\n", before, at)
        before = at
        try:
            item, at = _DECODER.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            place = text.count("\n", 0, error.pos) + 1 if isinstance(error, json.JSONDecodeError) else line
            raise ListError([ListProblem(place, _("is no JSON from here on; the list may be cut off."))]) from error
        yield line, item
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            raise ListError([ListProblem(text.count("\n", 0, at) + 1, _("the list is cut off or has no “,” here."))])


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _add(found: Collector, number: int, item: Any) -> None:
    if not isinstance(item, dict) or not isinstance(item.get("Path"), str) or not item["Path"]:
        found.wrong(number, _("is no object with a “Path”."))
        return
    try:
        raw = item["Path"].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        found.wrong(number, _("the “Path” holds half a character (a lone surrogate) that stands for no byte."))
        return
    name = found.name(raw, number)
    is_folder = item.get("IsDir") is True
    size = item.get("Size", -1)
    if not isinstance(size, int) or isinstance(size, bool) or size < -1:
        found.wrong(number, _("the “Size” is no number of bytes."))
        return
    digests = []
    hashes = item.get("Hashes") or {}
    for algorithm, value in hashes.items() if isinstance(hashes, dict) else ():
        if algorithm.lower() in _KNOWN and isinstance(value, str) and value:
            digest = found.digest(value.encode("utf-8", "replace"), number, algorithm.lower())
            digests += [digest] if digest is not None else []
    mtime_ns = _time(found, number, item.get("ModTime"))
    if name is not None:
        count = None if is_folder or size < 0 else size
        found.add(ListedEntry(name, number, "folder" if is_folder else "file", count, mtime_ns, tuple(sorted(digests))))


def _time(found: Collector, number: int, text: Any) -> int | None:
    """Nanoseconds of an RFC 3339 time."""
    if not isinstance(text, str) or not text:
        return None
    head, point, rest = text.partition(".")
    digits = ""
    if point:
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        head += rest[len(digits) :]
    try:
        moment = datetime.fromisoformat(head.replace("Z", "+00:00"))
    except ValueError:
        found.wrong(number, _("the “ModTime” is no time."))
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    whole = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 10**9 + int((digits or "0")[:9].ljust(9, "0"))


def write(entries: Iterable[ListedEntry]) -> Iterator[bytes]:
    """One object a line, as rclone writes them."""
    before = b"[\n"
    for entry in entries:
        text = entry.name.decode("utf-8", "surrogateescape")
        is_folder = entry.kind == "folder"
        item: dict[str, Any] = {
            "Path": text,
            "Name": text.rpartition("/")[2],
            "Size": -1 if is_folder or entry.size_bytes is None else entry.size_bytes,
            "IsDir": is_folder,
        }
        if entry.mtime_ns is not None and 0 <= entry.mtime_ns < 253_402_300_800 * 10**9:
            seconds, rest = divmod(entry.mtime_ns, 10**9)
            item["ModTime"] = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
        if entry.digests:
            item["Hashes"] = dict(entry.digests)
        yield before + json.dumps(item, ensure_ascii=True, separators=(",", ":")).encode()
        before = b",\n"
    yield (b"" if before == b",\n" else b"[") + b"\n]\n"
