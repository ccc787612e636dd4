"""Whether compressing a pack pays: a sample of its content, compressed on the host, against what the link brings.

The sample is cut at places spread evenly over the bytes of the list, inside large files too, so that it holds content
as it weighs. Content that is compressed already (archives, media, model parameters) shows by what zstd makes of it,
whatever its name; SSH's own compression stays off always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from inventory.remote.base import Remote
from inventory.remote.shell import quote
from transfers.engine.packing import ZSTD_LEVEL, StagingPlaces
from transfers.engine.types import MEBIBYTE, Member

SAMPLE_PLACES = 64
SAMPLE_BYTES_EACH = MEBIBYTE
SAMPLE_PAYS_BELOW = 0.9  # zstd must save a tenth, or its time is better spent on fetching
_SAMPLE_SECONDS = 120.0
_NANOSECOND_DIGITS = 18  # fewer digits: this host's date knows whole seconds only


@dataclass(frozen=True, slots=True)
class SampleResult:
    """What a sample of the content came to when compressed: bytes in, bytes out, and how long one core took."""

    raw_bytes: int
    packed_bytes: int
    zstd_seconds: float = 0.0  # 0: not measured

    @property
    def pays(self) -> bool:
        """True when zstd saves enough to be worth its time on a slow link."""
        return self.raw_bytes > 0 and self.packed_bytes < self.raw_bytes * SAMPLE_PAYS_BELOW

    @property
    def zstd_bytes_per_second(self) -> float | None:
        """What one core of the host compresses; None when that was not measured."""
        return self.raw_bytes / self.zstd_seconds if self.zstd_seconds > 0 else None

    def pays_on(self, link_bytes_per_second: float | None) -> bool:
        """True when packing with zstd and fetching less takes less time than fetching all; None: the link is unknown.

        One second of zstd must save more than a second of fetching, or a fast link is better left alone.
        """
        rate = self.zstd_bytes_per_second
        if not self.pays or rate is None or link_bytes_per_second is None:
            return self.pays
        saved_each_second = rate * (1 - self.packed_bytes / self.raw_bytes)
        return saved_each_second > link_bytes_per_second

    def sentence(self, link_bytes_per_second: float | None) -> str:
        """The figures and what follows from them."""
        if not self.raw_bytes:
            return "There was nothing to take a sample of; a plain .tar is made."
        share = 100 * self.packed_bytes / self.raw_bytes
        words = (
            f"A sample of {self.raw_bytes:,} bytes became {self.packed_bytes:,} ({share:.0f} %) with zstd -{ZSTD_LEVEL}"
        )
        if self.zstd_bytes_per_second is not None:
            words += f", at {self.zstd_bytes_per_second / 1e6:,.0f} MB/s on one core of the host"
        if link_bytes_per_second is not None:
            words += f"; the link brought {link_bytes_per_second / 1e6:,.2f} MB/s"
        if self.pays_on(link_bytes_per_second):
            return f"{words}: zstd is used."
        why = "it would take longer than fetching what it saves" if self.pays else "zstd does not pay"
        return f"{words}: {why}; a plain .tar is made."


def sample_of(members: Sequence[Member]) -> list[tuple[Member, int]]:
    """Places spread evenly over the bytes of the list: a file, and which mebibyte of it. Each place stands once."""
    files = [member for member in members if member.kind == "file" and member.size_bytes]
    ends = list(accumulate(member.size_bytes for member in files))
    chosen: dict[tuple[int, int], None] = {}
    at = 0
    for place in range(SAMPLE_PLACES if files else 0):
        wanted = ends[-1] * (2 * place + 1) // (2 * SAMPLE_PLACES)
        while ends[at] <= wanted:
            at += 1
        within = wanted - (ends[at] - files[at].size_bytes)
        chosen[at, within // SAMPLE_BYTES_EACH] = None
    return [(files[number], block) for number, block in chosen]


def sample_list(members: Sequence[Member]) -> Iterator[bytes]:
    """The sample's list for upload: number of the mebibyte and name, each ended by NUL."""
    for member, block in sample_of(members):
        yield b"%d\0%b\0" % (block, member.name)


def take_sample(remote: Remote, places: StagingPlaces) -> SampleResult:
    """Compress the sample's stretches on the host and count. The list must have been uploaded.

    Raises CommandFailed, TransientError.
    """
    script = (
        b"cd / || exit\n"
        b'cuts() { xargs -0 -r -n 2 sh -c \'dd if="$2" bs=%d skip="$1" count=1\' sh <%b 2>/dev/null; }\n'
        b"raw=$(cuts | wc -c) && A=$(date +%%s%%N) && packed=$(cuts | zstd -%d -c -q 2>/dev/null | wc -c)\n"
        b'echo "$raw $packed $A $(date +%%s%%N)"\n'
    ) % (SAMPLE_BYTES_EACH, quote(places.list_of("sample").raw), ZSTD_LEVEL)
    output = remote.check(script, step="take a sample for zstd", timeout_seconds=_SAMPLE_SECONDS)
    raw, packed, *times = output.split()
    is_timed = len(times) == 2 and all(time.isdigit() and len(time) >= _NANOSECOND_DIGITS for time in times)
    seconds = (int(times[1]) - int(times[0])) / 1e9 if is_timed else 0.0
    return SampleResult(int(raw), int(packed), max(0.0, seconds))
