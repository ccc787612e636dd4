"""Plan files: loading, loading again, what the team changed meanwhile, faults with their lines, and back to a file."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.people.models import Person
from inventory.manifests.planfile import PlanFileError, read_plan_file
from inventory.models import Host, Proposal, Resource, Tier
from inventory.remote.names import RemoteName
from tests.settings import BASE_DIR
from transfers.models import Capability, Item, Pack, Revision
from transfers.services.plan_files import plan_file_export, plan_file_load
from transfers.services.plans import item_set

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

SEED = BASE_DIR / "inventory/samples/seed-plan.yaml"


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="far", staging_path=RemoteName(b"/home/user/staging"))


def test_the_sample_loads_whole(host: Host, alice: Person) -> None:
    content = SEED.read_bytes()
    wanted = read_plan_file(content)
    result = plan_file_load(host=host, content=content, file_name=SEED.name, actor=Actor.of(alice))
    assert Tier.objects.count() == 5
    assert Resource.objects.filter(host=host).count() == len(wanted.resources) >= 20
    assert Resource.objects.get(name="baseline analysis archive").size_bytes == 436_398_080
    assert [pack.name for pack in Pack.objects.order_by("position")] == [line.name for line in wanted.packs]
    assert result.packs_set == len(wanted.packs)
    assert Pack.objects.filter(on_hold=True).exclude(hold_reason="").exists()
    assert Capability.objects.filter(needs__isnull=False).exists()


def test_the_same_file_again_changes_nothing(host: Host, alice: Person) -> None:
    actor = Actor.of(alice)
    plan_file_load(host=host, content=SEED.read_bytes(), file_name=SEED.name, actor=actor)
    events = Event.objects.count()
    again = plan_file_load(host=host, content=SEED.read_bytes(), file_name=SEED.name, actor=actor)
    assert (again.inventory.created, again.inventory.changed, again.packs_set, again.draft) == (0, 0, 0, None)
    assert Event.objects.count() == events
    assert Revision.objects.count() == 1


def test_an_open_draft_is_not_overwritten_and_the_difference_is_named(host: Host, alice: Person) -> None:
    actor = Actor.of(alice)
    plan_file_load(host=host, content=SEED.read_bytes(), file_name=SEED.name, actor=actor)
    item = Item.objects.select_related("revision", "pack").order_by("pack__position")[0]
    item_set(
        revision=item.revision,
        pack_name=item.pack.name,
        mode=item.mode,
        resources=list(item.resources.all()),
        include_rules=["*.h"],
        exclude_rules=[],
        actor=actor,
    )
    again = plan_file_load(host=host, content=SEED.read_bytes(), file_name=SEED.name, actor=actor)
    assert again.packs_left == (item.pack.name,)
    item.refresh_from_db()
    assert item.include_rules == ["*.h"]


def test_what_the_team_changed_becomes_a_proposal(host: Host, alice: Person) -> None:
    actor = Actor.of(alice)
    content = SEED.read_bytes()
    plan_file_load(host=host, content=content, file_name=SEED.name, actor=actor)
    Resource.objects.filter(name="OCI image").update(value="ours")
    changed = content.replace(b"most complete OS", b"the most complete OS")
    assert changed != content
    result = plan_file_load(host=host, content=changed, file_name=SEED.name, actor=actor)
    assert result.inventory.proposal is not None
    assert Proposal.objects.count() == 1
    assert Resource.objects.get(name="OCI image").value == "ours"


def test_a_fault_names_its_line_and_changes_nothing(host: Host, alice: Person) -> None:
    content = SEED.read_bytes().replace(b"    mode: existing", b"    mood: existing", 1)
    with pytest.raises(PlanFileError) as caught:
        plan_file_load(host=host, content=content, file_name="bad.yaml", actor=Actor.of(alice))
    line = content[: content.index(b"mood:")].count(b"\n") + 1
    assert f"line {line}" in str(caught.value).lower()
    assert "mood" in str(caught.value)
    assert not Resource.objects.exists()
    assert not Event.objects.exists()


def test_a_plan_comes_back_as_a_file_that_says_the_same(host: Host, alice: Person) -> None:
    content = SEED.read_bytes()
    plan_file_load(host=host, content=content, file_name=SEED.name, actor=Actor.of(alice))
    wanted, found = read_plan_file(content), read_plan_file(plan_file_export(host=host))
    assert found == replace(wanted, packs=tuple(replace(p, resources=tuple(sorted(p.resources))) for p in wanted.packs))


def test_the_command_loads_and_tells(host: Host, alice: Person) -> None:
    told = StringIO()
    call_command("load_plan", str(SEED), stdout=told)
    assert "resources made" in told.getvalue()


@pytest.mark.parametrize("name", ["nowhere.yaml", "."])
def test_a_file_that_cannot_be_read_is_one_sentence(host: Host, alice: Person, tmp_path: Path, name: str) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("load_plan", str(tmp_path / name))
