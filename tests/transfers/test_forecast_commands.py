"""manage.py forecast and export_plan: the same figures as the pages, for a terminal and for programs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from calculet.people.models import Person
from inventory.manifests.planfile import read_plan_file
from tests.transfers.factories import PlannedHost, make_resource
from transfers.models import BuildState, Item

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    made = PlannedHost(alice, tmp_path)
    made.add("first", BuildState.PACKED)
    made.capability("Work", [made.add("second", BuildState.PACKED)])
    made.add("held", BuildState.PACKED, on_hold=True, hold_reason="a faster channel")
    return made


def said(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def figures(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said("forecast", "lab", "--json", *arguments))
    return found


def test_it_says_what_each_time_goes_by(lab: PlannedHost) -> None:
    assert "no rate is stated, so no time can be given" in said("forecast", "lab")
    assert "by 100 kB/s, stated by nobody's measurement" in said("forecast", "lab", "--rate", "100").replace(
        "\xa0", " "
    )
    lab.measure(bytes_per_second=200_000)
    text = said("forecast", "lab").replace("\xa0", " ")
    assert "by 200 kB/s, measured over " in text
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    assert "21 s" in lines["first"] and "42 s" in lines["second"] and "42 s" in lines["Work"]
    assert lines["held"].split()[-2:] == ["–", "–"]


def test_programs_get_seconds_and_bytes_and_another_order_changes_nothing(lab: PlannedHost) -> None:
    lab.measure(bytes_per_second=100_000)
    found = figures()
    assert (found["basis"], found["bytes_per_second"]) == ("measured", 100_000)
    assert (found["measured_alike"], found["is_limited"]) == ("channel", False)
    assert [row["name"] for row in found["packs"]] == ["first", "second", "held"]
    assert found["packs"][1]["expected_seconds"] == found["capabilities"][0]["expected_seconds"] == 84
    assert found["packs"][1]["likely_by_seconds"] > 84
    assert found["packs"][2] == {
        "name": "held",
        "state": "packed",
        "left_bytes": 4 * 2**20,
        "expected_seconds": None,
        "likely_by_seconds": None,
    }
    other = figures("--order", "second, first")
    assert [row["name"] for row in other["packs"]] == ["second", "first", "held"]
    assert other["capabilities"][0]["expected_seconds"] == 42
    assert list(lab.plan.packs.order_by("position").values_list("name", flat=True)) == ["first", "second", "held"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "no host called “nowhere” that has a plan"),
        (("lab", "--order", "first,third"), "no pack called “third”. It has: first, second, held."),
        (("lab", "--rate", "0"), "above zero"),
        (("lab", "--rate", "nan"), "above zero"),
    ],
)
def test_a_question_that_makes_no_sense_is_told(lab: PlannedHost, arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        said("forecast", *arguments)


def test_an_exported_plan_can_be_read_again(lab: PlannedHost, tmp_path: Path) -> None:
    for item in Item.objects.select_related("pack"):
        item.resources.add(make_resource(lab.host, f"of {item.pack}", f"/{item.pack}".encode(), {b"a": 1}))
    plan_file = read_plan_file(said("export_plan", "lab").encode())
    assert [pack.name for pack in plan_file.packs] == ["first", "second", "held"]
    assert plan_file.packs[2].hold_reason == "a faster channel"
    assert plan_file.capabilities[0].needs == (("second",),)
    path = tmp_path / "plan.yaml"
    assert str(path) in said("export_plan", "lab", "--to", str(path))
    before = path.read_bytes()
    assert read_plan_file(before) == plan_file
    with pytest.raises(CommandError, match="is there already"):
        said("export_plan", "lab", "--to", str(path))
    assert path.read_bytes() == before
    with pytest.raises(CommandError, match="cannot be written"):
        said("export_plan", "lab", "--to", str(tmp_path / "no" / "plan.yaml"))
    with pytest.raises(CommandError, match="no host called"):
        said("export_plan", "nowhere")
