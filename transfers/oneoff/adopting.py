"""`fetch --adopt PATH`: what lies on this machine already is compared with the source and put in before lanes begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from inventory.remote.base import Remote
from transfers.engine.adopt import AdoptionRefused, block_asker, compare
from transfers.engine.adopt_look import look_at
from transfers.engine.adopt_put import put
from transfers.engine.landing import shown
from transfers.engine.types import BuildSpec


def adopt_local(
    path: Path, spec: BuildSpec, remote: Remote, *, stop: Callable[[], bool], notice: Callable[[str], None]
) -> int:
    """Copy the blocks of a local file or set of parts that are the source's; returns the bytes put in.

    The source's digests are asked for by block (1 MiB), for what is offered alone. The offered file is never changed.
    Raises AdoptionRefused, RemoteError, LandingError, LedgerBusy, Stopped.
    """
    try:
        offer = look_at(path, spec)
        *_before, compared = compare(spec, offer, block_asker(remote, spec), stop=stop)
        done = put(spec, offer, compared.matched, stop=stop)
    except OSError as error:
        raise AdoptionRefused(path, (error.strerror or str(error)).lower()) from error
    for remark in offer.remarks:
        notice(f"“{shown(path)}”: {remark}.")
    notice(
        f"Of {offer.offered_bytes:,} bytes in “{shown(path)}” {compared.matched.total_bytes:,} are the source's; "
        f"{done.new_bytes:,} were copied and are not fetched."
    )
    return done.new_bytes
