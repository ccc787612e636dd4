"""What a person asks for: USER@HOST:PATH and where it goes, read strictly, refused in one sentence."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from inventory.remote.names import RemoteName, escape
from transfers.engine.landing import shown

LANES_AT_MOST = 64
_PLACE = re.compile(r"(?P<user>[^@\s]+)@(?:\[(?P<six>[^\]\s]+)\]|(?P<host>[^:\[\]\s/@]+)):(?P<path>.*)", re.DOTALL)


@dataclass(eq=False)
class FetchRefused(Exception):
    """Permanent: the request itself, or what it meets, makes the fetch impossible. Nothing was changed."""

    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class Place:
    """One remote file: where to sign in, and its path, which may be relative to the home folder there."""

    username: str
    address: str
    path: RemoteName

    @property
    def name(self) -> bytes:
        """The file's own name."""
        return self.path.base


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A fetch as it was asked for. `lanes` None: chosen by the product; `key` None: the agent or the usual keys."""

    place: Place
    folder: Path
    known_hosts: Path
    port: int = 22
    key: Path | None = None
    lanes: int | None = None
    no_data_seconds: float = field(default=600.0)
    adopt: Path | None = None  # a partial file or set of parts on this machine


def read_place(text: str) -> Place:
    """Read USER@HOST:PATH; an IPv6 address stands in brackets. Raises FetchRefused."""
    found = _PLACE.fullmatch(text)
    if found is None:
        given = _shown(text)
        raise FetchRefused(
            f"“{given}” is not USER@HOST:PATH, for instance ada@host.example:/data/model.tar or "
            "ada@[2001:db8::1]:/data/model.tar. Nothing was changed."
        )
    raw = os.fsencode(found["path"])
    if not raw:
        raise FetchRefused(
            f"“{RemoteName.from_text(text)}” names no path after the colon. Nothing was changed; give the file's path."
        )
    if raw.startswith(b"~/"):
        raw = raw[2:]
    path = RemoteName(raw)
    if raw.endswith(b"/") or path.base in (b"", b".", b".."):
        raise FetchRefused(f"“{path}” names a folder, and only a file can be fetched. Nothing was changed.")
    return Place(found["user"], found["six"] or found["host"], path)


def _shown(text: str) -> str:
    return escape(os.fsencode(text))


def read_port(text: str) -> int:
    """A TCP port. Raises FetchRefused."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise FetchRefused(f"“{_shown(text)}” is no port; it is a number between 1 and 65,535. Nothing was changed.")
    return int(text)


def read_lanes(text: str) -> int | None:
    """A number of lanes, or None for "auto". Raises FetchRefused."""
    if text == "auto":
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= LANES_AT_MOST:
        raise FetchRefused(
            f"“{_shown(text)}” is no number of lanes; it is auto or a number between 1 and {LANES_AT_MOST}. Nothing "
            "was changed."
        )
    return int(text)


def check_folder(folder: Path) -> Path:
    """The landing folder, absolute. Raises FetchRefused when it is missing, no folder, or not writable."""
    if not folder.exists():
        raise FetchRefused(
            f"The folder “{shown(folder)}” is not there. Nothing was changed; make it, or choose another one."
        )
    if not folder.is_dir():
        raise FetchRefused(f"“{shown(folder)}” is not a folder. Nothing was changed; choose a folder.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FetchRefused(
            f"The folder “{shown(folder)}” may not be written to by this user. Nothing was changed; choose another one."
        )
    return folder.absolute()
