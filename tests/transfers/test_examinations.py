"""Examinations of a link as rows, as a page and as a command, on a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser
from pytest_django.live_server_helper import LiveServer

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.people.models import Person
from calculet.people.roles import NotAllowed
from inventory.models import Host
from tests.browser_fixtures import signing_in
from tests.hosts import host_make
from tests.sshd import Sshd
from tests.transfers import jobs
from tests.transfers.doctor.test_advice import KNOWN, LOSSY
from tests.transfers.factories import PlannedHost
from transfers.doctor.advice import advise
from transfers.models import ExaminationState, LaneMinute, LinkExamination
from transfers.selectors.examinations import link_history
from transfers.services import examinations
from transfers.services.examinations import examination_request, examination_run
from transfers.services.ticks import due_now

SignedIn = Callable[[Person], Client]


@pytest.fixture
def host(sshd: Sshd, alice: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(examinations, "CONNECTION_SECONDS", 0.5)
    (tmp_path / "home").mkdir()
    jobs.landing_make(tmp_path / "home")
    return host_make(sshd, alice)


def _kept(host: Host, **fields: object) -> LinkExamination:
    """An examination as it is kept, without a network."""
    return LinkExamination.objects.create(
        host=host,
        state=ExaminationState.FINISHED,
        facts=LOSSY.as_json(),
        history={"best_bytes_per_second": KNOWN.best_bytes_per_second, "best_lanes": KNOWN.best_lanes},
        advice=[one.as_json() for one in advise(LOSSY, KNOWN)],
        **fields,
    )


@pytest.mark.django_db
def test_an_examination_is_asked_for_done_and_kept_with_its_events(host: Host, alice: Person, carol: Person) -> None:
    with pytest.raises(NotAllowed):
        examination_request(host=host, actor=Actor.of(carol))
    row = examination_request(host=host, actor=Actor.of(alice))
    with pytest.raises(ValidationError, match="already"):
        examination_request(host=host, actor=Actor.of(alice))
    assert due_now().examinations == (row.pk,)
    examination_run(row.pk)
    examination_run(row.pk)
    row.refresh_from_db()
    assert row.state == ExaminationState.FINISHED, row.problem
    assert row.facts["one"]["bytes_per_second"] > 0 and row.facts["own_write_bytes_per_second"] > 0
    assert any(one["subject"] == "one connection" for one in row.advice)
    acts = list(Event.objects.filter(act__startswith="link.exam").order_by("pk").values_list("act", flat=True))
    assert acts == ["link.examine", "link.examine_begin", "link.examined"]
    assert due_now().examinations == ()


@pytest.mark.django_db
def test_a_host_that_is_away_is_told_as_such(host: Host, sshd: Sshd, alice: Person) -> None:
    sshd.stop()
    row = examination_request(host=host, actor=Actor.of(alice))
    examination_run(row.pk)
    row.refresh_from_db()
    assert row.state == ExaminationState.FAILED and "cannot be reached" in row.problem


@pytest.mark.django_db
def test_the_command_prints_sentences_or_one_object_and_keeps_a_row(host: Host, alice: Person) -> None:
    out = StringIO()
    call_command("link_doctor", host.name, "--json", "--as", alice.username, stdout=out)
    found = json.loads(out.getvalue())
    assert set(found) == {"host", "facts", "history", "advice"} and found["facts"]["round_trip_seconds"] > 0
    assert LinkExamination.objects.get().requested_by == alice
    with pytest.raises(CommandError, match="no host called"):
        call_command("link_doctor", "nowhere", "--as", alice.username)


@pytest.mark.django_db
def test_the_history_is_that_of_the_number_of_lanes_that_brought_most(alice: Person, tmp_path: Path) -> None:
    lab = PlannedHost(alice, tmp_path)
    assert link_history(lab.host).best_lanes is None
    lab.minutes([200_000, 300_000], lanes=4)
    lab.minutes([900_000], lanes=16)
    LaneMinute.objects.create(host=lab.host, at=lab.host.goodput_minutes.latest("at").at, refusals=3)
    found = link_history(lab.host)
    assert (found.best_lanes, found.best_bytes_per_second, found.measured_seconds) == (16, 900_000, 60)
    assert found.refusals == 3 and not found.is_fetching


@pytest.mark.django_db
def test_the_page_shows_sentences_with_figures_and_offers_the_act_to_operators_alone(
    alice: Person, audrey: Person, carol: Person, tmp_path: Path, signed_in: SignedIn
) -> None:
    lab = PlannedHost(alice, tmp_path)
    address = reverse("transfers:link-doctor", args=[lab.host.name])
    assert "was not examined yet" in signed_in(alice).get(address).content.decode()
    _kept(lab.host)
    LinkExamination.objects.create(host=lab.host, state=ExaminationState.FAILED, problem="It is away.")
    seen = signed_in(audrey).get(address).content.decode()
    assert "It is away." in seen and "Examine the link" not in seen
    assert "181 ms" in seen and "1.01 %" in seen, "the earlier one is listed"
    assert signed_in(audrey).post(address).status_code == 403
    assert signed_in(carol).get(address).status_code == 403


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_the_page_stays_within_narrow_and_wide_windows(
    browser: Browser, live_server: LiveServer, alice: Person, tmp_path: Path
) -> None:
    lab = PlannedHost(alice, tmp_path)
    for _ in range(2):
        _kept(lab.host, requested_by=alice)
    with signing_in(browser, live_server.url) as sign_in:
        page = sign_in(alice)
        page.goto(reverse("transfers:link", args=[lab.host.name]))
        page.get_by_role("link", name="Link doctor").click()
        page.get_by_text("with bbr on the host one connection would reach").wait_for()
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
