"""A bandwidth limit by the hours of the week: what may be brought at a moment, and when that changes next.

Written as people say it, one window a line:

    mon-fri 08:00-18:00 2 Mbit/s
    daily 22:00-06:00 none

A window that ends before it begins runs into the next day. Where windows overlap, the lowest rate counts, and so it
does beside the limit for all hours; `none` means that nothing is transferred. Local times are those of one time zone:
where clocks are put back an hour counts twice, where they are put forward it does not come.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
WINDOWS_AT_MOST = 50
LEAST_BYTES_PER_SECOND = 8_000  # below that a range takes so long that a lane looks dead
MOST_BYTES_PER_SECOND = 2**40
_UNITS = {
    "kbit/s": 125,
    "mbit/s": 125_000,
    "gbit/s": 125_000_000,
    "kb/s": 1_000,
    "mb/s": 1_000_000,
    "gb/s": 1_000_000_000,
}
_LINE = re.compile(r"(\S+)\s+(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s+(.+)", re.ASCII)
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z/]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Window:
    """Hours of some days (0 is Monday) with a limit of their own: minutes of the day, bytes a second, 0 for nothing."""

    days: tuple[int, ...]
    begins: int
    ends: int
    bytes_per_second: int

    def holds(self, day: int, minute: int) -> bool:
        """True at this minute of this day of the week."""
        if self.begins < self.ends:
            return day in self.days and self.begins <= minute < self.ends
        return (day in self.days and minute >= self.begins) or ((day - 1) % 7 in self.days and minute < self.ends)

    def as_json(self) -> dict[str, object]:
        """For a row."""
        return {
            "days": list(self.days),
            "begins": self.begins,
            "ends": self.ends,
            "bytes_per_second": self.bytes_per_second,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, object]) -> Window:
        """From a row."""
        days, numbers = row["days"], [row[name] for name in ("begins", "ends", "bytes_per_second")]
        assert isinstance(days, list)
        begins, ends, rate = (int(str(number)) for number in numbers)
        return cls(tuple(int(day) for day in days), begins, ends, rate)

    def __str__(self) -> str:
        return f"{days_text(self.days)} {_clock(self.begins)}-{_clock(self.ends)} {rate_text(self.bytes_per_second)}"


@dataclass(frozen=True, slots=True)
class WeeklyLimit:
    """A limit for all hours (None: none), and windows with limits of their own, in one time zone."""

    bytes_per_second: int | None
    windows: tuple[Window, ...]
    zone: ZoneInfo

    def allowed(self, at: datetime) -> int | None:
        """Bytes a second that may come at an aware time: None for no limit, 0 for nothing at all."""
        local = at.astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        rates = [window.bytes_per_second for window in self.windows if window.holds(local.weekday(), minute)]
        if self.bytes_per_second is not None:
            rates.append(self.bytes_per_second)
        return min(rates, default=None)

    def next_change(self, at: datetime) -> datetime | None:
        """The first moment after `at`, within eight days, at which another rate is allowed; None when there is none."""
        now = self.allowed(at)
        minutes = sorted({minute for window in self.windows for minute in (window.begins, window.ends % DAY_MINUTES)})
        midnight = at.astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        for day in range(9):
            for minute in minutes:
                local = (midnight + timedelta(days=day)).replace(hour=minute // 60, minute=minute % 60)
                for fold in (0, 1):
                    moment = local.replace(fold=fold).astimezone(at.tzinfo)
                    if moment > at and self.allowed(moment) != now:
                        return moment
        return None


class WindowWrong(ValueError):
    """A line that says no window. Carries its number and what is wrong with it."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line, self.why = line, why

    def __str__(self) -> str:
        return f"Line {self.line}: {self.why}"


def read_windows(text: str) -> tuple[Window, ...]:
    """Windows from lines; empty lines are passed over. Raises WindowWrong."""
    windows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            windows.append(_read_line(number, line.strip()))
        if len(windows) > WINDOWS_AT_MOST:
            raise WindowWrong(number, f"there are more than {WINDOWS_AT_MOST} windows.")
    return tuple(windows)


def write_windows(windows: Sequence[Window]) -> str:
    """The lines that `read_windows` reads."""
    return "\n".join(map(str, windows))


def read_rate(text: str) -> int:
    """Bytes a second from “2 Mbit/s”, “500 kB/s” or “none”. Raises ValueError with a sentence."""
    lower = text.strip().lower()
    if lower == "none":
        return 0
    found = _RATE.fullmatch(lower)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"“{text.strip()}” is no rate; write for instance “2 Mbit/s”, “500 kB/s” or “none”.")
    rate = int(Decimal(found[1]) * _UNITS[found[2]])
    if not LEAST_BYTES_PER_SECOND <= rate <= MOST_BYTES_PER_SECOND:
        raise ValueError(
            f"“{text.strip()}” is out of bounds; a limit is 64 kbit/s or more. For no transfer at all write “none”."
        )
    return rate


def rate_text(bytes_per_second: int) -> str:
    """What `read_rate` reads: exact, in the largest unit that gives a short number."""
    if not bytes_per_second:
        return "none"
    for unit, size in (("Mbit/s", 125_000), ("kbit/s", 125), ("kB/s", 1_000)):
        value = Decimal(bytes_per_second) / size
        if value == value.quantize(Decimal("0.001")) and value >= 1:
            return f"{value.normalize():f} {unit}"
    return f"{(Decimal(bytes_per_second) / 1000).normalize():f} kB/s"


def days_text(days: Sequence[int]) -> str:
    """Days as people write them: runs of three or more with a dash."""
    if len(days) == 7:
        return "daily"
    runs: list[list[int]] = []
    for day in sorted(days):
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    parts = [f"{DAYS[run[0]]}-{DAYS[run[-1]]}" if len(run) > 2 else ",".join(DAYS[day] for day in run) for run in runs]
    return ",".join(parts)


def _read_line(number: int, line: str) -> Window:
    found = _LINE.fullmatch(line)
    if found is None:
        raise WindowWrong(number, f"“{line}” is no window; write for instance “mon-fri 08:00-18:00 2 Mbit/s”.")
    days = _read_days(number, found[1].lower())
    begins, ends = _minutes(number, found[2], found[3]), _minutes(number, found[4], found[5])
    if begins in (ends, DAY_MINUTES):
        raise WindowWrong(number, "the window has no length; a whole day is 00:00-24:00.")
    try:
        rate = read_rate(found[6])
    except ValueError as error:
        raise WindowWrong(number, str(error)) from error
    return Window(days, begins, ends, rate)


def _read_days(number: int, text: str) -> tuple[int, ...]:
    if text == "daily":
        return tuple(range(7))
    days: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise WindowWrong(number, f"“{part}” is no day; days are {', '.join(DAYS)} or “daily”.")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days.update((begin + step) % 7 for step in range((end - begin) % 7 + 1))
    return tuple(sorted(days))


def _minutes(number: int, hours: str, minutes: str) -> int:
    total = int(hours) * 60 + int(minutes)
    if int(minutes) > 59 or total > DAY_MINUTES:
        raise WindowWrong(number, f"“{hours}:{minutes}” is no time of day.")
    return total


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
