"""The first page answers from the rows, and marks as yours only what you may decide."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from calculet.people.models import Person
from inventory.models import Host, Proposal
from tests.transfers.factories import PlannedHost, make_approval, make_host, make_proposal_of_plan
from transfers.models import BuildState, RevisionState

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path)


def text_of(client: Client, address: str = "/") -> str:
    response = client.get(address)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_nobody_sees_it_without_sign_in(client: Client) -> None:
    response = client.get("/")
    assert (response.status_code, response.headers["Location"]) == (302, "/people/sign-in/?next=/")


def test_a_person_without_a_role_is_refused(signed_in: SignedIn, carol: Person) -> None:
    assert signed_in(carol).get("/").status_code == 403


def test_an_empty_installation_says_what_to_do_first(signed_in: SignedIn, alice: Person) -> None:
    text = text_of(signed_in(alice))
    assert "There is no host yet" in text
    assert "Clearing the remote side is not part of this version" in text


def test_a_capability_is_usable_only_when_every_group_has_an_opened_pack(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    opened = lab.add("opened-pack", BuildState.OPENED)
    verified = lab.add("verified-pack", BuildState.VERIFIED)
    other = lab.add("other-pack", BuildState.FETCHING, chunk_count=4, proven=1)
    lab.capability("Read the source", [opened, other])
    lab.capability("Run everything", [opened], [verified])
    lab.capability("Measure", [other])
    page = text_of(signed_in(alice))
    read, run, measure = (page.split(f"<div>{name}")[1].split('class="cap"')[0] for name in _NAMES)
    assert "<b>usable</b>" in read and "opened-pack" in read
    assert "<b>usable</b>" not in run and "all bytes here" in run and "verified-pack</a>" in run
    assert "3.15 MB left" in measure and "time not measured yet" in measure


_NAMES = ("Read the source", "Run everything", "Measure")


def test_time_left_is_an_estimate_from_the_measured_goodput(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    lab.add("big", BuildState.FETCHING, chunk_count=40, proven=20)
    client = signed_in(alice)
    assert "Time left: not measured yet." in text_of(client)
    lab.measure(bytes_per_second=200_000)
    text = text_of(client)
    assert "21.0 MB may move now: about 1 min 45 s at the 200 kB/s of the last 5 minutes" in text
    assert "This is an estimate" in text
    assert '<path class="line" d="M0 ' in text and "Goodput of the last 10 minutes: 200 kB/s on average" in text


def test_an_old_link_status_is_not_told_as_moving(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    lab.add("big", BuildState.FETCHING)
    lab.measure()
    status = lab.host.link_status
    status.at = timezone.now() - timedelta(minutes=2)
    status.save()
    text = text_of(signed_in(alice))
    assert "Nothing moves at this moment." in text
    assert "its link has not been heard of" in text


def test_only_what_this_person_may_decide_is_marked_as_theirs(
    signed_in: SignedIn, alice: Person, bob: Person, lab: PlannedHost
) -> None:
    pack = lab.add("first", BuildState.NEEDS_DECISION, deviations=[{"name": "a", "what": "changed", "detail": ""}])
    make_proposal_of_plan(lab.plan, alice, [pack])
    Proposal.objects.create(host=lab.host, title="Tier 2 for the image", changes=[], digest="0" * 64, author=bob)
    make_host("unpinned", is_pinned=False)
    mine_of_alice, others_of_alice = _waiting(text_of(signed_in(alice)))
    mine_of_bob, others_of_bob = _waiting(text_of(signed_in(bob)))
    assert "Approve revision 2" in others_of_alice and "Approve revision 2" in mine_of_bob
    assert "Tier 2 for the image" in others_of_alice and "Tier 2 for the image" in others_of_bob
    assert "Pin the host key of unpinned" in mine_of_alice and "Pin the host key of unpinned" in others_of_bob
    assert "1 file of first is not as it was listed" in mine_of_alice  # she may pack it anew
    assert "1 file of first is not as it was listed" in mine_of_bob  # he may accept it


def _waiting(page: str) -> tuple[str, str]:
    card = page.split("<h2>Waits for you</h2>")[1].split("</section>")[0]
    mine, _summary, others = card.partition("<details")
    return mine, others


def test_the_author_of_a_declined_revision_reads_why(
    signed_in: SignedIn, alice: Person, bob: Person, lab: PlannedHost
) -> None:
    revision = make_proposal_of_plan(lab.plan, alice, [])
    type(revision).objects.filter(pk=revision.pk).update(state=RevisionState.DECLINED)
    make_approval(revision, bob, "decline", "The image is missing.")
    assert "The image is missing." in text_of(signed_in(alice))
    assert "The image is missing." not in text_of(signed_in(bob))


def test_what_is_wrong_is_told_with_its_sentence(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    Host.objects.filter(pk=lab.host.pk).update(problem="The host's key is another one.")
    lab.add("broken", BuildState.FAILED, problem="No space on <the> host.")
    lab.add("held", BuildState.PLANNED, on_hold=True, hold_reason="a faster channel")
    text = text_of(signed_in(alice))
    wrong = text.split("<h2>What is wrong</h2>")[1]
    assert "The host&#x27;s key is another one." in wrong
    assert "No space on &lt;the&gt; host." in wrong
    assert "a faster channel" in text


def test_htmx_gets_the_part_alone_and_a_browser_the_page(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    client = signed_in(alice)
    part = client.get("/", headers={"HX-Request": "true"}).content.decode()
    assert part.lstrip().startswith('<div id="now"')
    assert "<html" not in part and "<html" in client.get("/").content.decode()
