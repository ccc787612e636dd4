"""When the source is looked at for the last time, and what is said of it."""

from __future__ import annotations

from pathlib import Path

from inventory.remote.names import RemoteName
from tests.fakes import MemoryRemote
from transfers.engine.identity import source_identity
from transfers.engine.types import Sample
from transfers.oneoff.lanes import LaneChooser
from transfers.oneoff.lastlook import LastLook


def _looking(tmp_path: Path) -> tuple[MemoryRemote, Path, LastLook]:
    path = tmp_path / "source"
    path.write_bytes(b"abc")
    remote = MemoryRemote(tmp_path)
    name = RemoteName(bytes(path))
    return remote, path, LastLook(LaneChooser(4), remote, name, source_identity(remote, name))


def test_the_last_look_begins_before_the_last_byte_and_is_taken_once(tmp_path: Path) -> None:
    remote, path, look = _looking(tmp_path)
    before = remote.calls
    look.observe(Sample(1.0, 1000, 1000, (), 0, 0), 60_000)
    look.observe(Sample(1.0, 0, 0, (), 0, 0), 1)
    assert look.lanes == 4 and remote.calls == before
    path.write_bytes(b"other")
    look.observe(Sample(1.0, 1000, 1000, (), 0, 0), 1500)
    assert "was 3 bytes long and is 5 now" in look.difference()
    look.begin()
    assert look.difference() and remote.calls == before + 1
    remote.close()


def test_a_source_that_is_gone_is_told_and_one_at_rest_is_not_mentioned(tmp_path: Path) -> None:
    remote, path, look = _looking(tmp_path)
    assert look.difference() == ""
    _, path, look = _looking(tmp_path)
    path.unlink()
    assert look.difference() == "is not there any more"
    remote.close()
