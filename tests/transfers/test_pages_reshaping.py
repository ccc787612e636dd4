"""Splitting, copying, merging, leaving out and sampling through the pages, without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from calculet.people.models import Person
from inventory.models import Host, Resource
from tests.transfers.factories import make_host, make_list, make_resource
from tests.transfers.test_pages_plans import SignedIn, item_fields, post, text_of
from transfers.models import Build, Item, Pack, PackingSample, Revision, RevisionState, SampleState

pytestmark = pytest.mark.django_db


@pytest.fixture
def host(db: None) -> Host:
    return make_host("lab")


@pytest.fixture
def runtime(host: Host) -> Resource:
    return make_resource(host, "runtime", b"/opt/runtime", {b"a.txt": 4_000_000, b"b.txt": 5_000_000, b"c.txt": 6})


@pytest.fixture
def client(signed_in: SignedIn, alice: Person, runtime: Resource) -> Client:
    found = signed_in(alice)
    post(found, "draft-start", "lab")
    post(found, "item-new", "lab", **item_fields(runtime))
    return found


def names() -> list[str]:
    return list(Item.objects.order_by("position").values_list("pack__name", flat=True))


def test_a_pack_is_split_merged_and_copied(client: Client) -> None:
    page = text_of(client.get(reverse("transfers:reshape", args=["lab", "01-runtime"])))
    assert "In the draft of revision 1." in page
    answer = text_of(post(client, "pack-split", "lab", "01-runtime", by="bytes", megabytes="6"))
    assert "01-runtime is split into 2 packs." in answer
    assert "names from" in answer and "/opt/runtime/b.txt" in answer
    assert names() == ["01-runtime", "01-runtime-2"]
    page = text_of(client.get(reverse("transfers:merge", args=["lab"])))
    assert 'value="01-runtime-2"' in page
    answer = text_of(post(client, "packs-merge", "lab", packs=["01-runtime", "01-runtime-2"]))
    assert "The packs are one now: 01-runtime." in answer
    assert names() == ["01-runtime"]
    answer = text_of(post(client, "pack-copy", "lab", "01-runtime", new_name="again"))
    assert "again says what 01-runtime says." in answer
    assert names() == ["01-runtime", "again"]


def test_what_is_refused_is_said_where_it_was_typed(client: Client) -> None:
    refused: list[tuple[str, tuple[str, ...], dict[str, Any], str]] = [
        ("pack-split", ("lab", "01-runtime"), {"by": "bytes"}, "Say how many megabytes"),
        ("pack-split", ("lab", "01-runtime"), {"by": "resource"}, "has one resource only"),
        ("pack-split", ("lab", "01-runtime"), {"by": "folder"}, "would stay in one part"),
        ("pack-copy", ("lab", "01-runtime"), {"new_name": "01-runtime"}, "is taken already"),
        ("packs-merge", ("lab",), {"packs": ["01-runtime"]}, "Choose two packs or more."),
    ]
    for name, arguments, fields, sentence in refused:
        assert sentence in text_of(post(client, name, *arguments, **fields), 422)
    assert names() == ["01-runtime"]


def test_a_split_of_what_is_in_force_begins_a_draft(client: Client, signed_in: SignedIn, bob: Person) -> None:
    post(client, "draft-propose", "lab")
    revision = Revision.objects.get()
    post(signed_in(bob), "revision-approve", "lab", 1, digest=revision.digest)
    board = text_of(client.get(reverse("transfers:packs")))
    assert reverse("transfers:reshape", args=["lab", "01-runtime"]) in board
    page = text_of(client.get(reverse("transfers:reshape", args=["lab", "01-runtime"])))
    assert "A draft begins as a copy of revision 1, which stays in force." in page
    post(client, "pack-split", "lab", "01-runtime", by="bytes", megabytes="6")
    assert Revision.objects.get(state=RevisionState.DRAFT).items.count() == 2
    assert Revision.objects.get(state=RevisionState.APPROVED).items.count() == 1
    assert Build.objects.count() == 1


def test_only_planners_reshape(client: Client, signed_in: SignedIn, bob: Person) -> None:
    for name, arguments in [("pack-split", ["lab", "01-runtime"]), ("pack-copy", ["lab", "01-runtime"])]:
        assert post(signed_in(bob), name, *arguments).status_code == 403
    assert post(signed_in(bob), "packs-merge", "lab").status_code == 403
    assert post(signed_in(bob), "item-sample", "lab", Item.objects.get().pk).status_code == 403
    for name, arguments in [("reshape", ["lab", "01-runtime"]), ("merge", ["lab"])]:
        assert signed_in(bob).get(reverse(f"transfers:{name}", args=arguments)).status_code == 403
    assert client.get(reverse("transfers:reshape", args=["lab", "other"])).status_code == 404


def test_who_carries_what_is_said_in_draft_revision_comparison_and_board(
    client: Client, signed_in: SignedIn, bob: Person
) -> None:
    item = Item.objects.get()
    item.carriers = [{"pack": "zero", "list": "x", "files": 2, "bytes": 7_000_000}]
    item.satisfied_list = make_list([(b"x", 7_000_000)])
    item.save()
    words = "satisfied by zero: 2 files, 7.00 MB saved"
    assert words in text_of(client.get(reverse("transfers:plan", args=["lab"])))
    assert words in text_of(client.get(reverse("transfers:item", args=["lab", item.pk])))
    assert words in text_of(client.get(reverse("transfers:compare", args=["lab"])))
    assert words in text_of(client.get(reverse("transfers:revision", args=["lab", 1])))
    Revision.objects.update(state=RevisionState.APPROVED)
    Pack.objects.create(plan=item.pack.plan, name="zero")
    board = text_of(client.get(reverse("transfers:packs")))
    assert "7.00 MB saved: satisfied by zero" in board
    Item.objects.update(satisfied_list=None)
    assert "also in zero: 2 files, 7.00 MB twice" in text_of(client.get(reverse("transfers:plan", args=["lab"])))


def test_a_sample_is_asked_for_and_told_as_about(client: Client) -> None:
    item = Item.objects.get()
    answer = text_of(post(client, "item-sample", "lab", item.pk))
    assert "a sample is taken …" in answer
    PackingSample.objects.update(state=SampleState.FINISHED, raw_bytes=100, packed_bytes=30)
    assert "about 2.70 MB packed" in text_of(client.get(reverse("transfers:plan", args=["lab"])))
    Revision.objects.update(state=RevisionState.APPROVED)
    assert "about 2.70 MB packed" in text_of(client.get(reverse("transfers:packs")))


def test_the_first_of_two_approvals_says_that_one_more_is_needed(
    client: Client, signed_in: SignedIn, bob: Person, dan: Person, settings: Settings
) -> None:
    settings.APPROVALS_NEEDED = 2
    post(client, "draft-propose", "lab")
    digest = Revision.objects.get().digest
    answer = text_of(post(signed_in(bob), "revision-approve", "lab", 1, digest=digest))
    assert "Your approval is kept. 1 more person has to approve before anything changes." in answer
    assert "1 of 2 people have approved it." in answer
    answer = text_of(post(signed_in(dan), "revision-approve", "lab", 1, digest=digest))
    assert "Revision 1 is in force." in answer
