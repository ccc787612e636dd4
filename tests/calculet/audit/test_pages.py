"""The audit log in the browser: filters, pages, the chain's state, the export."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from calculet.actors import Actor
from calculet.audit.chain import links_read, verify
from calculet.audit.models import Event
from calculet.audit.services import record
from calculet.http import new_act_key
from calculet.people.models import Person

pytestmark = pytest.mark.django_db

SignedIn = Callable[[Person], Client]


def act(name: str, *, who: str = "alice", host: str = "lab", **detail: object) -> None:
    with transaction.atomic():
        record(act=name, actor=Actor(None, who), host=host, detail=detail)


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
    act("pack.paused", who="bob", host="barn")
    act("plan.approved")
    assert shown(browser.get(f"/audit/?{query}").text) == expected


def test_a_day_is_whole(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, at in enumerate(("2026-03-01T23:59:59", "2026-03-02T00:00:00", "2026-03-02T23:59:59.999999")):
        when = datetime.fromisoformat(at).replace(tzinfo=UTC)
        monkeypatch.setattr(timezone, "now", lambda when=when: when)
        act("test.done", number=number)
    monkeypatch.undo()
    assert shown(browser.get("/audit/?begin=2026-03-02&end=2026-03-02").text) == [3, 2]


@pytest.mark.parametrize("query", ["act=no.such", "begin=yesterday", "page=nine", "page=999", "page=-1"])
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
    page = browser.get("/audit/").text
    assert "The audit chain is whole: 1 events" in page
    assert "whole</span>" in page
    assert Event.objects.first().act == "audit.verified"  # type: ignore[union-attr]
    browser.post("/audit/verify/", {"act_key": key})
    assert Event.objects.count() == 2, "the same form does its act once"


def test_a_broken_chain_is_shown_as_broken(browser: Client, tamper: Callable[..., None]) -> None:
    tamper("UPDATE audit_event SET detail = 'not json' WHERE sequence = 2")
    browser.post("/audit/verify/", {"act_key": new_act_key()})
    page = browser.get("/audit/").text
    assert "The audit chain is broken at event 2" in page
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
    assert page.status_code == 200
    assert "Export" not in page.text
    assert browser.post("/audit/export/").status_code == 403
    assert not Event.objects.exists()


def test_planners_do_not_read_the_log(signed_in: SignedIn, alice: Person) -> None:
    browser = signed_in(alice)
    assert browser.get("/audit/").status_code == 403
    assert browser.post("/audit/verify/", {"act_key": new_act_key()}).status_code == 403
    assert "Audit</a>" not in browser.get("/people/self/").text
