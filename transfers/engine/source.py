"""The POSIX shell text that reads a source on the host, and the reading of what it prints.

A lane's shell is told once how to read (`prelude`): GNU and BusyBox `dd` cut a stretch by bytes when they can,
otherwise `dd` by 16 KiB blocks where the stretch is aligned and `tail | head` where it is not. Each piece then is one
short line. After each piece the shell prints a trailer: the lane's random nonce, the exit status and a line feed. The
stream is searched for the nonce, so a source that shrank, vanished or could not be read is noticed at the byte where
it ended, and what follows is never taken for data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from inventory.remote.base import PermanentError
from inventory.remote.names import RemoteName
from inventory.remote.shell import quote
from transfers.engine.geometry import Piece

NONCE_BYTES = 32
TRAILER_BYTES = NONCE_BYTES + 5  # nonce, space, three digits, line feed


@dataclass(eq=False)
class SourceChanged(PermanentError):
    """A source is no longer what the build was made from."""

    path: RemoteName
    what: str

    def __str__(self) -> str:
        return (
            f"The source changed: “{self.path}” {self.what}. What had arrived is kept and not called verified. "
            "Let the file come to rest, then fetch it anew."
        )


class StreamConfused(Exception):
    """The shell printed something that no request of ours explains; the connection must be dropped."""


@dataclass(eq=False)
class PieceFault(Exception):
    """A piece ended early, or its program failed. `got` bytes of it had come."""

    piece: Piece
    got: int
    status: int

    def sentence(self) -> str:
        """What that means for the source."""
        at = self.piece.source_offset + self.got
        if self.got == self.piece.length:
            return f"could not be read properly near byte {at:,} (status {self.status})"
        return f"gave only {self.got:,} of {self.piece.length:,} bytes and ended at byte {at:,} (status {self.status})"


def prelude(nonce: bytes) -> bytes:
    """What a lane's shell is told first. It ends by printing the nonce and ` go`, a line that opens the stream."""
    return (
        b"export LC_ALL=C\n"
        b"e() { printf '" + nonce + b" %03d\\n' $?; }\n"
        b'if [ "$(printf abcde | dd bs=4 iflag=skip_bytes,count_bytes,fullblock skip=1 count=3 2>/dev/null)" = bcd ]\n'
        b'then r() { dd if="$1" bs=65536 iflag=skip_bytes,count_bytes,fullblock skip=$2 count=$3'
        b" 2>/dev/null </dev/null; e; }\n"
        b"else r() { if [ $(($2 % 16384)) = 0 ] && [ $(($3 % 16384)) = 0 ]\n"
        b'then dd if="$1" bs=16384 skip=$(($2 / 16384)) count=$(($3 / 16384)) 2>/dev/null </dev/null; e\n'
        b'else { tail -c +$(($2 + 1)) <"$1" | head -c $3; } 2>/dev/null; e; fi; }\n'
        b"fi\n"
        b"printf '\\n" + nonce + b" go\\n'\n"
    )


def opening_line(nonce: bytes) -> bytes:
    """What the prelude prints when the shell is ready; greetings may come before it."""
    return b"\n" + nonce + b" go\n"


def request(pieces: Iterable[Piece]) -> bytes:
    """The lines that ask for the pieces, one after another."""
    return b"".join(b"r %s %d %d\n" % (quote(piece.source.raw), piece.source_offset, piece.length) for piece in pieces)


class PieceReader:
    """Cuts a lane's stream into the bytes of the pieces asked for. Holds back only what could be part of a nonce."""

    def __init__(self, nonce: bytes) -> None:
        self._nonce = nonce
        self._pending = bytearray()
        self._searched = 0
        self._given = 0  # bytes of the current piece that were handed on

    def feed(self, data: bytes) -> None:
        """Take what was received."""
        self._pending += data

    def read(self, piece: Piece) -> tuple[bytes, bool]:
        """Bytes of the current piece that are certain by now, and True when the piece ended with them.

        An empty result that is not the end means: feed more. Raises PieceFault (then this reader stands at the
        next piece), StreamConfused.
        """
        left = piece.length - self._given
        found = self._pending.find(self._nonce, max(0, self._searched - NONCE_BYTES + 1))
        self._searched = len(self._pending)
        if found < 0:
            certain = len(self._pending) - NONCE_BYTES + 1
            if certain > left:
                raise StreamConfused(f"more than {piece.length:,} bytes came for a piece of that length")
            return self._hand(max(0, certain)), False
        if found > left:
            raise StreamConfused(f"more than {piece.length:,} bytes came for a piece of that length")
        if found == left and found and self._pending_status(found) is None:
            data, self._searched = self._hand(found), 0  # the nonce stands at the beginning now: it is found again
            return data, False
        status = self._pending_status(found)
        if status is None:
            self._searched = found
            return b"", False
        if found < left or status:
            got = self._given + found
            self._forget(found + TRAILER_BYTES)
            raise PieceFault(piece, got, status)
        data = bytes(self._pending[:found])
        self._forget(found + TRAILER_BYTES)
        return data, True

    def _hand(self, count: int) -> bytes:
        data = bytes(self._pending[:count])
        del self._pending[:count]
        self._searched = len(self._pending)
        self._given += count
        return data

    def _forget(self, count: int) -> None:
        del self._pending[:count]
        self._searched = self._given = 0

    def _pending_status(self, found: int) -> int | None:
        trailer = bytes(self._pending[found + NONCE_BYTES : found + TRAILER_BYTES])
        if len(trailer) < TRAILER_BYTES - NONCE_BYTES:
            return None
        if trailer[:1] != b" " or trailer[-1:] != b"\n" or not trailer[1:4].isdigit():
            raise StreamConfused("a trailer is damaged")
        return int(trailer[1:4])


@dataclass(frozen=True, slots=True)
class DigestLine:
    """One digest taken at the source: of chunk `index`, or of the whole when `index` is None."""

    index: int | None
    sha256: bytes


def digests_script(pieces_by_chunk: Sequence[Sequence[Piece]], *, first: int = 0, whole: bool = True) -> bytes:
    """Text that prints `chunk INDEX HEX` for each chunk, beginning with number `first`, and `whole HEX` at the end.

    One pass over the source: with python3 in one process, otherwise with `dd` or `tail | head` into sha256sum, the
    bytes also flowing by way of a pipe in a private temporary folder into one sha256sum for the whole. `whole` must
    be False when `first` is not 0. A chunk that cannot be read in full prints `short INDEX` and ends the run.
    """
    if whole and first:
        raise ValueError("The digest of the whole needs all chunks.")
    shell = [b"export LC_ALL=C\n", _PYTHON_CHECK]
    shell += [b"if $P; then\n", b"$Y -c ", quote(_PYTHON), b" ", b"1" if whole else b"0", b" <<'CALCULET_END'\n"]
    shell += [_python_list(pieces_by_chunk, first), b"CALCULET_END\nelse\n", _SHELL_DIGESTS]
    shell += [b"begin\n" if whole else b"W=\n"]
    for index, pieces in enumerate(pieces_by_chunk, first):
        shell.append(b"chunk %d %d" % (index, sum(piece.length for piece in pieces)))
        shell.extend(b" %s %d %d" % (quote(p.source.raw), p.source_offset, p.length) for p in pieces)
        shell.append(b" || exit 0\n")
    shell += [b"finish\n" if whole else b"", b"fi\n"]
    return b"".join(shell)


def _python_list(pieces_by_chunk: Sequence[Sequence[Piece]], first: int) -> bytes:
    """Hexadecimal names, so that no name can end the list or break a line."""
    lines: list[bytes] = []
    for index, pieces in enumerate(pieces_by_chunk, first):
        fields = b" ".join(b"%s %d %d" % (p.source.raw.hex().encode(), p.source_offset, p.length) for p in pieces)
        lines.append(b"%d %s\n" % (index, fields))
    return b"".join(lines)


_PYTHON_CHECK = (
    b"P=false; for Y in python3 python; do\n"
    b"if [ \"$($Y -c 'import sys, hashlib; print(sys.version_info[0])' 2>/dev/null </dev/null)\" = 3 ]\n"
    b"then P=true; break; fi; done\n"
)

# Two threads: the whole's digest and the chunk's are taken of the same buffer at once.
_PYTHON = rb"""
import hashlib, os, sys
from concurrent.futures import ThreadPoolExecutor
want_whole = sys.argv[1] == "1"
whole, pool, waiting, files = hashlib.sha256(), ThreadPoolExecutor(1), None, {}
def opened(name):
    if name not in files:
        for other in list(files):
            os.close(files.pop(other))
        files[name] = os.open(name, os.O_RDONLY)
    return files[name]
for line in sys.stdin:
    fields = line.split()
    digest = hashlib.sha256()
    for at in range(1, len(fields), 3):
        name, offset, left = bytes.fromhex(fields[at]), int(fields[at + 1]), int(fields[at + 2])
        while left:
            try:
                data = os.pread(opened(name), min(left, 1048576), offset)
            except OSError:
                data = b""
            if not data:
                print("short", fields[0], flush=True)
                sys.exit(0)
            if waiting is not None:
                waiting.result()
            waiting = pool.submit(whole.update, data) if want_whole else None
            digest.update(data)
            offset, left = offset + len(data), left - len(data)
    print("chunk", fields[0], digest.hexdigest(), flush=True)
if waiting is not None:
    waiting.result()
if want_whole:
    print("whole", whole.hexdigest(), flush=True)
"""

# Each chunk's bytes go through `tee` into the pipe W, where one sha256sum takes the digest of the whole. The bytes are
# counted as well: sha256sum of a source that ended early would be a wrong digest told as a right one.
_SHELL_DIGESTS = rb"""
begin() {
T=$(mktemp -d) || exit 1
W=$T/whole
trap 'rm -rf "$T"' EXIT
trap 'exit 1' HUP INT PIPE TERM
mkfifo "$W" || exit 1
sha256sum <"$W" >"$T/digest" &
exec 9>"$W"
}
finish() {
exec 9>&-
wait
read -r H rest <"$T/digest"
echo "whole $H"
}
cut() {
while [ $# -gt 0 ]; do
if [ $(($2 % 65536)) = 0 ] && [ $(($3 % 65536)) = 0 ]
then dd if="$1" bs=65536 skip=$(($2 / 65536)) count=$(($3 / 65536)) 2>/dev/null </dev/null
else tail -c +$(($2 + 1)) 2>/dev/null <"$1" | head -c $3
fi
shift 3
done
}
chunk() {
I=$1 L=$2
shift 2
if [ -n "$W" ]
then S=$(cut "$@" | tee /dev/fd/9 | { { tee /dev/fd/8 | sha256sum >&7; } 8>&1 | wc -c; } 7>&1)
else S=$(cut "$@" | { { tee /dev/fd/8 | sha256sum >&7; } 8>&1 | wc -c; } 7>&1)
fi
H=; N=
for word in $S; do case ${#word} in 64) H=$word ;; *) [ "$word" = - ] || N=$word ;; esac; done
if [ "$N" != "$L" ]; then echo "short $I"; return 1; fi
echo "chunk $I $H"
}
"""


def parse_digests(lines: Iterable[bytes]) -> Iterator[DigestLine]:
    """Read the lines of `digests_script`. Raises ValueError for a line of another kind, `short` included."""
    for line in lines:
        fields = line.split()
        if len(fields) == 3 and fields[0] == b"chunk" and len(fields[2]) == 64:
            yield DigestLine(int(fields[1]), bytes.fromhex(fields[2].decode()))
        elif len(fields) == 2 and fields[0] == b"whole" and len(fields[1]) == 64:
            yield DigestLine(None, bytes.fromhex(fields[1].decode()))
        elif len(fields) == 2 and fields[0] == b"short":
            raise ValueError(f"chunk {int(fields[1])} could not be read in full at the source")
        else:
            raise ValueError(f"unexpected line {line!r}")


def block_digests_script(pieces_by_block: Sequence[Sequence[Piece]]) -> bytes:
    """Text that prints the digests of one chunk's blocks, in the lines of `digests_script`."""
    return digests_script(pieces_by_block, whole=False)
