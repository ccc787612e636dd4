"""Plans: drafts, previews, proposals, decisions, and plan files, through the pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from calculet.audit.models import Event
from calculet.http import new_act_key
from calculet.people.models import Person
from inventory.manifests.planfile import read_plan_file
from inventory.models import Host, Resource
from tests.transfers.factories import PlannedHost, make_host, make_proposal_of_plan, make_resource
from transfers.models import Build, BuildState, Item, Revision, RevisionState

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]

PLAN = """\
version: 1
tiers:
  - {position: 1, name: needed first}
resources:
  - {name: runtime, path: /opt/runtime, kind: folder, tier: 1, size: {about: 560 MB}}
packs:
  - {name: 01-runtime, mode: archive, resources: [runtime], exclude: ["param_blk*.bin"], aim: analysis}
capabilities:
  - {name: Analysis, needs: [01-runtime]}
"""


@pytest.fixture
def host(db: None) -> Host:
    return make_host("lab")


@pytest.fixture
def runtime(host: Host) -> Resource:
    return make_resource(
        host, "runtime", b"/opt/runtime", {b"cmd/a.txt": 100, b"param_blk0.bin": 9000, b"lib/b.so": 50}
    )


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path, name="other")


def text_of(response: HttpResponse | Any, status: int = 200) -> str:
    assert response.status_code == status
    return " ".join(response.content.decode().split())


def post(client: Client, name: str, *arguments: Any, htmx: bool = False, **fields: Any) -> Any:
    return client.post(
        reverse(f"transfers:{name}", args=arguments),
        {"act_key": new_act_key(), **fields},
        follow=not htmx,
        headers={"HX-Request": "true"} if htmx else {},
    )


def item_fields(resource: Resource, **changes: Any) -> dict[str, Any]:
    return {
        "pack_name": "01-runtime",
        "aim": "analysis",
        "mode": "archive",
        "resources": [resource.pk],
        "include_rules": "",
        "exclude_rules": "param_blk*.bin",
        "chunk_mebibytes": 64,
        **changes,
    }


def drafted(client: Client, resource: Resource) -> Item:
    post(client, "draft-start", "lab")
    post(client, "item-new", "lab", **item_fields(resource))
    return Item.objects.get()


# ---- who ----


def test_plans_need_sign_in_and_a_role(client: Client, signed_in: SignedIn, carol: Person, lab: PlannedHost) -> None:
    pages = [
        reverse("transfers:plan-index"),
        reverse("transfers:plan", args=["other"]),
        reverse("transfers:revision", args=["other", 1]),
        reverse("transfers:plan-export", args=["other"]),
        reverse("transfers:plan-load", args=["other"]),
    ]
    for page in pages:
        assert client.get(page).status_code == 302
        assert signed_in(carol).get(page).status_code == 403


def test_only_planners_edit_and_only_approvers_decide(
    signed_in: SignedIn, alice: Person, bob: Person, host: Host, runtime: Resource
) -> None:
    assert post(signed_in(bob), "draft-start", "lab").status_code == 403
    item = drafted(signed_in(alice), runtime)
    for name, more in [("item-new", ()), ("item", (item.pk,)), ("item-remove", (item.pk,)), ("draft-propose", ())]:
        assert post(signed_in(bob), name, "lab", *more, **item_fields(runtime)).status_code == 403
    assert signed_in(bob).get(reverse("transfers:item", args=["lab", item.pk])).status_code == 403
    post(signed_in(alice), "draft-propose", "lab")
    for act in ("approve", "decline"):
        assert post(signed_in(alice), f"revision-{act}", "lab", 1, note="x").status_code == 403
    assert post(signed_in(bob), "revision-withdraw", "lab", 1).status_code == 403
    assert Revision.objects.get().state == RevisionState.PROPOSED


# ---- the draft ----


def test_the_index_names_each_host_and_how_far_its_plan_is(
    signed_in: SignedIn, bob: Person, host: Host, lab: PlannedHost
) -> None:
    text = text_of(signed_in(bob).get(reverse("transfers:plan-index")))
    assert "nothing yet" in text.split(">lab</a>")[1]
    assert "revision 1" in text.split(">other</a>")[1]


def test_a_pack_is_previewed_before_it_is_proposed(
    signed_in: SignedIn, alice: Person, host: Host, runtime: Resource
) -> None:
    client = signed_in(alice)
    post(client, "draft-start", "lab")
    text = text_of(
        post(
            client,
            "item-new",
            "lab",
            preview="yes",
            **item_fields(runtime, exclude_rules="param_blk*.bin\r\n\r\nnothing*\r\n"),
        )
    )
    assert '<span class="nowrap" title="150 bytes">150 B</span>' in text
    assert '<span class="nowrap" title="9,000 bytes">9.00 kB</span>' in text
    assert "/opt/runtime/cmd/a.txt" in text.split("Some of what is in")[1].split("left out")[0]
    assert "/opt/runtime/param_blk0.bin" in text.split("Some of what is left out")[1]
    assert "The rule “nothing*” matches nothing." in text
    item = Item.objects.get()
    assert (item.exclude_rules, item.excluded_count) == (["param_blk*.bin", "nothing*"], 1)


def test_the_preview_comes_as_a_part_with_a_fresh_key(
    signed_in: SignedIn, alice: Person, host: Host, runtime: Resource
) -> None:
    client = signed_in(alice)
    post(client, "draft-start", "lab")
    for rules, size in (("param_blk*.bin", "150 bytes"), ("", "9,150 bytes")):
        part = text_of(post(client, "item-new", "lab", htmx=True, **item_fields(runtime, exclude_rules=rules)))
        assert part.startswith('<section class="card" id="preview"') and size in part
        assert re.search(r'id="item-key" hx-swap-oob="true"><input type="hidden" name="act_key" value="\S{20,}"', part)
    refused = text_of(post(client, "item-new", "lab", htmx=True, **item_fields(runtime, include_rules="!")))
    assert 'role="alert"' in refused and "cannot be understood" in refused


def test_what_was_typed_is_shown_again_when_it_is_refused(
    signed_in: SignedIn, alice: Person, host: Host, runtime: Resource
) -> None:
    client = signed_in(alice)
    post(client, "draft-start", "lab")
    fields = item_fields(runtime, pack_name="not a <name>", aim="my & aim", exclude_rules="keep.me\nodd[", mode="files")
    text = text_of(post(client, "item-new", "lab", **fields), 422)
    assert "not a &lt;name&gt;" in text and "my &amp; aim" in text and "keep.me odd[" in text
    assert '<option value="files" selected>' in text
    assert not Item.objects.exists()


def test_a_pack_of_a_resource_without_a_scan_is_saved_and_the_sentence_says_what_to_do(
    signed_in: SignedIn, alice: Person, host: Host
) -> None:
    resource = make_resource(host, "unseen", b"/srv/unseen")
    client = signed_in(alice)
    post(client, "draft-start", "lab")
    text = text_of(post(client, "item-new", "lab", **item_fields(resource)), 422)
    assert "“unseen” was not scanned yet" in text and "Saved in the draft." in text
    assert Item.objects.get().entry_list is None


def test_a_resource_of_another_host_is_not_offered(
    signed_in: SignedIn, alice: Person, host: Host, runtime: Resource, lab: PlannedHost
) -> None:
    foreign = make_resource(lab.host, "foreign", b"/x", {b"a": 1})
    client = signed_in(alice)
    post(client, "draft-start", "lab")
    assert "foreign" not in text_of(client.get(reverse("transfers:item-new", args=["lab"])))
    assert post(client, "item-new", "lab", **item_fields(foreign)).status_code == 422
    assert not Item.objects.filter(revision__plan__host=host).exists()


def test_a_pack_is_changed_and_removed(signed_in: SignedIn, alice: Person, host: Host, runtime: Resource) -> None:
    client = signed_in(alice)
    item = drafted(client, runtime)
    page = text_of(client.get(reverse("transfers:item", args=["lab", item.pk])))
    assert 'value="01-runtime"' in page and "param_blk*.bin</textarea>" in page
    post(client, "item", "lab", item.pk, **item_fields(runtime, exclude_rules="", chunk_mebibytes=8))
    item.refresh_from_db()
    assert (item.exclude_rules, item.chunk_bytes) == ([], 8 * 2**20)
    assert "was taken out of the draft" in text_of(post(client, "item-remove", "lab", item.pk))
    assert not Item.objects.exists()


def test_an_item_that_is_not_in_a_draft_cannot_be_edited(
    signed_in: SignedIn, alice: Person, host: Host, lab: PlannedHost
) -> None:
    lab.add("first")
    item = Item.objects.get()
    for address in (["other", item.pk], ["lab", item.pk]):
        assert signed_in(alice).get(reverse("transfers:item", args=address)).status_code == 404
        assert post(signed_in(alice), "item-remove", *address).status_code == 404
    assert Item.objects.exists()


def test_an_empty_draft_is_not_proposed_and_the_note_is_kept(signed_in: SignedIn, alice: Person, host: Host) -> None:
    client = signed_in(alice)
    post(client, "draft-start", "lab")
    response = post(client, "draft-propose", "lab", note="my reasons")
    assert response.status_code == 422
    assert Revision.objects.get().state == RevisionState.DRAFT


def test_a_proposal_that_is_refused_keeps_its_note(
    signed_in: SignedIn, alice: Person, host: Host, runtime: Resource
) -> None:
    client = signed_in(alice)
    drafted(client, runtime)
    runtime.scans.all().delete()
    text = text_of(post(client, "draft-propose", "lab", note="my <reasons>"), 422)
    assert "was not scanned yet" in text and "my &lt;reasons&gt;" in text


def test_a_draft_is_withdrawn(signed_in: SignedIn, alice: Person, host: Host, runtime: Resource) -> None:
    client = signed_in(alice)
    drafted(client, runtime)
    assert "The draft was withdrawn" in text_of(post(client, "draft-withdraw", "lab"))
    assert Revision.objects.get().state == RevisionState.WITHDRAWN


# ---- the decision ----


def test_another_person_approves_the_digest_and_builds_are_made(
    signed_in: SignedIn, alice: Person, bob: Person, host: Host, runtime: Resource
) -> None:
    drafted(signed_in(alice), runtime)
    text = text_of(post(signed_in(alice), "draft-propose", "lab", note="first try"))
    revision = Revision.objects.get()
    assert revision.digest in text and "You proposed it" in text and "Approve this digest" not in text
    page = text_of(signed_in(bob).get(reverse("transfers:revision", args=["lab", 1])))
    assert "Approve this digest" in page and "2 files, 150 B" in page and "/opt/runtime/cmd/a.txt" in page
    text = text_of(post(signed_in(bob), "revision-approve", "lab", 1, digest=revision.digest, note="good"))
    assert "Revision 1 is in force" in text and "Approved by bob" in text
    assert Build.objects.get().state == BuildState.PLANNED
    assert "good" in text_of(signed_in(alice).get(reverse("transfers:plan", args=["lab"])))


def test_an_approval_of_another_digest_is_refused_and_keeps_the_note(
    signed_in: SignedIn, alice: Person, bob: Person, lab: PlannedHost
) -> None:
    make_proposal_of_plan(lab.plan, alice, [lab.add("first")])
    text = text_of(post(signed_in(bob), "revision-approve", "other", 2, digest="f" * 64, note="my <note>"), 422)
    assert "is not what is proposed now" in text and "my &lt;note&gt;" in text
    assert lab.plan.revisions.get(number=2).state == RevisionState.PROPOSED


def test_nobody_approves_their_own_proposal(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    revision = make_proposal_of_plan(lab.plan, bob, [lab.add("first")])
    page = text_of(signed_in(bob).get(reverse("transfers:revision", args=["other", 2])))
    assert "Approve this digest" not in page and "somebody else approves it" in page
    text = text_of(post(signed_in(bob), "revision-approve", "other", 2, digest=revision.digest), 422)
    assert "You proposed this revision yourself" in text
    assert lab.plan.revisions.get(number=2).state == RevisionState.PROPOSED


def test_declining_needs_a_note_that_the_author_then_reads(
    signed_in: SignedIn, alice: Person, bob: Person, lab: PlannedHost
) -> None:
    revision = make_proposal_of_plan(lab.plan, alice, [lab.add("first")])
    arguments = ("revision-decline", "other", 2)
    assert "Say in the note why not" in text_of(post(signed_in(bob), *arguments, digest=revision.digest), 422)
    post(signed_in(bob), *arguments, digest=revision.digest, note="The image is missing.")
    assert "The image is missing." in text_of(signed_in(alice).get(reverse("transfers:revision", args=["other", 2])))
    assert "The image is missing." in text_of(signed_in(alice).get(reverse("transfers:plan", args=["other"])))


def test_the_second_of_two_decisions_gets_a_sentence(
    signed_in: SignedIn, alice: Person, bob: Person, dan: Person, lab: PlannedHost
) -> None:
    revision = make_proposal_of_plan(lab.plan, alice, [lab.add("first")])
    post(signed_in(bob), "revision-decline", "other", 2, digest=revision.digest, note="No.")
    response = post(signed_in(dan), "revision-approve", "other", 2, digest=revision.digest, note="Yes.")
    assert "declined" in text_of(response, 422)
    assert lab.plan.revisions.get(number=2).state == RevisionState.DECLINED
    assert not Event.objects.filter(act="plan.approve").exists()


def test_a_revision_tells_what_it_changes(signed_in: SignedIn, alice: Person, bob: Person, lab: PlannedHost) -> None:
    kept, gone = lab.add("kept"), lab.add("gone")
    revision = make_proposal_of_plan(lab.plan, alice, [kept])
    text = text_of(signed_in(bob).get(reverse("transfers:revision", args=["other", revision.number])))
    changed, removed = text.split('class="change changed"')[1], text.split('class="change removed"')[1]
    assert "kept" in changed.split("</li>")[0] and "list of files" in changed.split("</li>")[0]
    assert "2 files, 300 B → 1 file, 300 B" in changed
    assert gone.name in removed.split("</li>")[0]


def test_a_proposal_is_withdrawn(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    make_proposal_of_plan(lab.plan, alice, [lab.add("first")])
    client = signed_in(alice)
    assert "was withdrawn" in text_of(post(client, "revision-withdraw", "other", 2))
    assert "cannot become" in text_of(post(client, "revision-withdraw", "other", 2))


# ---- plan files ----


def upload(content: bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("plan.yaml", content, content_type="application/yaml")


def test_a_plan_file_is_loaded_and_the_same_file_changes_nothing(
    signed_in: SignedIn, alice: Person, host: Host
) -> None:
    client = signed_in(alice)
    text = text_of(post(client, "plan-load", "lab", file=upload(PLAN.encode())))
    assert "Resources: 1 new" in text and "1 pack is in the draft of revision 1" in text
    assert Item.objects.get().exclude_rules == ["param_blk*.bin"]
    before = Event.objects.count()
    assert "The packs are as they were." in text_of(post(client, "plan-load", "lab", file=upload(PLAN.encode())))
    assert Event.objects.count() == before


def test_the_errors_of_a_plan_file_are_listed_with_their_lines_and_nothing_is_loaded(
    signed_in: SignedIn, alice: Person, host: Host
) -> None:
    broken = PLAN.replace("kind: folder", "kind: <odd>").replace("mode: archive", "mode: zip")
    text = text_of(post(signed_in(alice), "plan-load", "lab", file=upload(broken.encode())), 422)
    listed = text.split("<ol>")[1].split("</ol>")[0]
    assert listed.count("<li>") == 2 and "5" in listed and "7" in listed and "&lt;odd&gt;" in listed
    assert not Resource.objects.exists() and not Event.objects.exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"- just\n- a list\n", b"a: [1"])
def test_what_is_no_plan_file_is_refused(signed_in: SignedIn, alice: Person, host: Host, content: bytes) -> None:
    response = post(signed_in(alice), "plan-load", "lab", file=upload(content))
    assert 'role="alert"' in text_of(response, 422)
    assert not Event.objects.exists()


def test_a_plan_is_taken_away_as_a_file_that_loads_again(signed_in: SignedIn, alice: Person, host: Host) -> None:
    client = signed_in(alice)
    post(client, "plan-load", "lab", file=upload(PLAN.encode()))
    response = client.get(reverse("transfers:plan-export", args=["lab"]))
    assert response.headers["Content-Disposition"] == 'attachment; filename="lab-plan.yaml"'
    assert [pack.name for pack in read_plan_file(response.content).packs] == ["01-runtime"]
