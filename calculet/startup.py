"""What is done before anything runs: folders, the lock on them, migrations, and checks that may refuse the start."""

from __future__ import annotations

import fcntl
import io
import time
from pathlib import Path
from typing import IO

from django.conf import settings
from django.core.management import call_command

from calculet.installation import InstallationError, folder_make, run_folder_make

_LOCK_NAME = "up.lock"
_LOCK_WAIT_SECONDS = 5.0  # a supervisor that was killed leaves processes that end within moments


class RunningAlready(Exception):
    """Another `up` uses the data folder."""

    def __str__(self) -> str:
        return (
            f"The product runs already on the data folder “{settings.DATA_DIR}”. Nothing was started a second time. "
            "Stop the other one first, or set CALCULET_DATA_DIR to another folder."
        )


def folders_prepare() -> None:
    """Make the folders that are ours to make. Raises InstallationError.

    A landing outside the data folder is not made: where its disk is not mounted, packs would fill the wrong one.
    """
    folder_make(settings.DATA_DIR)
    folder_make(settings.KEY_DIR)
    run_folder_make(settings.RUN_DIR)
    if settings.LANDING_DIR.is_relative_to(settings.DATA_DIR):
        folder_make(settings.LANDING_DIR)


def lock_take() -> IO[str]:
    """Take the data folder for this process until the file is closed or the last process that inherits it ends.

    Raises RunningAlready when another keeps it for more than 5 s, InstallationError when the file cannot be made.
    """
    path: Path = settings.DATA_DIR / _LOCK_NAME
    try:
        file = path.open("a", encoding="ascii")
    except OSError as error:
        raise InstallationError(
            f"The file “{path}” cannot be written ({error.strerror}). Nothing was started. Give this account the right "
            "to write there, or set CALCULET_DATA_DIR to another folder."
        ) from error
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                file.close()
                raise RunningAlready from None
            time.sleep(0.1)
        else:
            return file


def database_prepare() -> None:
    """Bring the tables up to date, then run every check. Raises CommandError or SystemCheckError with sentences."""
    call_command("migrate", interactive=False, verbosity=0)
    call_command("check", databases=["default"], stdout=io.StringIO())  # warnings still go to standard error
