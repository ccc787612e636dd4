"""A plan's fetch as a shell script that needs ssh, dd, sha256sum and a POSIX shell, for the day the product is away.

`fetch_script.sh` beside this module is what every such script does; here are the words about one plan: where the host
is, which key it must show, and of each build every chunk with its digest and with the stretches that it is made of.
Names may hold any byte but NUL: they stand in single quotes, and those for the host's shell are quoted twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from inventory.remote.shell import quote
from transfers.engine.geometry import SegmentMap, final_name
from transfers.engine.landing import check_names
from transfers.engine.types import BuildSpec

_WORD = re.compile(r"[A-Za-z0-9._:%@-]+", re.ASCII)


class ScriptRefused(Exception):
    """The script cannot be made. `str()` is the sentence to show."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How the host is reached, and the key that it must show (`key_type`, and its blob in base64)."""

    address: str
    port: int
    username: str
    key_type: str
    key_base64: str


@dataclass(frozen=True, slots=True)
class ScriptBuild:
    """One build to go on with: `folder` is relative to the landing, `sha256` that of the whole ("" where none is)."""

    title: str
    folder: str
    spec: BuildSpec
    sha256: str


def fetch_script(
    *, reach: Reach, landing: str, builds: Sequence[ScriptBuild], jobs: int, notes: Iterable[str] = ()
) -> bytes:
    """The script: builds in the order given, `jobs` chunks of one at a time. `notes` are lines for its head.

    Raises ScriptRefused, NameRefused (a name that this disk cannot hold, or that leads out of the folder).
    """
    for word in (reach.address, reach.username, reach.key_type):
        if not _WORD.fullmatch(word) or word.startswith("-"):
            raise ScriptRefused(f"“{word}” cannot stand in an address for ssh. Nothing was made. Mend the channel.")
    return b"".join(_lines(reach, landing, builds, jobs, notes))


def _lines(
    reach: Reach, landing: str, builds: Sequence[ScriptBuild], jobs: int, notes: Iterable[str]
) -> Iterator[bytes]:
    yield b"#!/bin/sh\n"
    for note in notes:
        yield b"# " + _one_line(note) + b"\n"
    yield b"#\n"
    body = (files("transfers.engine") / "fetch_script.sh").read_bytes()
    head, _set, rest = body.partition(b"\nset -u\n")
    yield head
    settings = {
        "ADDRESS": reach.address,
        "PORT": str(reach.port),
        "ACCOUNT": reach.username,
        "HOST_KEY": f"the-host {reach.key_type} {reach.key_base64}",
    }
    yield b"\n"
    for name, value in settings.items():
        yield name.encode() + b"=" + quote(value.encode()) + b"\n"
    # A default within ${…:=…} would read quotes in its own way.
    yield b'[ -n "${LANDING:-}" ] || LANDING=' + quote(landing.encode("utf-8", "surrogateescape")) + b"\n"
    yield b'[ -n "${JOBS:-}" ] || JOBS=%d\n' % jobs
    yield b"\nset -u\n"
    yield rest
    yield b"\n"
    for build in builds:
        yield from _build(build)
    yield (
        b'if [ -s "$lock/failed" ]; then\n'
        b'  say "Not everything is here. What failed:"\n'
        b'  dd if="$lock/failed" 2>/dev/null\n'
        b"  exit 1\n"
        b"fi\n"
        b'say "Everything in this script is here and right."\n'
    )


def _build(build: ScriptBuild) -> Iterator[bytes]:
    spec = build.spec
    check_names(spec)
    stretches = SegmentMap(spec.segments)
    name = final_name(spec)
    incoming = spec.incoming_name.encode("utf-8", "surrogateescape")
    yield b"\nbegin %s %s %s\n" % (_word(build.title), _word(build.folder), quote(name))
    if not spec.single_file:
        for segment in spec.segments:
            if not segment.length:
                yield b"empty %s\n" % quote(incoming + b"/" + segment.landing_name)
    elif not spec.size_bytes:
        yield b"empty %s\n" % quote(incoming)
    for chunk in spec.chunks:
        if chunk.sha256 is None:
            raise ScriptRefused(f"Chunk {chunk.index} of {build.title} has no digest yet, so nothing could be proven.")
        yield b"chunk %d %d %s" % (chunk.index, chunk.length, chunk.sha256.hex().encode())
        sources = stretches.pieces(chunk.offset, chunk.length)
        landings = stretches.landing_pieces(chunk.offset, chunk.length)
        for piece, here in zip(sources, landings, strict=True):
            path = incoming if spec.single_file else incoming + b"/" + here.landing_name
            words = (quote(quote(piece.source.raw)), piece.source_offset, piece.length, quote(path))
            yield b" \\\n  %s %d %d %s %d" % (*words, here.landing_offset)
        yield b"\n"
    yield b"end %d %s %s\n" % (spec.size_bytes, quote(build.sha256.encode()), quote(name))


def _word(text: str) -> bytes:
    return quote(text.encode("utf-8", "surrogateescape"))


def _one_line(text: str) -> bytes:
    return " ".join(text.split()).encode("utf-8", "surrogateescape")
