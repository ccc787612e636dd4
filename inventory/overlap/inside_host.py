"""The program that looks inside archives on a host: `inside` with zstd as a program, and findings as files.

Sent as text, together with `inside`; as that, it needs nothing but the standard library of Python 3.6.
"""

import os
import subprocess
import sys
import threading

from inventory.overlap.inside import PIECE_BYTES, WINDOW_BYTES_AT_MOST, Readable, Stop, encode, look_file

if sys.version_info >= (3, 8):  # a name for readers of types; a host's Python may be older
    from typing import IO


class _Piped:
    """What the program zstd makes of a stream, which a thread feeds to it."""

    def __init__(self, stream: Readable) -> None:
        command = ["zstd", "-dcq", "--memory={}".format(WINDOW_BYTES_AT_MOST)]
        pipe = subprocess.PIPE
        try:
            self._program = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError:
            raise Stop("no-zstd") from None
        self._stream = stream
        self._fault = None  # type: Exception | None
        self._pump = threading.Thread(target=self._feed, daemon=True)
        self._pump.start()

    def _feed(self) -> None:
        pipe = self._program.stdin
        try:
            while pipe is not None:
                data = self._stream.read(PIECE_BYTES)
                if not data:
                    break
                try:
                    pipe.write(data)
                except OSError:
                    break  # it has ended before us
        except (Stop, OSError) as fault:
            self._fault = fault  # the reader's to raise
        finally:
            _close(pipe)

    def read(self, count: int) -> bytes:
        """Some bytes of the content. Raises Stop."""
        pipe = self._program.stdout
        data = pipe.read(count) if pipe is not None else b""
        if not data:
            self._pump.join()
            if self._fault is not None:
                raise self._fault
            said = self._program.stderr.read(4096) if self._program.stderr is not None else b""
            if self._program.wait():
                raise Stop("window" if b"memory" in said or b"Window" in said else "damaged")
        return data

    def close(self) -> None:
        """End the program, whatever is left of its input; what reads the stream is nobody any more."""
        self._program.kill()
        self._program.wait()
        self._pump.join()
        _close(self._program.stdout)
        _close(self._program.stderr)


def _close(pipe: "IO[bytes] | None") -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:
        pass


def main(arguments: "list[str]") -> None:
    """Look inside each path of a list (NUL after each, relative to the working folder); one file of findings each.

    `arguments`: the list, the folder for findings, the file that tells how many are done.
    """
    listed, folder, progress = arguments
    with open(listed, "rb") as file:
        names = [one for one in file.read().split(b"\0") if one]
    for number, name in enumerate(names):
        _tell(progress, number)
        path = os.path.join(folder, "out.{}".format(number))
        with open(path + ".new", "wb") as out:
            for record in look_file(name, _Piped):
                out.write(encode(record))
        os.rename(path + ".new", path)
    _tell(progress, len(names))


def _tell(progress: str, done: int) -> None:
    with open(progress + ".new", "w") as file:
        file.write(str(done))
    os.rename(progress + ".new", progress)


if __name__ == "__main__":
    main(sys.argv[1:])
