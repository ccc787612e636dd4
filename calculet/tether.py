"""What ties processes to their supervisor. Run as a script, without our packages, so that it starts in milliseconds.

    tether.py hold PARENT COMMAND …   have the kernel kill this process when PARENT ends, then become COMMAND
    tether.py watch                   read process groups from standard input (+7 adds one, -7 forgets it), and kill
                                      those that are left when the input ends, which it does when the supervisor does

Both are needed: the kernel's signal reaches a program but not the children that it made, and the watcher reaches whole
process groups but could itself be killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def hold(parent: int, command: list[str]) -> None:
    """Become the command, tied to the parent's life; Linux keeps the tie over exec."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the tie was made
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606 (the command is ours, as a list)
    except OSError as error:
        sys.exit(f"“{command[0]}” cannot be started: {error.strerror}.")


def watch() -> None:
    """Kill every group that was told and not taken back, once the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it must outlive the supervisor by a moment
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line)
        if group > 0:
            groups.add(group)
        else:
            groups.discard(-group)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(int(sys.argv[2]), sys.argv[3:])
    else:
        watch()
