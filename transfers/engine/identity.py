"""What a source file is at a moment: kind, size, times, inode. Compared before and after; digests prove content."""

from __future__ import annotations

from dataclasses import dataclass

from inventory.remote.base import CommandFailed, PathMissing, PathRefused, Remote
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote

_KINDS = {0o010000: "a pipe", 0o020000: "a device", 0o040000: "a folder", 0o060000: "a device", 0o140000: "a socket"}


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """A regular file on the host, links followed. Times are the host's own text, with its full precision."""

    size_bytes: int
    modified: str
    changed: str
    device: int
    inode: int

    def difference(self, later: SourceIdentity) -> str:
        """What changed, as the end of a sentence about the file; empty when nothing did."""
        if later.size_bytes != self.size_bytes:
            return f"was {self.size_bytes:,} bytes long and is {later.size_bytes:,} now"
        if (later.device, later.inode) != (self.device, self.inode):
            return "was replaced by another file of the same name"
        if later.modified != self.modified:
            return f"was written to (modified {later.modified}, before {self.modified})"
        if later.changed != self.changed:
            return f"was touched (changed {later.changed}, before {self.changed})"
        return ""


def identity_script(path: RemoteName) -> bytes:
    """Text that prints mode (hex), size, device, inode, and the two times, each on a line of its own."""
    name = quote(path.raw)
    return (
        b"F=" + name + b"\n"
        b'[ -e "$F" ] || { if [ -L "$F" ]; then echo dangling; else echo missing; fi; exit 0; }\n'
        b"stat -L -c '%f\n%s\n%d\n%i\n%y\n%z' -- \"$F\" 2>/dev/null"
        b" || stat -L -c '%f\n%s\n%d\n%i\n%y\n%z' \"$F\" || exit 1\n"
        b'[ -r "$F" ] && echo readable\n'
        b"exit 0\n"
    )


def source_identity(remote: Remote, path: RemoteName, *, timeout_seconds: float = 60.0) -> SourceIdentity:
    """Look at a regular file, links followed.

    Raises PathMissing, PathRefused (not a regular file, or not readable), CommandFailed, TransientError.
    """
    output = remote.check(identity_script(path), step=f"look at {path}", timeout_seconds=timeout_seconds)
    return _identity(output, path)


def source_from_home(
    remote: Remote, path: RemoteName, *, timeout_seconds: float = 60.0
) -> tuple[RemoteName, SourceIdentity]:
    """Like `source_identity`, for a path that may be relative to the folder in which sessions begin.

    Also returns the absolute path. One script, since a round trip may be long.
    """
    script = b"printf '%s\\0' \"$(pwd)\"\n" + identity_script(path)
    output = remote.check(script, step=f"look at {path}", timeout_seconds=timeout_seconds)
    home, _, rest = output.partition(b"\0")
    absolute = path if path.is_absolute else RemoteName(home).join(path.raw)
    return absolute, _identity(rest, absolute)


def _identity(output: bytes, path: RemoteName) -> SourceIdentity:
    lines = output.decode("utf-8", "surrogateescape").splitlines()
    if lines == ["missing"]:
        raise PathMissing(path)
    if lines == ["dangling"]:
        raise PathRefused(path, "it is a symbolic link that leads to nothing.")
    if len(lines) < 6:
        raise CommandFailed(f"look at {path}", 0, "stat printed something else than asked for")
    kind = int(lines[0], 16) & 0o170000
    if kind != 0o100000:
        raise PathRefused(path, f"it is {_KINDS.get(kind, 'not a regular file')}, and only a file can be fetched.")
    if lines[6:] != ["readable"]:
        raise PathRefused(path, "this account may not read it.")
    return SourceIdentity(int(lines[1]), lines[4], lines[5], int(lines[2]), int(lines[3]))
