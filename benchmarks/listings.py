"""Listings of any size for benchmarks: the same tree for the same number of entries, as a host would list it.

The tree is made, not recorded from anybody's disk: folders of a software project, six deep at most, one entry in
twelve a folder, one in sixty a link, a file in a thousand large. Names repeat as they do in such trees, and some hold
bytes that are no UTF-8.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

from inventory.remote.names import RemoteName
from inventory.scan import ScanEntry

ROOT = RemoteName(b"/srv/project")
RARE_NAME = b"calibration-of-the-second-prototype.dat"  # one file of each listing
_FOLDERS = [b"src", b"include", b"build", b"docs", b"tests", b"objects", b"third_party", b"models", b".git", b"tools"]
_STEMS = [b"main", b"util", b"block", b"index", b"param", b"layer", b"trace", b"config", b"table", b"driver"]
_ENDS = [b".c", b".h", b".o", b".py", b".txt", b".json", b".bin", b".so", b".md", b".log"]
_BEGAN_NS = 1_600_000_000 * 10**9


def listing(count: int, *, seed: int = 1) -> Iterator[ScanEntry]:
    """`count` entries, the root first, each folder before its content. Sizes in bytes."""
    draw = random.Random(seed)
    yield _entry(b"", "folder", 4096, draw, 1)
    folders = [(b"", 0)]  # each with its depth
    rare = count // 2
    for number in range(1, count):
        above, depth = folders[_pick(draw, len(folders))]
        stem, at = draw.choice(_STEMS), draw.random()
        prefix = above + b"/" if above else b""
        if number == rare:
            yield _entry(prefix + RARE_NAME, "file", 123_456, draw, number)
        elif at < 0.083 and depth < 6:
            name = prefix + draw.choice(_FOLDERS) + b"-%d" % number
            folders.append((name, depth + 1))
            yield _entry(name, "folder", 4096, draw, number)
        elif at < 0.1:
            yield _entry(prefix + b"%s-%d" % (stem, number), "link", 12, draw, number, stem + b".so")
        else:
            size = int(draw.lognormvariate(8.5, 1.8)) if at < 0.999 else draw.randrange(10**8, 4 * 10**9)
            odd = b"\xff" if number % 50_000 == 7 else b""
            yield _entry(prefix + b"%s%s_%d" % (stem, odd, number) + draw.choice(_ENDS), "file", size, draw, number)


def _pick(draw: random.Random, count: int) -> int:
    """Mostly one of the newer folders, so that they fill one after another, now and then any."""
    return draw.randrange(count) if draw.random() < 0.2 else max(0, count - 1 - int(draw.expovariate(0.05)))


def _entry(name: bytes, kind: str, size: int, draw: random.Random, number: int, target: bytes = b"") -> ScanEntry:
    time_ns = _BEGAN_NS + draw.randrange(10**17)
    stored = (size + 511) // 512 * 512
    return ScanEntry(name, kind, size, stored, time_ns, time_ns, 0o644, 66_306, number, 1, target)  # type: ignore[arg-type]


def digest_of(number: int) -> bytes:
    """A digest that stands for one content."""
    return hashlib.sha256(b"%d" % number).digest()
