"""Putting blocks that matched into a build's incoming data: copied, or the file itself taken where it lies alike.

Cells are marked as here, nothing is called proven: the engine compares each chunk as it lies in the incoming data, so
a file that was changed between the comparison and the copy costs a repair and can spoil nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from transfers.engine.adopt import AdoptionRefused, BlockSet, LocalBytes, Offer
from transfers.engine.cellmap import CellMap
from transfers.engine.geometry import Geometry, ledger_path
from transfers.engine.landing import IncomingWriter, check_names, landing_error, make_folder
from transfers.engine.proof_files import sync_folder
from transfers.engine.types import BuildSpec
from transfers.engine.verify import Stopped


@dataclass(frozen=True, slots=True)
class Put:
    """What became of the blocks that matched: bytes put in now, and bytes that had come already."""

    new_bytes: int
    had_bytes: int


def why_not_taken(offer: Offer, spec: BuildSpec) -> str:
    """Why the file cannot be taken (renamed) instead of copied; empty when it can. Raises OSError."""
    path = offer.whole_file()
    if path is None or not spec.single_file:
        return "its bytes do not lie as those of the build do"
    found, folder = path.stat(), next(one for one in (spec.folder, *spec.folder.parents) if one.exists())
    if found.st_dev != folder.stat().st_dev:
        return "it lies on another disk than the landing"
    if found.st_nlink > 1:
        return "it has another name too, whose content would change with it"
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        return "this program may not write to it, or not take it out of its folder"
    return ""


def put(
    spec: BuildSpec,
    offer: Offer,
    matched: BlockSet,
    *,
    take: bool = False,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> Put:
    """Put what matched into the incoming data; `progress` is told the bytes handled so far. Safe to run twice.

    Raises AdoptionRefused (taking is not possible), LedgerBusy (a link has the build open), LandingError, OSError (the
    offered files), Stopped.
    """
    geometry = Geometry(spec.chunks)
    check_names(spec)
    make_folder(spec.folder)
    try:
        cells = CellMap(ledger_path(spec), spec.key, geometry, confirm=False)
    except OSError as error:
        raise landing_error(error, spec.folder, geometry.cell_count) from error
    try:
        if take:
            _take(spec, offer, cells)
        return _put(spec, offer, matched, cells, is_taken=take, stop=stop, progress=progress)
    finally:
        cells.close()


def _put(
    spec: BuildSpec,
    offer: Offer,
    matched: BlockSet,
    cells: CellMap,
    *,
    is_taken: bool,
    stop: Callable[[], bool],
    progress: Callable[[int], None],
) -> Put:
    new = had = 0
    writer = IncomingWriter(spec)
    try:
        is_unknown = writer.had_data and cells.state != "kept" and not is_taken
        if not is_unknown:
            cells.confirm()
        if not writer.had_data and cells.here_bytes:
            cells.clear(range(cells.geometry.cell_count))  # what the map speaks of was taken away
        with LocalBytes(offer) as local:
            for chunk in range(cells.geometry.chunk_count):
                for block in matched.blocks(chunk):
                    if stop():
                        raise Stopped
                    offset, length = matched.span(chunk, block)
                    run = cells.geometry.block_cells(chunk, block)
                    if all(map(cells.has, run)):
                        had += length
                        continue
                    if not is_taken and not _copy(writer, local, offset, length):
                        continue  # the file is shorter by now: fetched like any other block
                    cells.mark(run.start, len(run))
                    new += length
                progress(new + had)
        writer.sync()
        if is_unknown:
            # What lay there before, and no map told of, is worth comparing too: without a map the engine does that.
            ledger_path(spec).unlink()
        return Put(new, had)
    finally:
        writer.close()


def _copy(writer: IncomingWriter, local: LocalBytes, offset: int, length: int) -> bool:
    pieces = local.pieces(offset, length)
    for file, at, count in pieces:
        if writer.copy_from(file, at, offset, count) < count:
            return False
        offset += count
    return bool(pieces)


def _take(spec: BuildSpec, offer: Offer, cells: CellMap) -> None:
    """Make the offered file the incoming one. After a kill the next attempt finds it so, and marks what matched.

    Raises AdoptionRefused, OSError.
    """
    path = offer.whole_file()
    incoming = spec.folder / spec.incoming_name
    if path is not None and not path.exists() and incoming.exists() and not cells.here_bytes:
        return  # taken by an attempt that was killed before it had marked anything
    reason = why_not_taken(offer, spec)
    if path is None or reason:
        raise AdoptionRefused(path or spec.folder, reason)
    if cells.here_bytes or (os.path.lexists(incoming) and not stat.S_ISREG(incoming.lstat().st_mode)):
        raise AdoptionRefused(path, "other bytes of the build are here by now; they are kept. Let it be copied instead")
    with suppress(FileNotFoundError):
        incoming.unlink()  # preallocated, and nothing of it came
    path.rename(incoming)
    sync_folder(spec.folder)
    sync_folder(path.parent)
