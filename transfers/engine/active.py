"""A build that a link has open: its geometry, its incoming data and its cell map."""

from __future__ import annotations

from collections.abc import Mapping

from transfers.engine.cellmap import CellMap
from transfers.engine.geometry import Geometry, SegmentMap, ledger_path
from transfers.engine.landing import (
    IncomingWriter,
    LandingError,
    LandingRefused,
    check_names,
    landing_error,
    make_folder,
)
from transfers.engine.source import SourceChanged
from transfers.engine.types import BuildSpec


class ActiveBuild:
    """What lanes, prover and runner need to know of one build. The runner alone changes its sets."""

    def __init__(self, spec: BuildSpec) -> None:
        """Open ledger and incoming data. Raises LandingError, LedgerBusy."""
        self.spec = spec
        self.geometry = Geometry(spec.chunks)
        self.segments = SegmentMap(spec.segments)
        check_names(spec)
        make_folder(spec.folder)
        try:
            self.cells = CellMap(ledger_path(spec), spec.key, self.geometry, confirm=False)
        except OSError as error:
            raise landing_error(error, spec.folder, self.geometry.cell_count) from error
        try:
            self.writer = IncomingWriter(spec)
        except BaseException:
            self.cells.close()
            raise
        if not self.writer.had_data and self.cells.here_bytes:
            # The incoming data were taken away: what the map says is of bytes that are gone.
            self.cells.clear(range(self.geometry.cell_count))
        self.needs_adoption = self.writer.had_data and self.cells.state != "kept"
        if not self.needs_adoption or not self.geometry.chunk_count:
            self.cells.confirm()
        self.digests: dict[int, bytes] = {c.index: c.sha256 for c in spec.chunks if c.sha256 is not None}
        self.proven: set[int] = set()
        self.waiting: set[int] = set()  # full, not handed to the prover yet (its digest may be unknown)
        self.adopting: set[int] = set()  # held back until what lies on the disk was compared
        self.proving: set[int] = set()
        self.rounds: dict[int, int] = {}

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def is_received(self) -> bool:
        """True when every chunk is proven."""
        return len(self.proven) == self.geometry.chunk_count

    def learn_digests(self, digests: Mapping[int, bytes]) -> None:
        """Take over digests that became known at the source."""
        self.digests.update(digests)

    def note_adopted(self, chunk: int) -> None:
        """A chunk of unknown worth was compared. With the last one the map counts."""
        if chunk in self.adopting:
            self.adopting.discard(chunk)
            if not self.adopting:
                self.cells.confirm()

    def still_wrong(self, chunk: int, rounds: int) -> SourceChanged:
        """The sentence for a chunk that no repair makes right."""
        offset, length = self.geometry.chunk_offsets[chunk], self.geometry.chunk_lengths[chunk]
        return SourceChanged(
            self.segments.pieces(offset, 1)[0].source,
            f"gives other bytes each time for chunk {chunk} (bytes {offset:,} to {offset + length:,} of the build); "
            f"{rounds} repairs did not help",
        )

    def landing_error(self, error: Exception, needed_bytes: int) -> LandingError:
        """The sentence for what went wrong on the landing's disk."""
        if isinstance(error, OSError):
            return landing_error(error, self.spec.folder, needed_bytes)
        return error if isinstance(error, LandingError) else LandingRefused(self.spec.folder, str(error))

    def close(self) -> None:
        """Close both files. Safe to call twice."""
        self.writer.close()
        self.cells.close()
