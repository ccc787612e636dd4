"""A `zstd` for the sample host where the machine has none: the few options that packing uses, by `zstandard`.

Run as a program, it compresses standard input to standard output, or decompresses with -d.
"""

from __future__ import annotations

import sys
from pathlib import Path

import zstandard

_SILENT_OPTIONS = {"-c", "-q", "--quiet", "--no-progress", "--stdout", "-f"}


def main(arguments: list[str]) -> int:
    level, threads, decompress = 3, 0, False
    for argument in arguments:
        if argument in ("-V", "--version"):
            sys.stdout.write(f"*** Zstandard stand-in by python zstandard {zstandard.__version__} ***\n")
            return 0
        if argument == "-d":
            decompress = True
        elif argument.startswith("-T") and argument[2:].isdigit():
            threads = int(argument[2:]) or -1
        elif argument[:1] == "-" and argument[1:].isdigit():
            level = int(argument[1:])
        elif argument not in _SILENT_OPTIONS and argument != "-":
            sys.stderr.write(f"zstd stand-in: the option {argument} is not known here\n")
            return 1
    if decompress:
        zstandard.ZstdDecompressor().copy_stream(sys.stdin.buffer, sys.stdout.buffer)
    else:
        zstandard.ZstdCompressor(level=level, threads=threads, write_checksum=True).copy_stream(
            sys.stdin.buffer, sys.stdout.buffer
        )
    return 0


def install_stand_in(folder: Path) -> None:
    """Put a program named `zstd` into a folder; it runs this module by the Python that runs now."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "zstd"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" "$@"\n')
    program.chmod(0o755)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
