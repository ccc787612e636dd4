"""Transfers: the board, a pack's page, what operators order, and that a race loses nothing but the race."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from calculet.audit.models import Event
from calculet.http import new_act_key
from calculet.people.models import Person
from tests.transfers.factories import MEBIBYTE, PlannedHost, make_check, odd_name
from transfers.engine.cellmap import CellMap
from transfers.engine.geometry import Geometry
from transfers.engine.types import ChunkSpec
from transfers.models import Build, BuildState, Mode, Pack, Unpack, UnpackState
from transfers.selectors.specs import build_folder, build_key

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Person], Client]


@pytest.fixture
def lab(alice: Person, tmp_path: Path) -> PlannedHost:
    return PlannedHost(alice, tmp_path)


def text_of(response: HttpResponse | Any, status: int = 200) -> str:
    assert response.status_code == status
    return " ".join(response.content.decode().split())


def post(client: Client, address: str, **fields: Any) -> Any:
    return client.post(address, {"act_key": new_act_key(), **fields}, follow=True)


def address_of(pack: Pack, act: str = "pack", **more: Any) -> str:
    return reverse(f"transfers:{act}", kwargs={"host": pack.plan.host.name, "pack": pack.name, **more})


def order_of(lab: PlannedHost) -> list[str]:
    return list(lab.plan.packs.order_by("position").values_list("name", flat=True))


# ---- who may see and do what ----


@pytest.mark.parametrize("act", ["pack", "build"])
def test_pages_of_a_pack_need_sign_in_and_a_role(
    client: Client, signed_in: SignedIn, carol: Person, lab: PlannedHost, act: str
) -> None:
    pack = lab.add("first")
    for address in (address_of(pack, act, **({"number": 1} if act == "build" else {})), reverse("transfers:packs")):
        assert client.get(address).status_code == 302
        assert signed_in(carol).get(address).status_code == 403


@pytest.mark.parametrize(
    ("act", "number"),
    [
        ("pack-pause", None),
        ("pack-resume", None),
        ("pack-hold", None),
        ("pack-release", None),
        ("pack-place", None),
        ("build-retry", 1),
        ("build-replace", 1),
        ("build-accept", 1),
        ("build-unpack", 1),
        ("report-make", 1),
    ],
)
def test_acts_need_sign_in_a_right_and_a_post(
    client: Client, signed_in: SignedIn, carol: Person, lab: PlannedHost, act: str, number: int | None
) -> None:
    pack = lab.add("first", BuildState.FAILED)
    before = Event.objects.count()
    address = address_of(pack, act, **({"number": number} if number else {}))
    data = {"act_key": new_act_key(), "reason": "because", "note": "because", "place": 1, "seen_ids": str(pack.pk)}
    assert client.post(address, data).headers["Location"].startswith("/people/sign-in/")
    assert signed_in(carol).post(address, data).status_code == 403
    assert signed_in(carol).get(address).status_code == 405
    assert Event.objects.count() == before
    assert Build.objects.get().state == BuildState.FAILED


def test_an_approver_does_not_order_and_a_planner_does_not_accept(
    signed_in: SignedIn, alice: Person, bob: Person, lab: PlannedHost
) -> None:
    pack = lab.add("first", BuildState.NEEDS_DECISION)
    assert post(signed_in(bob), address_of(pack, "pack-pause")).status_code == 403
    assert post(signed_in(alice), address_of(pack, "build-accept", number=1), note="fine").status_code == 403
    assert "Pause" not in text_of(signed_in(bob).get(reverse("transfers:packs")))


# ---- the board ----


def test_the_board_shows_packs_in_execution_order_with_their_bytes(
    signed_in: SignedIn, bob: Person, lab: PlannedHost
) -> None:
    lab.add("zeta", BuildState.OPENED, chunk_count=2)
    lab.add("alpha", BuildState.FETCHING, chunk_count=4, proven=1, received_bytes=2 * MEBIBYTE)
    lab.add("beta", BuildState.PLANNED, on_hold=True, hold_reason="a <faster> channel")
    lab.add("gamma", None, is_paused=True)
    lab.measure(bytes_per_second=100_000)
    text = text_of(signed_in(bob).get(reverse("transfers:packs")))
    assert re.findall(r'class="named"[^>]*>(\w+)<', text) == ["zeta", "alpha", "beta", "gamma"]
    zeta, alpha, beta, gamma = text.split("<tbody>")[1].split("</tr>")[:4]
    assert "opened" in zeta and "2/2 chunks proven" in zeta
    assert "fetching" in alpha and "2.10 MB of 4.19 MB · 1/4 chunks proven" in alpha and "100 kB/s" in alpha
    assert "expected in 21 s" in alpha and "likely by <time" in alpha  # 2 MiB at 100 kB/s
    assert "on hold" in beta and "a &lt;faster&gt; channel" in beta and "about" not in beta
    assert "paused" in gamma and "300 B before packing" in gamma


def test_the_board_refreshes_fast_while_something_moves_and_slowly_else(
    signed_in: SignedIn, bob: Person, lab: PlannedHost
) -> None:
    pack = lab.add("first", BuildState.FETCHING)
    client, address = signed_in(bob), reverse("transfers:packs")
    assert 'data-refresh="2"' in text_of(client.get(address))
    Pack.objects.filter(pk=pack.pk).update(is_paused=True)
    part = text_of(client.get(address, headers={"HX-Request": "true"}))
    assert 'data-refresh="15"' in part and part.startswith('<div id="board"')


def test_pause_hold_and_release_take_effect_with_events_and_come_back_to_where_the_form_was(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    pack, client = lab.add("first"), signed_in(alice)
    response = post(client, address_of(pack, "pack-pause"), next=reverse("transfers:packs"))
    assert response.redirect_chain == [(reverse("transfers:packs"), 302)]
    pack.refresh_from_db()
    assert pack.is_paused
    assert "first is paused" in text_of(response)
    post(client, address_of(pack, "pack-resume"))
    post(client, address_of(pack, "pack-hold"), reason="a faster channel")
    pack.refresh_from_db()
    assert (pack.is_paused, pack.on_hold, pack.hold_reason) == (False, True, "a faster channel")
    post(client, address_of(pack, "pack-release"))
    pack.refresh_from_db()
    assert not pack.on_hold
    acts = list(Event.objects.order_by("sequence").values_list("act", flat=True))
    assert acts == ["pack.pause", "pack.resume", "pack.hold", "pack.release"]


def test_a_form_that_names_another_site_comes_back_to_ours(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    pack = lab.add("first")
    response = post(signed_in(alice), address_of(pack, "pack-pause"), next="https://example.org/")
    assert response.redirect_chain == [(address_of(pack), 302)]


def test_a_hold_without_a_reason_is_shown_again(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    pack = lab.add("first")
    response = post(signed_in(alice), address_of(pack, "pack-hold"), reason="   ")
    assert "This field is required." in text_of(response, 422)
    pack.refresh_from_db()
    assert not pack.on_hold


def test_a_form_that_is_sent_twice_acts_once(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    pack, client, key = lab.add("first"), signed_in(alice), new_act_key()
    for _time in range(2):
        response = client.post(address_of(pack, "pack-pause"), {"act_key": key}, follow=True)
    assert "This was already done" in text_of(response)
    assert Event.objects.filter(act="pack.pause").count() == 1


# ---- order ----


def test_packs_are_moved_by_buttons_and_by_dragging(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    packs = [lab.add(name) for name in ("one", "two", "three")]
    client, address = signed_in(alice), reverse("transfers:order", args=["lab"])
    seen = ",".join(str(pack.pk) for pack in packs)
    unmoved = [pack.pk for pack in packs]
    post(client, address, seen_ids=seen, pack_ids=unmoved, move=f"up:{packs[2].pk}")
    assert order_of(lab) == ["one", "three", "two"]
    seen = ",".join(str(packs[at].pk) for at in (0, 2, 1))
    post(client, address, seen_ids=seen, pack_ids=[packs[at].pk for at in (1, 0, 2)])
    assert order_of(lab) == ["two", "one", "three"]
    assert Event.objects.filter(act="pack.reorder").count() == 2


def test_a_pack_is_put_at_a_place_by_its_number(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    packs = [lab.add(name) for name in ("one", "two", "three")]
    seen = ",".join(str(pack.pk) for pack in packs)
    post(signed_in(alice), address_of(packs[0], "pack-place"), seen_ids=seen, place=99)
    assert order_of(lab) == ["two", "three", "one"]


def test_a_stale_order_changes_nothing_and_shows_the_fresh_board(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    packs = [lab.add(name) for name in ("one", "two", "three")]
    seen = ",".join(str(pack.pk) for pack in packs)
    Pack.objects.filter(pk=packs[2].pk).update(position=0)  # somebody else was faster
    response = post(
        signed_in(alice), reverse("transfers:order", args=["lab"]), seen_ids=seen, move=f"down:{packs[0].pk}"
    )
    text = text_of(response)
    assert "Somebody changed the order in the meantime." in text
    assert order_of(lab) == ["three", "one", "two"]
    assert re.findall(r'class="named"[^>]*>(\w+)<', text) == ["three", "one", "two"]


@pytest.mark.parametrize("seen", ["", "x,y", "999999"])
def test_an_order_that_means_nothing_changes_nothing(
    signed_in: SignedIn, alice: Person, lab: PlannedHost, seen: str
) -> None:
    lab.add("one")
    response = post(signed_in(alice), reverse("transfers:order", args=["lab"]), seen_ids=seen)
    assert 'class="notice error"' in text_of(response)
    assert not Event.objects.exists()


# ---- one pack ----


def test_the_page_of_a_pack_tells_state_map_lanes_and_digests(
    signed_in: SignedIn, bob: Person, lab: PlannedHost
) -> None:
    pack = lab.add(
        "first", BuildState.FETCHING, chunk_count=4, proven=2, compression="zstd", compression_note="23 % of its size"
    )
    build = pack.builds.get()
    make_check(build, "chunk", "differed", subject=b"3", offset=3 * MEBIBYTE, length=MEBIBYTE, message="Damaged.")
    lab.measure(bytes_per_second=200_000, lanes=2)
    text = text_of(signed_in(bob).get(address_of(pack)))
    assert "2 of 4 chunks are proven; 1 wrong and fetched again; 1 missing." in text
    assert text.count('<i class="v" title') == 2 and text.count('<i class="x" title') == 1
    assert "chunks 1 to 2 : proven" in text.replace(":", " :") and "chunk 4: wrong, fetched again" in text
    assert text.count("100 kB/s") == 2  # two lanes
    assert "23 % of its size" in text and f'data-copy="{build.sha256}"' in text
    assert str(build_folder(build)) in text
    assert "first.tar.zst" in text and "bytes 3,145,728 to 4,194,304" in text and "Damaged." in text


def test_the_map_shows_what_is_here_by_the_ledger_while_a_link_holds_it(
    signed_in: SignedIn, bob: Person, lab: PlannedHost
) -> None:
    pack = lab.add("first", BuildState.FETCHING, chunk_count=4, proven=1, received_bytes=3 * MEBIBYTE)
    build = pack.builds.get()
    folder = build_folder(build)
    folder.mkdir(parents=True)
    chunks = build.chunks.order_by("index").values_list("index", "offset", "length")
    geometry = Geometry([ChunkSpec(*row) for row in chunks])
    cells = CellMap(folder / "first.tar.zst.ledger", build_key(build), geometry)
    try:
        two_chunks = 2 * len(geometry.chunk_cells(0))
        cells.mark(0, two_chunks)
        cells.mark(two_chunks, 3)
        text = text_of(signed_in(bob).get(address_of(pack)))
    finally:
        cells.close()
    assert "1 of 4 chunks are proven; 1 here and not proven yet; 1 here in part; 1 missing." in text


def test_failed_ranges_of_loose_files_name_the_files(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    files = ((b"a.bin", MEBIBYTE), (b"odd\n\xff.bin", MEBIBYTE), (b"c.bin", MEBIBYTE))
    pack = lab.add("loose", BuildState.FETCHING, chunk_count=3, mode=Mode.FILES, files=files)
    make_check(pack.builds.get(), "chunk", "differed", subject=b"1", offset=MEBIBYTE, length=MEBIBYTE)
    text = text_of(signed_in(bob).get(address_of(pack)))
    assert r"loose/odd\n\xff.bin" in text and "loose/c.bin" not in text


def test_names_are_shown_escaped(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    pack = lab.add(
        "first",
        BuildState.NEEDS_DECISION,
        source_path=odd_name(),
        deviations=[{"name": str(odd_name()), "what": "changed", "detail": "size"}],
    )
    text = text_of(signed_in(bob).get(address_of(pack)))
    assert text.count(r"/data/&lt;b&gt;odd&lt;/b&gt;\n\xff \xe2\x80\xae.txt") == 2
    assert "<b>odd" not in text


def test_another_person_accepts_deviations_with_a_note(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    pack = lab.add("first", BuildState.NEEDS_DECISION, deviations=[{"name": "a", "what": "changed", "detail": ""}])
    client, address = signed_in(bob), address_of(pack, "build-accept", number=1)
    assert "This field is required." in text_of(post(client, address, note=""), 422)
    assert pack.builds.get().state == BuildState.NEEDS_DECISION
    response = post(client, address, note="Logs only.")
    assert "The deviations are accepted" in text_of(response)
    build = pack.builds.get()
    assert (build.state, build.deviations_accepted_by) == (BuildState.PACKED, bob)


def test_a_decision_that_is_refused_keeps_what_was_typed(signed_in: SignedIn, bob: Person, lab: PlannedHost) -> None:
    deviations = [{"name": "a", "what": "changed", "detail": ""}]
    pack = lab.add("first", BuildState.NEEDS_DECISION, mode=Mode.FILES, deviations=deviations)
    response = post(signed_in(bob), address_of(pack, "build-accept", number=1), note="A long <thought>.")
    text = text_of(response, 422)
    assert "These deviations cannot be accepted" in text and "A long &lt;thought&gt;." in text
    assert pack.builds.get().state == BuildState.NEEDS_DECISION


@pytest.mark.parametrize("state", [BuildState.FETCHING, BuildState.FAILED, BuildState.OPENED])
def test_only_a_build_that_needs_a_decision_is_decided_on(
    signed_in: SignedIn, bob: Person, lab: PlannedHost, state: BuildState
) -> None:
    pack = lab.add("first", state)
    response = post(signed_in(bob), address_of(pack, "build-accept", number=1), note="fine")
    assert response.status_code == 422
    assert (pack.builds.get().state, Event.objects.count()) == (state, 0)


@pytest.mark.parametrize("state", [BuildState.PACKED, BuildState.VERIFIED, BuildState.OPENED])
def test_only_a_failed_build_is_tried_again(
    signed_in: SignedIn, alice: Person, lab: PlannedHost, state: BuildState
) -> None:
    pack = lab.add("first", state)
    assert "Nothing was changed" in text_of(post(signed_in(alice), address_of(pack, "build-retry", number=1)))
    assert (pack.builds.get().state, Event.objects.count()) == (state, 0)


def test_the_author_of_the_plan_is_not_offered_to_accept(
    signed_in: SignedIn, person: Callable[..., Person], alice: Person, lab: PlannedHost
) -> None:
    pack = lab.add("first", BuildState.NEEDS_DECISION, deviations=[{"name": "a", "what": "changed", "detail": ""}])
    text = text_of(signed_in(alice).get(address_of(pack)))
    assert "an approver other than you" in text and "Pack anew" in text and "Accept these" not in text


def test_a_failed_build_is_tried_again_once(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    pack = lab.add("first", BuildState.FAILED, problem="No space on the host.")
    client, address = signed_in(alice), address_of(pack, "build-retry", number=1)
    assert "No space on the host." in text_of(client.get(address_of(pack)))
    assert "It is tried again" in text_of(post(client, address))
    assert pack.builds.get().state == BuildState.PLANNED
    assert "could not become" in text_of(post(client, address))  # the second of two gets a sentence
    assert Event.objects.filter(act="build.retry").count() == 1


def test_a_build_is_replaced_and_the_old_one_stays_to_be_read(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    pack = lab.add("first", BuildState.FAILED)
    text = text_of(post(signed_in(alice), address_of(pack, "build-replace", number=1)))
    assert "A new build was begun" in text and "Build 2" in text
    old = text_of(signed_in(alice).get(address_of(pack, "build", number=1)))
    assert "not the newest" in old and "replaced" in old


def test_unpacking_is_asked_for_once_at_a_time(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    pack = lab.add("first", BuildState.OPENED)
    client, address = signed_in(alice), address_of(pack, "build-unpack", number=1)
    text = text_of(post(client, address))
    assert str(lab.landing_path / "lab/unpacked/first") in text and "queued" in text
    assert f'action="{address}"' not in text  # not offered while one runs
    assert "being unpacked already" in text_of(post(client, address))
    assert Unpack.objects.get().state == UnpackState.QUEUED


def test_only_an_opened_build_is_unpacked(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    pack = lab.add("first", BuildState.VERIFIED)
    assert "Only an opened build can be unpacked" in text_of(
        post(signed_in(alice), address_of(pack, "build-unpack", number=1))
    )
    assert not Unpack.objects.exists()


def test_a_pack_that_is_not_there_is_not_found(signed_in: SignedIn, alice: Person, lab: PlannedHost) -> None:
    lab.add("first")
    for address in ("/packs/lab/second/", "/packs/other/first/", "/packs/lab/first/builds/9/"):
        assert signed_in(alice).get(address).status_code == 404


def test_a_page_that_was_shown_again_refreshes_from_its_own_address(
    signed_in: SignedIn, alice: Person, lab: PlannedHost
) -> None:
    pack = lab.add("first")
    text = text_of(post(signed_in(alice), address_of(pack, "pack-hold"), reason=""), 422)
    assert f'data-refresh="2" hx-get="{address_of(pack)}"' in text
    older = text_of(signed_in(alice).get(address_of(pack, "build", number=1)))
    assert f'hx-get="{address_of(pack, "build", number=1)}"' in older
