"""Samples of packing over a real sshd: bounded, spread over the list, taken once, and told as about."""

from __future__ import annotations

from pathlib import Path

import pytest

from calculet.actors import Actor
from calculet.people.models import Person
from tests.hosts import host_make, resource_make
from tests.parts import need
from tests.sshd import Sshd
from tests.transfers import jobs
from transfers.models import Item, PackingSample, SampleState
from transfers.selectors.board import board_of
from transfers.selectors.forecast import times_in_order
from transfers.services.samples import sample_request, sample_run
from transfers.services.ticks import due_now

pytestmark = pytest.mark.django_db


@pytest.fixture
def item(sshd: Sshd, alice: Person, tmp_path: Path) -> Item:
    need("zstd")
    jobs.landing_make(tmp_path / "home")
    tree = tmp_path / "far"
    tree.mkdir()
    for number in range(20):
        (tree / f"{number}.txt").write_text(f"the same line, {number}\n" * 5000)
    host = host_make(sshd, alice)
    resource = resource_make(host, alice, tree)
    jobs.scan(resource, alice)
    revision = jobs.propose(host, alice, ("tree", "archive", [resource]))
    return revision.items.get()


def test_a_sample_says_about_what_a_pack_comes_to_and_packing_does_not_take_it_again(
    item: Item, alice: Person, bob: Person
) -> None:
    sample = sample_request(item=item, actor=Actor.of(alice))
    assert sample_request(item=item, actor=Actor.of(alice)) == sample
    assert due_now().samples == (sample.pk,)
    sample_run(sample.pk)
    sample.refresh_from_db()
    assert sample.state == SampleState.FINISHED, sample.problem
    assert 0 < sample.packed_bytes < sample.raw_bytes / 5
    assert not due_now().samples
    (build,) = jobs.approve(item.revision, bob)
    row = board_of(item.revision.plan).rows[0]
    assert row.listed_bytes is not None and row.packed_about is not None
    assert 0 < row.packed_about < row.listed_bytes / 5
    (standing,) = times_in_order(item.revision.plan).standings
    assert standing.job().fetch_bytes == row.left_bytes == row.packed_about  # forecasts go by it
    taken = sample.at
    jobs.until_packed(build)
    assert f"{sample.raw_bytes:,}" in build.compression_note
    sample.refresh_from_db()
    assert sample.at == taken


def test_what_packing_found_is_kept_for_the_board(item: Item, bob: Person) -> None:
    (build,) = jobs.approve(item.revision, bob)
    jobs.until_packed(build)
    assert PackingSample.objects.get(entry_list=build.entry_list).state == SampleState.FINISHED
    assert board_of(item.revision.plan).rows[0].packed_about is not None


def test_a_host_that_does_not_answer_is_told_and_asked_again_by_a_person(item: Item, alice: Person, sshd: Sshd) -> None:
    sample = sample_request(item=item, actor=Actor.of(alice))
    sshd.stop()
    sample_run(sample.pk)
    sample.refresh_from_db()
    assert sample.state == SampleState.FAILED
    assert sample.problem
    assert sample_request(item=item, actor=Actor.of(alice)).state == SampleState.QUEUED
