"""List everything below a folder of a host, in one streamed pass and flat memory.

With GNU find, `-printf` tells all of an entry in three NUL-ended fields:

    KIND SIZE BLOCKS MTIME CTIME MODE DEVICE INODE LINKS \\0 NAME \\0 TARGET \\0

Elsewhere find hands batches of paths to stat, whose lines are told apart by two random words that no name can hold:

    WORD1 FIELDS|MTIME|CTIME|PATH WORD2 [QUOTED LINK] \\n          (WORD1 - PATH WORD2 \\n: may not be listed)

Either way the bytes of names come through untouched, and after the last entry follows `!STATUS\\n` and what find
complained about. Links are not followed, our staging folder is pruned on the host. Folders of other file systems that
are mounted inside the tree are listed; `ScanEntry.device` tells them apart.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from inventory.remote.base import (
    CommandFailed,
    EntryKind,
    PathMissing,
    PathRefused,
    Remote,
    RemoteStat,
    ToolMissing,
)
from inventory.remote.files import STAT_FORMAT, parse_stat
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote, raise_bad_status

COMPLAINTS_KEPT_BYTES = 256 * 1024
_LOOK_SECONDS = 60.0
_NOT_LISTED = 67
_NOT_FOUND = 127  # a shell's status for a program that is not there
_BLOCK_BYTES = 512
_KINDS: dict[bytes, EntryKind] = {
    b"f": "file",
    b"d": "folder",
    b"l": "link",
    b"s": "socket",
    b"p": "pipe",
    b"b": "device",
    b"c": "device",
}
# “find: '/a/b': Permission denied” from GNU, “find: /a/b: …” and “stat: can't stat '/a/b': …” from BusyBox.
_COMPLAINT = re.compile(
    rb"(?:find|stat): (?:can't stat |cannot statx? |can't open )?"
    rb"(?P<path>'?/.*?): (?P<reason>[A-Z][A-Za-z ,/()-]{3,80})(?:\n|\Z)",
    re.DOTALL,
)
_VANISHED = (b"No such file or directory", b"Not a directory")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True, slots=True)
class ScanEntry:
    """One path below a scan's root. Sizes in bytes, times in nanoseconds since 1970.

    `name` is relative to the root and empty for the root itself. `size_bytes` is the length that a reader sees,
    `stored_bytes` what the file system keeps for it (less for sparse files). `unreadable` is a folder that may not be
    listed, or a path that the host could not tell about (then all figures are 0).
    """

    name: bytes
    kind: EntryKind
    size_bytes: int
    stored_bytes: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    device: int
    inode: int
    link_count: int
    link_target: bytes = b""


def scan_resource(
    remote: Remote,
    root: RemoteName,
    *,
    leave_out: Sequence[RemoteName],
    has_find_printf: bool,
    timeout_seconds: float = 600.0,
) -> Iterator[ScanEntry]:
    """Yield every entry of the tree at `root`, the root first, the rest in the order in which the host gives them.

    A root that is no folder gives its one entry. Folders in `leave_out` (our staging) are not entered and not given,
    by whatever path they are reached. What vanishes while the scan runs is passed over. When listing a folder fails in
    the middle, its name comes a second time, near the end, as `unreadable`: that one counts.
    `timeout_seconds` bounds each silence of the host.

    Raises PathMissing; PathRefused for a root that is not canonical, is a symbolic link (its target is named), may not
    be listed, or lies in `leave_out`; ToolMissing; TransientError; and, after the last entry, CommandFailed when the
    host complained about something that belongs to no entry.
    """
    if not root.is_canonical:
        raise PathRefused(root, "a resource's path is absolute, without “.”, “..”, “//” or a slash at its end.")
    seen = remote.stat(root)
    if seen.kind == "link":
        raise PathRefused(root, _link_sentence(remote, root))
    left_out = _left_out(remote, root, leave_out, is_folder=seen.kind == "folder")
    if seen.kind != "folder":
        yield _entry_of_stat(b"", seen, seen.kind, b"")
        return
    step = f"list {root}"
    reader: _Reader = _PrintfReader(step) if has_find_printf else _StatReader(root, step)
    script = _script(reader.find_words(root, _prune_words(root, left_out)), reader.last_word)
    unreadable: set[bytes] = set()  # they are few; needed to know which complaints are answered already
    for piece in remote.stream(script, step=step, timeout_seconds=timeout_seconds):
        for entry in reader.entries(piece):
            if not _is_left_out(entry.name, left_out):
                if entry.kind == "unreadable":
                    unreadable.add(entry.name)
                yield entry
    status, complaints = _tail(reader.rest(), step)
    for name in _complained_of(complaints, root, status, step, is_escaped=has_find_printf):
        if name not in unreadable and not _is_left_out(name, left_out):
            unreadable.add(name)
            yield ScanEntry(name, "unreadable", 0, 0, 0, 0, 0, 0, 0, 0)


# -- before the listing ------------------------------------------------------------------------------------------------


def _link_sentence(remote: Remote, root: RemoteName) -> str:
    real = remote.run(b"readlink -f " + quote(root.raw) + b"\n", step=f"follow {root}").output.removesuffix(b"\n")
    where = f" to “{RemoteName(real)}”" if real else " that leads nowhere"
    return f"it is a symbolic link{where}. Nothing was listed. Give the real path."


def _left_out(
    remote: Remote, root: RemoteName, leave_out: Sequence[RemoteName], *, is_folder: bool
) -> tuple[bytes, ...]:
    """Relative names below the root that are not to be listed, found by their real paths and by the given ones."""
    folder = root if is_folder else RemoteName(root.raw.rpartition(b"/")[0] or b"/")
    script = [b"cd %b && [ -r . ] || exit %d\n" % (quote(folder.raw), _NOT_LISTED)] if is_folder else []
    script += [b"(cd %b 2>/dev/null && pwd -P); printf '\\0'\n" % quote(path.raw) for path in (folder, *leave_out)]
    step = f"look at {root}"
    completed = remote.run(b"".join(script), step=step, timeout_seconds=_LOOK_SECONDS)
    if completed.status == _NOT_LISTED:
        raise PathRefused(root, "the account may not list it (permission denied). Nothing was listed.")
    raise_bad_status(completed, step)
    folder_real, *reals = [RemoteName(line.removesuffix(b"\n")) for line in completed.output.split(b"\0")[:-1]]
    root_real = folder_real if is_folder or not folder_real.raw else folder_real.join(root.base)
    pairs = [(root, path) for path in leave_out]
    pairs += [(root_real, path) for path in reals if path.raw and root_real.raw]
    found = set()
    for top, path in pairs:
        if top.is_below(path):
            raise PathRefused(root, f"it lies in our own staging folder “{path}”, which is never listed.")
        if path.is_below(top):
            found.add(path.raw[len(top.raw.rstrip(b"/")) + 1 :].rstrip(b"/"))
    return tuple(sorted(found))


def _is_left_out(name: bytes, left_out: Sequence[bytes]) -> bool:
    return any(name == folder or name.startswith(folder + b"/") for folder in left_out)


def _prune_words(root: RemoteName, left_out: Sequence[bytes]) -> bytes:
    """Words that keep find out of these folders. `-path` takes a pattern, so special bytes are escaped."""
    patterns = (re.sub(rb"([\\*?\[])", rb"\\\1", root.join(name).raw) for name in left_out)
    return b"".join(b"-path " + quote(pattern) + b" -prune -o " for pattern in patterns)


def _script(find_words: bytes, last_word: bytes) -> bytes:
    """find's output as it comes; its complaints are held back by the shell and follow at the end."""
    return (
        b"TZ=UTC; QUOTING_STYLE=literal; export TZ QUOTING_STYLE\nexec 3>&1\n"
        b"said=$({ find " + find_words + b"\nprintf '%s!%d\\n' '" + last_word + b"' $? >&3; } 2>&1 >&3 | "
        b"{ head -c " + b"%d" % COMPLAINTS_KEPT_BYTES + b"; cat >/dev/null; })\nprintf '%s\\n' \"$said\"\n"
    )


# -- reading the listing -----------------------------------------------------------------------------------------------


class _Reader(Protocol):
    """One way to have find tell all of an entry."""

    last_word: bytes  # to be printed after the last entry

    def find_words(self, root: RemoteName, prune_words: bytes) -> bytes:
        """find's arguments, as shell text."""

    def entries(self, piece: bytes) -> Iterator[ScanEntry]:
        """The entries that are whole with this next piece of output. Raises CommandFailed for what is no entry."""

    def rest(self) -> bytes:
        """What is left after the last piece."""


class _PrintfReader:
    """GNU find's -printf."""

    last_word = b""

    def __init__(self, step: str) -> None:
        self._step = step
        self._held = b""

    def find_words(self, root: RemoteName, prune_words: bytes) -> bytes:
        told = b"%s %b %T@ %C@ %m %D %i %n\\0%P\\0%l\\0'"
        barred = b"-type d \\( ! -readable -o ! -executable \\) -printf '! " + told + b" -prune"
        return quote(root.raw) + b" -noleaf " + prune_words + barred + b" -o -printf '%y " + told

    def entries(self, piece: bytes) -> Iterator[ScanEntry]:
        parts = (self._held + piece).split(b"\0")
        whole = (len(parts) - 1) // 3 * 3
        for at in range(0, whole, 3):
            yield self._entry(*parts[at : at + 3])
        self._held = b"\0".join(parts[whole:])

    def _entry(self, figures: bytes, name: bytes, target: bytes) -> ScanEntry:
        try:
            kind, size, blocks, mtime, ctime, mode, device, inode, links = figures.split()
            return ScanEntry(
                name,
                _KINDS.get(kind, "unreadable"),
                int(size),
                int(blocks) * _BLOCK_BYTES,
                _nanoseconds(mtime),
                _nanoseconds(ctime),
                int(mode, 8),
                int(device),
                int(inode),
                int(links),
                target,
            )
        except ValueError as error:
            message = f"find printed {figures[:200]!r}, which is not what was asked for"
            raise CommandFailed(self._step, 0, message) from error

    def rest(self) -> bytes:
        return self._held


def _nanoseconds(shown: bytes) -> int:
    """find shows whole seconds (negative before 1970) and, after the point, what is to be added to them."""
    seconds, _, fraction = shown.partition(b".")
    return int(seconds) * 10**9 + int(fraction[:9].ljust(9, b"0"))


class _StatReader:
    """Any find that knows `-exec … {} +`, and a stat that knows `-c`."""

    def __init__(self, root: RemoteName, step: str) -> None:
        self._root, self._step = root, step
        self.last_word, self._middle = secrets.token_hex(16).encode(), secrets.token_hex(16).encode()
        self._held: bytes | None = None  # None until the first word was seen
        self._start = b""
        self._barred: set[bytes] = set()

    def find_words(self, root: RemoteName, prune_words: bytes) -> bytes:
        wanted = self.last_word + STAT_FORMAT + b"|%n" + self._middle
        stat = b"-exec stat -c "
        folders = (
            b"for p do [ -r \"$p\" ] && [ -x \"$p\" ] || printf '%s%s%s\\n' "
            + self.last_word + b"- \"$p\" " + self._middle + b'; done\nexec stat -c "$0" "$@"\n'
        )  # fmt: skip
        return (
            quote(root.raw) + b" " + prune_words
            + b"-type d -exec /bin/sh -c " + quote(folders) + b" " + quote(wanted) + b" {} + "
            b"-o -type l " + stat + quote(wanted + b"%N") + b" {} + "
            b"-o " + stat + quote(wanted) + b" {} +"
        )  # fmt: skip

    def entries(self, piece: bytes) -> Iterator[ScanEntry]:
        if self._held is None:
            self._start += piece
            _, word, after = self._start.partition(self.last_word)
            if not word:
                return
            self._start, self._held, piece = b"", b"", after
        *records, self._held = (self._held + piece).split(self.last_word)
        for record in records:
            entry = self._entry(record)
            if entry is not None:
                yield entry

    def _entry(self, record: bytes) -> ScanEntry | None:
        told, middle, link = record.partition(self._middle)
        if not middle:
            raise CommandFailed(self._step, 0, f"stat printed {record[:200]!r}, which is not what was asked for")
        if told.startswith(b"-"):
            self._barred.add(told[1:])
            return None
        figures, mtime, ctime, path = told.split(b"|", 3)
        seen = parse_stat(b"|".join((figures, mtime, ctime)), self._step)
        kind = seen.kind
        if path in self._barred:
            self._barred.discard(path)
            kind = "unreadable"
        name = path[len(self._root.raw.rstrip(b"/")) + 1 :]
        return _entry_of_stat(name, seen, kind, self._target(path, link) if seen.kind == "link" else b"")

    def _target(self, path: bytes, link: bytes) -> bytes:
        """BusyBox prints 'PATH' -> 'TARGET', GNU (told to be literal) PATH -> TARGET; nothing is escaped."""
        shown = link.removesuffix(b"\n")
        quoted = b"'" + path + b"' -> '"
        if shown.startswith(quoted) and shown.endswith(b"'"):
            return shown[len(quoted) : -1]
        if shown.startswith(path + b" -> "):
            return shown[len(path) + 4 :]
        raise CommandFailed(self._step, 0, f"stat shows the link {RemoteName(path)} in an unknown way")

    def rest(self) -> bytes:
        return self._start if self._held is None else self._held


def _entry_of_stat(name: bytes, seen: RemoteStat, kind: EntryKind, target: bytes) -> ScanEntry:
    return ScanEntry(
        name,
        kind,
        seen.size_bytes,
        seen.stored_bytes,
        seen.mtime_ns,
        seen.ctime_ns,
        seen.mode,
        seen.device,
        seen.inode,
        seen.link_count,
        target,
    )


# -- after the listing -------------------------------------------------------------------------------------------------


def _tail(rest: bytes, step: str) -> tuple[int, bytes]:
    """find's exit status and its complaints. Raises CommandFailed when the listing did not come to its end."""
    head, _, complaints = rest.partition(b"\n")
    if not head.startswith(b"!") or not head[1:].isdigit():
        raise CommandFailed(step, 0, f"the listing ends with {rest[-200:]!r} and not as it should")
    status = int(head[1:])
    if status == _NOT_FOUND:
        raise ToolMissing("find", "list files")
    return status, complaints.removesuffix(b"\n")


def _complained_of(complaints: bytes, root: RemoteName, status: int, step: str, *, is_escaped: bool) -> Iterator[bytes]:
    """Relative names of what find could not tell about, but for what vanished in between.

    Raises PathMissing when the root itself vanished, CommandFailed for a complaint that belongs to no entry.
    """
    at = 0
    while match := _COMPLAINT.match(complaints, at):
        name = _relative(match["path"], root, is_escaped=is_escaped)
        if name is None:
            break
        at = match.end()
        if match["reason"] not in _VANISHED:
            yield name
        elif not name:
            raise PathMissing(root)
    if len(complaints) >= COMPLAINTS_KEPT_BYTES - 1:
        raise CommandFailed(step, status, "there are more complaints than could be kept: " + _text(complaints[:500]))
    if at < len(complaints) or (status != 0 and not complaints):
        raise CommandFailed(step, status, _text(complaints[at : at + 2000]))


def _relative(shown: bytes, root: RemoteName, *, is_escaped: bool) -> bytes | None:
    """The name below the root that a complaint shows; GNU find escapes it, BusyBox does not."""
    path = shown[1:-1] if shown.startswith(b"'") and shown.endswith(b"'") else shown
    if is_escaped:
        path = _ESCAPE.sub(_unescaped, path)
    if b"\0" in path or not RemoteName(path).is_below(root):
        return None
    return path[len(root.raw.rstrip(b"/")) + 1 :]


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) % 256]) if len(code) == 3 else _ESCAPED.get(code, code)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
