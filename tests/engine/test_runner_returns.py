"""Builds that a link had settled and that are asked for again while it still runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engine.books import MIB, Books, RunningLink, noise, one_file, wait_until
from tests.fakes import MemoryRemote
from transfers.engine.cellmap import CellMap, LedgerBusy
from transfers.engine.geometry import Geometry, ledger_path
from transfers.engine.landing import publish
from transfers.engine.types import CELL_BYTES


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[MemoryRemote]:
    (tmp_path / "home").mkdir()
    memory = MemoryRemote(tmp_path / "home")
    yield memory
    memory.close()


def test_a_failed_build_that_is_tried_again_goes_on_in_the_running_link(remote: MemoryRemote, tmp_path: Path) -> None:
    content, source = noise(9 * MIB), tmp_path / "source"
    spec = one_file(tmp_path / "landing", source, content)
    source.write_bytes(content[: 5 * MIB])
    books = Books([spec], more_expected=True)
    with RunningLink(remote, books) as link:
        wait_until(lambda: any(key == "build" for key, *_ in books.problems), what="the cut source to be told")
        books.builds = []  # failed builds are in no directions
        told = len(books.problems)
        wait_until(lambda: len(books.samples) > 2, what="the link to see that")
        source.write_bytes(content)
        books.builds, books.more_expected = [spec], False
        summary = link.finish()
    assert summary.received == ("build",) and not summary.failed
    assert len(books.problems) == told
    assert publish(spec).read_bytes() == content


def test_a_received_build_that_is_damaged_when_read_back_is_mended_by_the_running_link(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    content = noise(9 * MIB)
    spec = one_file(tmp_path / "landing", tmp_path / "source", content)
    books = Books([spec], more_expected=True)
    with RunningLink(remote, books) as link:
        wait_until(lambda: books.received == ["build"], what="the build")
        books.builds = []
        seen = len(books.samples)
        wait_until(lambda: len(books.samples) > seen + 1, what="the link to see that")
        with (spec.folder / spec.incoming_name).open("r+b") as file:
            file.seek(3 * MIB)
            file.write(b"damage")
        ledger_path(spec).unlink()  # so the engine compares what lies there with the source
        books.builds, books.more_expected = [spec], False
        summary = link.finish()
    assert books.received == ["build", "build"] and summary.received == ("build",)
    assert publish(spec).read_bytes() == content
    assert summary.new_bytes < len(content) + 2 * MIB


def test_a_build_that_is_not_asked_for_is_let_go_of_so_that_others_may_put_bytes_into_it(
    remote: MemoryRemote, tmp_path: Path
) -> None:
    contents = [noise(24 * MIB, seed) for seed in (1, 2)]
    first, second = (
        one_file(tmp_path / key, tmp_path / f"source-{key}", content, key=key)
        for key, content in zip(("first", "second"), contents, strict=True)
    )
    books = Books([first, second], lanes=2, bytes_per_second=6.0 * MIB)
    with RunningLink(remote, books) as link:
        wait_until(lambda: link.here("first") > 0, what="bytes of the first build")
        books.builds = [second]
        held: list[CellMap] = []

        def is_free() -> bool:
            with suppress(LedgerBusy):
                held.append(CellMap(ledger_path(first), first.key, Geometry(first.chunks)))
            return bool(held)

        wait_until(is_free, 5, what="the first build's ledger")
        kept = held[0].here_bytes
        with (tmp_path / "first" / first.incoming_name).open("r+b") as file:
            file.write(contents[0][:MIB])
        held[0].mark(0, MIB // CELL_BYTES)
        held[0].close()
        books.builds, books.bytes_per_second = [first, second], None
        summary = link.finish()
    assert set(summary.received) == {"first", "second"} and kept > 0
    assert (tmp_path / "first" / first.incoming_name).read_bytes() == contents[0]
