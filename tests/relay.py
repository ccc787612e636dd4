"""A wire with a known delay between a client and a server on this machine, and a count of what passed over it."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator


class SlowWire:
    """Carries connections to `port`, each byte `one_way_seconds` late in either direction, in order and without loss.

    Connecting to it takes no time: the round trip of a TCP connection is not among those that it shows.
    """

    def __init__(self, port: int, one_way_seconds: float) -> None:
        self._target, self._delay = port, one_way_seconds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.connections = 0
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                far = socket.create_connection(("127.0.0.1", self._target))
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    late: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    threading.Thread(target=self._read, args=(source, late), daemon=True).start()
                    threading.Thread(target=self._write, args=(sink, late), daemon=True).start()

    def _read(self, source: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        data = b" "
        while data:
            try:
                data = source.recv(2**18)
            except OSError:
                data = b""
            late.put((time.monotonic() + self._delay, data))

    def _write(self, sink: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = late.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)

    def close(self) -> None:
        """End it with all that it carries."""
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextlib.contextmanager
def slow_wire(port: int, one_way_seconds: float) -> Iterator[SlowWire]:
    """A wire for the length of a block."""
    wire = SlowWire(port, one_way_seconds)
    try:
        yield wire
    finally:
        wire.close()
