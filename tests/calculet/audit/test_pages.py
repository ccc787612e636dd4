"""The audit log in the browser: filters, pages, the chain's state, the export."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.chain import links_read, verify, verify_part
from calculet.audit.exports import links_from_csv
from calculet.audit.filters import BUILT_IN
from calculet.audit.models import Event, SavedView
from calculet.audit.services import record
from calculet.http import new_act_key
from calculet.people.models import Person

pytestmark = pytest.mark.django_db

SignedIn = Callable[[Person], Client]


def act(name: str, *, who: str = "alice", host: str = "lab", pack: str = "", **detail: object) -> None:
    with transaction.atomic():
        record(act=name, actor=Actor(None, who), host=host, pack=pack, detail=detail)


def shown(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<td class="n">(\d+)</td>', page)]


@pytest.fixture
def browser(signed_in: SignedIn, audrey: Person) -> Client:
    return signed_in(audrey)


def test_events_stand_newest_first_with_what_they_say(browser: Client) -> None:
    act("plan.approved", **{"from": "proposed", "to": "approved", "note": "<b>go</b>"})
    act("pack.paused", who="bob")
    page = browser.get("/audit/").text
    assert shown(page) == [2, 1]
    assert "proposed → approved" in page
    assert "&lt;b&gt;go&lt;/b&gt;" in page
    assert "<b>go</b>" not in page


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("act=pack.paused", [2]),
        ("host=lab", [3, 1]),
        ("person=bob", [2]),
        ("pack=weights", [2]),
        ("pack=weight", []),
        ("act=plan.*", [3, 1]),
        ("act=p*", [3, 2, 1]),
        ("act=plan.approved,pack.*", [3, 2, 1]),
        ("act=clearing.*", []),
        ("act=no.such", []),
        ("pack=weights&person=bob&host=barn&act=pack.*&begin=2000-01-01", [2]),
        ("person=alice&host=lab", [3, 1]),
        ("act=pack.paused&person=alice", []),
        ("begin=2000-01-01", [3, 2, 1]),
        ("begin=2999-01-01", []),
        ("end=2000-01-01", []),
        ("person=bob&begin=yesterday", [2]),
    ],
)
def test_filters(browser: Client, query: str, expected: list[int]) -> None:
    act("plan.approved")
    act("pack.paused", who="bob", host="barn", pack="weights")
    act("plan.approved")
    assert shown(browser.get(f"/audit/?{query}").text) == expected


def test_a_day_is_whole(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, at in enumerate(("2026-03-01T23:59:59", "2026-03-02T00:00:00", "2026-03-02T23:59:59.999999")):
        when = datetime.fromisoformat(at).replace(tzinfo=UTC)
        monkeypatch.setattr(timezone, "now", lambda when=when: when)
        act("test.done", number=number)
    monkeypatch.undo()
    assert shown(browser.get("/audit/?begin=2026-03-02&end=2026-03-02").text) == [3, 2]


@pytest.mark.parametrize("query", ["person=nobody", "begin=yesterday", "page=nine", "page=999", "page=-1"])
def test_what_makes_no_sense_is_told_and_breaks_nothing(browser: Client, query: str) -> None:
    act("plan.approved")
    assert shown(browser.get(f"/audit/?{query}").text) == [1]


def test_pages_keep_the_filter(browser: Client) -> None:
    for _number in range(60):
        act("plan.approved")
    act("pack.paused")
    first = browser.get("/audit/?act=plan.approved").text
    assert shown(first) == list(range(60, 10, -1))
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    assert shown(browser.get("/audit/" + following.group(1).replace("&amp;", "&")).text) == list(range(10, 0, -1))


def test_verify_now_is_an_act_and_its_verdict_is_shown(browser: Client) -> None:
    act("plan.approved")
    assert "never walked" in browser.get("/audit/").text
    key = new_act_key()
    assert browser.post("/audit/verify/", {"act_key": key}).status_code == 302
    page = browser.get("/audit/chain/").text
    assert "The audit chain is whole: 1 events" in page
    for address in ("/audit/", "/audit/chain/", "/audit/?act=plan.approved"):
        page = browser.get(address).text
        assert "whole</span> up to event 2" in page
        assert 'whole</span> up to event 2 <span class="digest"' in page and Event.objects.get(sequence=2).hash in page
    assert Event.objects.first().act == "audit.verified"  # type: ignore[union-attr]
    browser.post("/audit/verify/", {"act_key": key})
    assert Event.objects.count() == 2, "the same form does its act once"


def test_a_broken_chain_is_shown_as_broken(browser: Client, tamper: Callable[..., None]) -> None:
    tamper("UPDATE audit_event SET detail = 'not json' WHERE sequence = 2")
    browser.post("/audit/verify/", {"act_key": new_act_key()})
    page = browser.get("/audit/").text
    assert "The audit chain is broken at event 2" in page
    assert "The chain does not hold at event 2: its content is not what was recorded." in browser.get("/audit/").text
    assert "broken</span>" in page
    assert shown(page) == [6, 5, 4, 3, 2, 1], "a row that was tampered with is still shown"


def test_an_export_is_whole_and_tells_who_took_it(browser: Client) -> None:
    act("plan.approved")
    answer = browser.post("/audit/export/")
    assert answer["Content-Disposition"].startswith('attachment; filename="audit-')
    lines = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert verify(links_read(lines)).whole
    assert [json.loads(line)["act"] for line in lines] == ["plan.approved", "audit.exported"]
    assert json.loads(lines[-1])["actor"] == "audrey"


def test_approvers_read_and_verify_but_do_not_export(signed_in: SignedIn, bob: Person) -> None:
    browser = signed_in(bob)
    page = browser.get("/audit/")
    assert page.status_code == browser.get("/audit/chain/").status_code == 200
    assert "Export" not in page.text
    assert browser.post("/audit/export/").status_code == 403
    assert not Event.objects.exists()


def test_planners_do_not_read_the_log(signed_in: SignedIn, alice: Person) -> None:
    browser = signed_in(alice)
    assert browser.get("/audit/").status_code == browser.get("/audit/chain/").status_code == 403
    assert browser.post("/audit/verify/", {"act_key": new_act_key()}).status_code == 403
    assert "Audit</a>" not in browser.get("/people/self/").text


def test_the_built_in_views_are_honest_while_there_is_nothing(browser: Client) -> None:
    act("plan.approve")
    page = browser.get("/audit/?act=clearing.%2A").text
    assert "Nothing was cleared on any host" in page and shown(page) == []
    act("clearing.done", who="bob")
    page = browser.get("/audit/?act=clearing.%2A").text
    assert "Who cleared remote archives: 1 event fits" in page and shown(page) == [2]
    for view in BUILT_IN:
        assert f'href="?{view.query}"' in page
        assert f"{view.name}: " in browser.get(f"/audit/?{view.query}").text


def test_a_view_is_saved_for_its_person_alone_and_removed(browser: Client, signed_in: SignedIn, bob: Person) -> None:
    act("pack.paused", who="bob", pack="weights")
    query = "act=pack.*&person=bob&begin=2020-01-01"
    assert "Save this view" in browser.get(f"/audit/?{query}").text
    answer = browser.post("/audit/views/", {"act_key": new_act_key(), "query": query, "name": "What bob stops"})
    assert answer["Location"] == "/audit/?act=pack.%2A&person=bob&begin=2020-01-01"
    page = browser.get(answer["Location"]).text
    assert "What bob stops: 1 event fits" in page and shown(page) == [1]
    assert "What bob stops</a>" not in signed_in(bob).get("/audit/").text
    view = SavedView.objects.get()
    address = f"/audit/views/{view.pk}/remove/"
    assert signed_in(bob).post(address, {"act_key": new_act_key()}).status_code == 404
    assert browser.post(address, {"act_key": new_act_key()}).status_code == 302
    assert not SavedView.objects.exists()
    assert [event.act for event in Event.objects.order_by("sequence")][1:] == ["audit.view_saved", "audit.view_removed"]


@pytest.mark.parametrize(("name", "query"), [("", "act=plan.*"), ("x" * 61, "act=plan.*"), ("all", ""), ("all", "a=b")])
def test_a_view_needs_a_name_and_a_filter(browser: Client, name: str, query: str) -> None:
    browser.post("/audit/views/", {"act_key": new_act_key(), "query": query, "name": name})
    assert "Nothing was saved" in browser.get("/audit/").text
    assert not SavedView.objects.exists() and not Event.objects.exists()


def test_an_export_of_a_view_holds_what_the_view_shows(browser: Client, tmp_path: Path) -> None:
    for number in range(4):
        act("plan.approved", number=number, who="=cmd|' /C calc'!A0")
        act("pack.paused", who="bob")
    for form, links_of in (("jsonl", links_read), ("csv", links_from_csv)):
        answer = browser.post("/audit/export/", {"query": "act=plan.*", "form": form})
        assert answer["Content-Disposition"].startswith('attachment; filename="audit-part-')
        assert answer["Content-Disposition"].endswith(f'.{form}"')
        text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
        links = list(links_of(io.StringIO(text, newline="")))
        assert [link.sequence for link in links] == [1, 3, 5, 7]
        assert verify_part(links).whole and links[0].actor == "=cmd|' /C calc'!A0"
        name = tmp_path / f"part.{form}"
        name.write_text(text, newline="")
        out = io.StringIO()
        call_command("verify_audit", "--export", str(name), "--part", stdout=out)
        assert "Each of the 4 events of this part holds" in out.getvalue()
        name.write_text(text.replace("bob", "eve").replace("plan.approved", "plan.declined", 1), newline="")
        with pytest.raises(CommandError, match="broken at event 1"):
            call_command("verify_audit", "--export", str(name), "--part")
    told = json.loads(Event.objects.filter(act="audit.exported").latest("sequence").detail)
    assert told == {"filter": {"act": "plan.*"}, "form": "csv"}


@pytest.mark.parametrize("sent", [{"form": "xlsx"}, {"query": "person=nobody"}, {"query": "begin=yesterday"}])
def test_an_export_that_makes_no_sense_is_refused(browser: Client, sent: dict[str, str]) -> None:
    act("plan.approved")
    assert browser.post("/audit/export/", sent).status_code == 400
    assert Event.objects.count() == 1
