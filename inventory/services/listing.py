"""A host's listing, read in a thread of its own, so that the lease is kept while the host is silent."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

from inventory.remote.base import Remote, ShellUnusable
from inventory.remote.names import RemoteName
from inventory.remote.probe import ProbeReport, probe
from inventory.scan import ScanEntry, scan_resource
from inventory.sftp_scan import scan_over_sftp
from inventory.snapshot import OFFERED_FOLDER

PIECE_ENTRIES = 1000
_PIECE_SECONDS = 0.5
_WAIT_SECONDS = 1.0
_PIECES_AHEAD = 8
_END_SECONDS = 10.0

_Item = list[ScanEntry] | ProbeReport | BaseException | None


class Listing:
    """Pieces of a listing as they come. `close` it, which ends the remote's connections as well.

    `report` is what an earlier probe found; without one, or when it found a shell that is gone by now, the host is
    probed first, and `report` is set by that. It says how the host is listed: over SFTP where there is no shell.
    """

    def __init__(
        self,
        remote: Remote,
        *,
        root: RemoteName,
        staging_path: RemoteName,
        report: ProbeReport | None,
        timeout_seconds: float,
    ) -> None:
        self.report = report
        self._remote, self._root, self._staging_path = remote, root, staging_path
        self._timeout_seconds = timeout_seconds
        self._items: queue.Queue[_Item] = queue.Queue(maxsize=_PIECES_AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name="listing", daemon=True)
        self._thread.start()

    def pieces(self) -> Iterator[list[ScanEntry]]:
        """Entries in the host's own order; an empty piece at least once a second while there are none.

        Raises what the reading raised: PathMissing, PathRefused, TransientError, the key and login errors.
        """
        while True:
            try:
                item = self._items.get(timeout=_WAIT_SECONDS)
            except queue.Empty:
                yield []
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, ProbeReport):
                self.report = item
                yield []
            else:
                yield item

    def close(self) -> None:
        """End the reading and its connections. Safe to call twice."""
        self._stopped.set()
        self._remote.close()
        self._thread.join(_END_SECONDS)

    # -- in the thread ---------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            self._put_all()
        except BaseException as error:  # carried to the reader of `pieces`, which raises it
            self._put(error)
        else:
            self._put(None)

    def _put_all(self) -> None:
        try:
            self._put_entries(self.report or self._probe())
        except ShellUnusable:
            if self.report is None or not self.report.has_shell:
                raise
            self._put_entries(self._probe())  # nothing was listed by then

    def _probe(self) -> ProbeReport:
        report = probe(self._remote, self._staging_path)
        self._put(report)
        return report

    def _entries(self, report: ProbeReport) -> Iterator[ScanEntry]:
        is_offered = self._root.is_below(self._staging_path.join(OFFERED_FOLDER))
        left_out, silence = [] if is_offered else [self._staging_path], self._timeout_seconds
        if not report.has_shell:
            return scan_over_sftp(self._remote, self._root, leave_out=left_out, timeout_seconds=silence)
        return scan_resource(
            self._remote,
            self._root,
            leave_out=left_out,
            has_find_printf=report.has_find_printf,
            timeout_seconds=silence,
        )

    def _put_entries(self, report: ProbeReport) -> None:
        piece: list[ScanEntry] = []
        begun = time.monotonic()
        for entry in self._entries(report):
            piece.append(entry)
            if len(piece) >= PIECE_ENTRIES or time.monotonic() - begun > _PIECE_SECONDS:
                if not self._put(piece):
                    return
                piece, begun = [], time.monotonic()
        self._put(piece)

    def _put(self, item: _Item) -> bool:
        """Hand an item over; False when nobody wants it any more."""
        while not self._stopped.is_set():
            try:
                self._items.put(item, timeout=_WAIT_SECONDS)
            except queue.Full:
                continue
            return True
        return False
