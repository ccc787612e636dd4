"""From what was found in an archive to the files that it stands for: of an image, its tree after whiteouts.

An image is described by `manifest.json` (what `docker save` writes) or `index.json` (an OCI layout); each of its layers
hides what lies below it: a name again, a whiteout (`.wh.NAME`), a whole folder (`.wh..wh..opq`), a file where a folder
was. Layers are read from the uppermost down, so that a set of digests of names is all that is held.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from inventory.overlap.inside import Record

_WHITEOUT, _OPAQUE = b".wh.", b".wh..wh..opq"
_INDEX_DEPTH = 3
_IMAGES_AT_MOST = 64
_LINKS_FOLLOWED = 8


@dataclass(slots=True)
class Findings:
    """One look, in an order in which it can be read again: `part()` gives a part's records anew each time.

    `faults` are parts that are not whole, with the word that says why.
    """

    part: Callable[[bytes], Iterable[Record]]
    parts: frozenset[bytes]
    descriptions: Mapping[bytes, bytes]
    faults: Mapping[bytes, str] = field(default_factory=dict)


@dataclass(slots=True)
class Tree:
    """What an archive comes to. `files()` may be read once; `faults` is complete after that."""

    kind: str  # "tar" or "image"
    images: int
    faults: list[str]
    files: Callable[[], Iterator[Record]]


def tree_of(findings: Findings) -> Tree:
    """The files that an archive stands for; of several images each one's, its name before the names of its files."""
    images = _images(findings)
    faults: list[str] = []
    if not images:
        return Tree("tar", 0, faults, lambda: _plain(findings, faults))

    def files() -> Iterator[Record]:
        for name, layers in images.items():
            before = name + b"/" if len(images) > 1 else b""
            for record in _effective(findings, layers, faults):
                yield record._replace(name=before + record.name)

    return Tree("image", len(images), faults, files)


def _plain(findings: Findings, faults: list[str]) -> Iterator[Record]:
    """A tar's files; of a name that comes twice, the later one, as tar itself would leave it.

    Where tar alone looked, descriptions and layers were not opened: an image is told by its names, as one that is not
    whole.
    """
    last: dict[bytes, int] = {}
    marks = set()
    for number, record in enumerate(findings.part(b"")):
        name = _plain_name(record.name)
        last[_key(name)] = number
        marks |= {"described"} if name in (b"manifest.json", b"oci-layout") else set()
        marks |= {"layered"} if name.endswith(b"/layer.tar") or name.startswith(b"blobs/sha256/") else set()
    if len(marks) > 1 and not findings.descriptions:
        faults.append("layers-closed")
    for number, record in enumerate(findings.part(b"")):
        name = _plain_name(record.name)
        if record.kind == "f" and last[_key(name)] == number:
            yield record._replace(name=name)


def _plain_name(name: bytes) -> bytes:
    """Without “.” parts and doubled slashes. “..” stays as it is: nothing is ever opened by it."""
    return b"/".join(part for part in name.split(b"/") if part not in (b"", b"."))


def _key(name: bytes) -> bytes:
    return blake2b(name, digest_size=16).digest()


# -- which layers ------------------------------------------------------------------------------------------------------


def _images(findings: Findings) -> dict[bytes, list[bytes]]:
    """Names of images with the parts that are their layers, lowest first."""
    found: dict[bytes, list[bytes]] = {}
    saved = _json(findings.descriptions.get(b"manifest.json"))
    if isinstance(saved, list):
        for number, one in enumerate(saved[:_IMAGES_AT_MOST]):
            layers = one.get("Layers") if isinstance(one, dict) else None
            if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
                continue
            tags = one.get("RepoTags")
            tag = tags[0] if isinstance(tags, list) and tags and isinstance(tags[0], str) else f"image {number + 1}"
            found[_name(tag, found)] = [_plain_name(layer.encode("utf-8", "surrogateescape")) for layer in layers]
    if found:
        return found
    _of_index(findings, _json(findings.descriptions.get(b"index.json")), found, _INDEX_DEPTH)
    return found


def _of_index(findings: Findings, index: Any, found: dict[bytes, list[bytes]], depth: int) -> None:
    listed = index.get("manifests") if isinstance(index, dict) else None
    for one in listed if isinstance(listed, list) and depth else ():
        described = _json(findings.descriptions.get(_blob(one)))
        layers = described.get("layers") if isinstance(described, dict) else None
        if isinstance(layers, list) and len(found) < _IMAGES_AT_MOST:
            notes = one.get("annotations") if isinstance(one, dict) else None
            tag = notes.get("org.opencontainers.image.ref.name") if isinstance(notes, dict) else None
            found[_name(tag if isinstance(tag, str) else str(one.get("digest"))[7:19], found)] = [
                _blob(layer) for layer in layers
            ]
        elif isinstance(described, dict):
            _of_index(findings, described, found, depth - 1)


def _name(tag: str, taken: Mapping[bytes, object]) -> bytes:
    raw = tag.encode("utf-8", "surrogateescape")[:200] or b"image"
    return raw if raw not in taken else raw + b" %d" % (len(taken) + 1)


def _blob(described: Any) -> bytes:
    digest = described.get("digest") if isinstance(described, dict) else None
    algorithm, _, value = digest.partition(":") if isinstance(digest, str) else ("", "", "")
    return f"blobs/{algorithm}/{value}".encode("utf-8", "surrogateescape")


def _json(content: bytes | None) -> Any:
    if content is None:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


# -- what is left of them ----------------------------------------------------------------------------------------------


def _effective(findings: Findings, layers: list[bytes], faults: list[str]) -> Iterator[Record]:
    """Files of the layers, each name once; `faults` names layers that are missing or not whole."""
    named: set[bytes] = set()  # what an upper layer has under this name
    hidden: set[bytes] = set()  # folders whose content in lower layers counts no more
    links = _links(findings)
    for layer in reversed(layers):
        part = _part(layer, findings.parts, links)
        if part is None:
            faults.append("layers-missing")
            continue
        if part in findings.faults:
            faults.append(findings.faults[part])
        yield from _layer(findings.part(part), findings.part(part), named, hidden)


def _layer(
    first: Iterable[Record], second: Iterable[Record], named: set[bytes], hidden: set[bytes]
) -> Iterator[Record]:
    """One layer's files that no upper one hides; afterwards the sets say what it hides itself."""
    last: dict[bytes, int] = {}
    below: set[bytes] = set()
    for number, record in enumerate(first):
        name = _plain_name(record.name)
        folder, _, base = name.rpartition(b"/")
        if base == _OPAQUE:
            below.add(_key(folder))
        elif base.startswith(_WHITEOUT):
            gone = _key((folder + b"/" if folder else b"") + base[len(_WHITEOUT) :])
            below.add(gone)
            last.setdefault(gone, -1)
        else:
            last[_key(name)] = number
            if record.kind != "d":
                below.add(_key(name))
    for number, record in enumerate(second):
        name = _plain_name(record.name)
        key = _key(name)
        if record.kind != "f" or last.get(key) != number or key in named or _is_below(name, hidden):
            continue
        yield record._replace(name=name)
    named.update(last)
    hidden.update(below)


def _is_below(name: bytes, hidden: set[bytes]) -> bool:
    if not hidden:
        return False
    if _key(b"") in hidden:
        return True
    parts = name.split(b"/")
    return any(_key(b"/".join(parts[:count])) in hidden for count in range(1, len(parts)))


def _links(findings: Findings) -> dict[bytes, bytes]:
    """Links in the archive itself: older `docker save` names a layer that it has already by one."""
    found: dict[bytes, bytes] = {}
    for record in findings.part(b""):
        if record.kind in ("l", "h") and len(found) < 10_000:
            name = _plain_name(record.name)
            above = name.rpartition(b"/")[0] if record.kind == "l" else b""
            found[name] = _resolved(above, record.target)
    return found


def _resolved(above: bytes, target: bytes) -> bytes:
    parts = above.split(b"/") if above and not target.startswith(b"/") else []
    for part in target.split(b"/"):
        if part == b".." and parts:
            parts.pop()
        elif part not in (b"", b".", b".."):
            parts.append(part)
    return b"/".join(parts)


def _part(layer: bytes, parts: frozenset[bytes], links: Mapping[bytes, bytes]) -> bytes | None:
    for _turn in range(_LINKS_FOLLOWED):
        if layer in parts:
            return layer
        if layer not in links:
            return None
        layer = links[layer]
    return None
