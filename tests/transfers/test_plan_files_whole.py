"""A plan file carries everything that a plan has, out and in again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from calculet.actors import Actor
from calculet.people.models import Person
from inventory.manifests.planfile import (
    CapabilityLine,
    PackLine,
    PlanFile,
    PlanFileError,
    ResourceLine,
    TierLine,
    read_plan_file,
    write_plan_file,
)
from inventory.models import Host
from inventory.remote.names import RemoteName
from transfers.models import Item, Pack, Plan
from transfers.services.plan_files import plan_file_export, plan_file_load

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

WHOLE = PlanFile(
    tiers=(TierLine(1, "needed first", "why"),),
    resources=(ResourceLine("tools", RemoteName(b"/srv/tools"), "folder", 1, 1, 5_000_000, "declared"),),
    packs=(
        PackLine("plain", "an aim", "archive", ("tools",), ("/a/",), ("*.o",), 8 * 2**20, came_of=("former",)),
        PackLine("part", "", "files", ("tools",), first_name=b"srv/tools/m", end_name=b"srv/tools/t\xff"),
        PackLine("rest", "", "archive", ("tools",), leaves_out_carried=True, leaves_out_here=True),
        PackLine("delta", "", "archive", ("tools",), delta_of="plain"),
        PackLine("word", "", "archive", ("tools",), on_hold=True, hold_reason="bob says when"),
        PackLine("quick", "", "files", ("tools",), on_hold=True, hold_reason="a link", hold_until_rate=12_500_000),
        PackLine("last", "", "files", ("tools",), on_hold=True, hold_reason="all else", hold_until_rest=True),
        PackLine(
            "dated",
            "",
            "files",
            ("tools",),
            on_hold=True,
            hold_reason="a day",
            hold_until_at=datetime(2026, 12, 31, 18, 0, tzinfo=UTC),
        ),
    ),
    capabilities=(CapabilityLine("work", "", (("plain",), ("part", "rest"))),),
    clear_by=date(2027, 1, 15),
    stated_bytes_per_second=70_000,
    stated_packed_percent=57,
)


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="far", staging_path=RemoteName(b"/home/user/staging"))


def load(host: Host, content: bytes, person: Person) -> None:
    plan_file_load(host=host, content=content, file_name="plan.yaml", actor=Actor.of(person))


def test_what_is_written_reads_back_as_the_same_plan() -> None:
    assert read_plan_file(write_plan_file(WHOLE)) == WHOLE


def test_everything_comes_out_of_the_product_as_it_went_in(host: Host, alice: Person) -> None:
    content = write_plan_file(WHOLE)
    load(host, content, alice)
    assert read_plan_file(plan_file_export(host=host)) == WHOLE
    assert plan_file_export(host=host) == content
    held = Pack.objects.get(name="dated")
    assert (held.hold_until_at, held.hold_reason) == (datetime(2026, 12, 31, 18, 0, tzinfo=UTC), "a day")
    assert Item.objects.get(pack__name="rest").leaves_out_carried
    again = plan_file_load(host=host, content=content, file_name="plan.yaml", actor=Actor.of(alice))
    assert (again.packs_set, again.packs_left, again.stated_left) == (0, (), ())


def test_what_the_team_stated_since_is_not_overwritten_and_is_named(host: Host, alice: Person) -> None:
    load(host, write_plan_file(WHOLE), alice)
    Plan.objects.update(clear_by=date(2027, 2, 1), stated_bytes_per_second=1)
    again = plan_file_load(host=host, content=write_plan_file(WHOLE), file_name="plan.yaml", actor=Actor.of(alice))
    assert again.stated_left == ("clear_by", "stated")
    assert Plan.objects.get().clear_by == date(2027, 2, 1)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("clear_by: '2027-01-15'", "clear_by: soon", "“soon” is no day"),
        ("rate: 70 kB", "rate: quick", "“quick” is no rate"),
        ("at: '2026-12-31T18:00:00+00:00'", "at: 2026-12-31", "write it with its zone"),
        ("- carried", "- caried", "it is one of carried, here"),
        ("delta_of: plain", "delta_of: plane", "Did you mean “plain”?"),
        ("rest: yes", "rest: maybe", "it is one of yes, no"),
        ("  hold: all else\n", "", "Say why it waits."),
    ],
)
def test_each_fault_has_a_sentence_and_a_line(before: str, after: str, sentence: str) -> None:
    content = write_plan_file(WHOLE).decode()
    assert content.count(before) == 1
    with pytest.raises(PlanFileError, match="Line") as caught:
        read_plan_file(content.replace(before, after).encode())
    assert sentence in str(caught.value)


def test_a_bound_that_is_no_path_is_a_fault() -> None:
    part = replace(WHOLE.packs[1], first_name=b"srv/../tools")
    with pytest.raises(PlanFileError, match="the from of pack 1"):
        read_plan_file(write_plan_file(replace(WHOLE, packs=(part,), capabilities=())))
