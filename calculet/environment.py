"""Reads settings from the environment, and refuses what it does not understand. Plain Python.

An empty variable counts as one that is not set. Each reader raises EnvironmentWrong with a sentence.
"""

from __future__ import annotations

import os
import zoneinfo
from collections.abc import Collection, Sequence
from pathlib import Path

ENVIRONMENT_NAMES = frozenset(
    {
        "CALCULET_ALLOWED_HOSTS",
        "CALCULET_ANCHOR_DIR",
        "CALCULET_ANCHOR_KEY_FILE",
        "CALCULET_ANCHOR_MAIL_FILE",
        "CALCULET_ANCHOR_MAIL_FROM",
        "CALCULET_ANCHOR_MAIL_TO",
        "CALCULET_ANCHOR_WEBHOOK_FILE",
        "CALCULET_APPROVALS",
        "CALCULET_DATA_DIR",
        "CALCULET_DEBUG",
        "CALCULET_HAD_DIRS",
        "CALCULET_HTTPS",
        "CALCULET_ADOPT_DIRS",
        "CALCULET_KEY_DIR",
        "CALCULET_LANDING_DIR",
        "CALCULET_LANES_AT_MOST",
        "CALCULET_LOG_LEVEL",
        "CALCULET_NO_DATA_TIMEOUT_SECONDS",
        "CALCULET_SESSION_HOURS",
        "CALCULET_TIME_ZONE",
        "CALCULET_TRUSTED_ORIGINS",
    }
)
LANES_AT_MOST = 48
NO_DATA_TIMEOUT_SECONDS = 600  # stands here since the one-off command goes without Django's settings
_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})


class EnvironmentWrong(Exception):
    """A variable holds what its setting cannot take."""

    def __init__(self, name: str, value: str, wanted: str) -> None:
        super().__init__(name, value, wanted)
        self.name, self.value, self.wanted = name, value, wanted

    def __str__(self) -> str:
        return (
            f"{self.name} is “{self.value}”, but it takes {self.wanted}. Nothing was started. Correct the variable or "
            "remove it; docs/settings.md says what it means."
        )


class EnvironmentUnknown(EnvironmentWrong):
    """Variables with our beginning that no setting has: a misspelt one would silently leave a default in force."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names), "", "")

    def __str__(self) -> str:
        return (
            f"{self.name}: no such setting. Nothing was started. docs/settings.md lists the settings; correct the name "
            "or remove the variable."
        )


def refuse_unknown_names() -> None:
    """Raises EnvironmentUnknown."""
    unknown = sorted(name for name in os.environ if name.startswith("CALCULET_") and name not in ENVIRONMENT_NAMES)
    if unknown:
        raise EnvironmentUnknown(unknown)


def read_text(name: str, default: str) -> str:
    """A text as it stands."""
    return os.environ.get(name) or default


def read_names(name: str, default: Sequence[str]) -> list[str]:
    """Names with commas between them."""
    return [part.strip() for part in read_text(name, ",".join(default)).split(",") if part.strip()]


def read_folders(name: str) -> list[Path]:
    """Absolute folders with commas between them; none when the variable is not set."""
    folders = [Path(part) for part in read_names(name, [])]
    if not all(folder.is_absolute() for folder in folders):
        raise EnvironmentWrong(name, os.environ[name], "absolute folders with commas between them")
    return folders


def read_switch(name: str, *, default: bool) -> bool:
    """Yes or no; a word that is neither must not pass for one of them."""
    word = read_text(name, "yes" if default else "no").strip().lower()
    if word not in _YES | _NO:
        raise EnvironmentWrong(name, os.environ[name], "yes or no")
    return word in _YES


def read_count(name: str, default: int) -> int:
    """A whole number from 1 on."""
    text = read_text(name, str(default)).strip()
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise EnvironmentWrong(name, text, "a whole number from 1 on")
    return int(text)


def read_choice(name: str, default: str, choices: Collection[str]) -> str:
    """One of a few words, in capitals or not."""
    word = read_text(name, default).strip().upper()
    if word not in choices:
        raise EnvironmentWrong(name, os.environ[name], " or ".join(choices))
    return word


def read_time_zone(name: str, default: str) -> str:
    """The name of a time zone that this machine knows."""
    zone = read_text(name, default).strip()
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise EnvironmentWrong(name, zone, "the name of a time zone, as in Asia/Shanghai") from error
    return zone
