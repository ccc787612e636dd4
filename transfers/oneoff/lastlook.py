"""The last look at the source: whether it changed after its digest was taken. It runs beside the end of the fetch."""

from __future__ import annotations

import threading

from inventory.remote.base import PathMissing, PermanentError, Remote, TransientError
from inventory.remote.names import RemoteName
from transfers.engine.identity import SourceIdentity, source_identity
from transfers.engine.types import Sample
from transfers.fileledger import Chooser

NEAR_END_SECONDS = 1.6  # samples come once a second, and the look takes two round trips


class LastLook:
    """Stands between the ledger and the chooser of lanes, where it hears of the end coming near."""

    def __init__(self, chooser: Chooser, remote: Remote, path: RemoteName, identity: SourceIdentity) -> None:
        self._chooser, self._remote, self._path, self._identity = chooser, remote, path, identity
        self._difference = ""
        self._thread: threading.Thread | None = None

    @property
    def lanes(self) -> int:
        """See `Chooser`."""
        return self._chooser.lanes

    def observe(self, sample: Sample, left_bytes: int) -> None:
        """See `Chooser`."""
        self._chooser.observe(sample, left_bytes)
        if sample.new_bytes and left_bytes * sample.seconds / sample.new_bytes < NEAR_END_SECONDS:
            self.begin()

    def begin(self) -> None:
        """Look now, unless that was begun before."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="last-look", daemon=True)
            self._thread.start()

    def difference(self) -> str:
        """How the source differs from what its digest was taken of; empty when it does not, or cannot be looked at."""
        self.begin()
        if self._thread is not None:
            self._thread.join()
        return self._difference

    def _look(self) -> None:
        try:
            self._difference = self._identity.difference(source_identity(self._remote, self._path))
        except PathMissing:
            self._difference = "is not there any more"
        except (TransientError, PermanentError):
            return  # the file is verified; a last look that fails changes nothing
