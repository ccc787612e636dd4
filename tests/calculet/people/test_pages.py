"""Signing in, one-time links, one's own page, and the people page, as a browser meets them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from calculet.actors import Actor
from calculet.audit.models import Event
from calculet.http import new_act_key
from calculet.people import services
from calculet.people.models import Person
from calculet.people.roles import Role
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db

SECRET = "a long enough secret 7"
SignedIn = Callable[[Person], Client]


def sign_in(client: Client, name: str, password: str, **more: str) -> int:
    return client.post("/people/sign-in/", {"username": name, "password": password, **more}).status_code


def test_the_right_password_signs_in_and_leads_back(client: Client, carol: Person) -> None:
    answer = client.post("/people/sign-in/", {"username": "carol", "password": PASSWORD, "next": "/people/self/?a=1"})
    assert (answer.status_code, answer["Location"]) == (302, "/people/self/?a=1")
    assert client.get("/people/self/").status_code == 200
    assert [event.act for event in Event.objects.all()] == ["session.began"]


def test_a_crafted_way_back_leads_to_the_first_page(client: Client, carol: Person) -> None:
    for crafted in ("https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"):
        answer = Client().post("/people/sign-in/", {"username": "carol", "password": PASSWORD, "next": crafted})
        assert answer["Location"] == "/"


def test_too_many_wrong_passwords_pause_that_name_at_that_address(client: Client, carol: Person, dan: Person) -> None:
    statuses = [sign_in(client, "carol", "wrong") for _try in range(10)]
    assert statuses[:9] == [200] * 9
    assert statuses[9] == 429
    assert sign_in(client, "carol", PASSWORD) == 429, "even the right password waits"
    assert sign_in(Client(), "dan", PASSWORD) == 302, "nobody is locked out by somebody else's guesses"
    assert sign_in(Client(REMOTE_ADDR="192.0.2.7"), "carol", PASSWORD) == 302


def test_wrong_name_and_wrong_password_are_told_alike(client: Client, carol: Person) -> None:
    pages = [
        client.post("/people/sign-in/", {"username": name, "password": "wrong"}).content.replace(name.encode(), b"")
        for name in ("carol", "norac")
    ]
    assert pages[0].split(b"csrf")[0] == pages[1].split(b"csrf")[0]


def test_carol_without_a_role_sees_only_a_page_that_says_so(signed_in: SignedIn, carol: Person) -> None:
    page = signed_in(carol).get("/people/self/")
    assert page.status_code == 200
    assert "You have no role yet" in page.text
    assert page.text.count("<nav") == 0
    for address in ("/", "/people/", "/audit/"):
        refused = signed_in(carol).get(address)
        assert refused.status_code == 403
        assert "You have no role yet" in refused.text


def test_somebody_with_a_role_is_told_which_one_is_needed(signed_in: SignedIn, alice: Person) -> None:
    refused = signed_in(alice).get("/people/")
    assert refused.status_code == 403
    assert "it needs the role admin" in refused.text


def test_the_setup_link_makes_the_first_admin_and_then_is_gone(client: Client) -> None:
    address = f"/people/link/{services.setup_link_make()}/"
    assert "The first admin" in client.get(address).text
    weak = client.post(address, {"username": "ada", "new_password1": "short", "new_password2": "short"})
    assert weak.status_code == 200
    assert "at least 10 characters" in weak.text
    answer = client.post(address, {"username": "ada", "new_password1": SECRET, "new_password2": SECRET})
    assert (answer.status_code, answer["Location"]) == (302, "/people/")
    assert client.get("/people/").status_code == 200
    assert Client().get(address).status_code == 410
    again = Client().post(address, {"username": "eve", "new_password1": SECRET, "new_password2": SECRET})
    assert again.status_code == 410
    assert not Person.objects.filter(username="eve").exists()


def test_a_link_that_never_was_is_told(client: Client) -> None:
    page = client.get("/people/link/nonsense/")
    assert page.status_code == 410
    assert "This link was used, has expired, or was replaced" in page.text


def test_a_password_link_signs_in_and_ends_other_sessions(signed_in: SignedIn, ada: Person, carol: Person) -> None:
    old = signed_in(carol)
    assert old.get("/people/self/").status_code == 200
    token = services.password_link_make(actor=Actor.of(ada), person=carol)
    fresh = Client()
    answer = fresh.post(f"/people/link/{token}/", {"new_password1": SECRET, "new_password2": SECRET})
    assert answer["Location"] == "/people/self/"
    assert fresh.get("/people/self/").status_code == 200
    assert old.get("/people/self/").status_code == 302


def test_a_change_of_password_keeps_this_session_and_ends_the_others(signed_in: SignedIn, carol: Person) -> None:
    here, elsewhere = signed_in(carol), signed_in(carol)
    wrong = {"old_password": "wrong", "new_password1": SECRET, "new_password2": SECRET}
    assert here.post("/people/self/", wrong).status_code == 200
    assert Person.objects.get(pk=carol.pk).check_password(PASSWORD)
    answer = here.post("/people/self/", {**wrong, "old_password": PASSWORD})
    assert answer.status_code == 302
    assert "Your password was changed" in here.get("/people/self/").text
    assert elsewhere.get("/people/self/").status_code == 302
    assert [event.act for event in Event.objects.all()] == ["password.set"]


def test_signing_out_is_an_event(signed_in: SignedIn, carol: Person) -> None:
    browser = signed_in(carol)
    assert browser.get("/people/sign-out/").status_code == 405
    browser.post("/people/sign-out/")
    assert browser.get("/people/self/").status_code == 302
    assert [event.act for event in Event.objects.all()] == ["session.ended"]


def test_an_admin_adds_a_person_once_and_shows_the_link_once(signed_in: SignedIn, ada: Person) -> None:
    browser = signed_in(ada)
    form = {"username": "eve", "full_name": "Eve", "roles": ["viewer", "planner"], "act_key": new_act_key()}
    page = browser.post("/people/", form)
    assert page.status_code == 200
    assert page["Cache-Control"] == "no-store"
    eve = Person.objects.get(username="eve")
    assert eve.roles == {Role.VIEWER, Role.PLANNER}
    link = page.text.split('data-copy="')[1].split('"')[0]
    assert Client().get(link).status_code == 200
    browser.post("/people/", {**form, "username": "eve2"})
    assert not Person.objects.filter(username="eve2").exists(), "the same form does its act once"
    taken = browser.post("/people/", {**form, "act_key": new_act_key()})
    assert "somebody called “eve” already" in taken.text
    assert link not in browser.get(f"/people/{eve.pk}/").text


def test_a_taken_name_can_be_corrected_in_the_same_form(signed_in: SignedIn, ada: Person) -> None:
    browser, key = signed_in(ada), new_act_key()
    assert "already" in browser.post("/people/", {"username": "ada", "act_key": key}).text
    browser.post("/people/", {"username": "eve", "act_key": key})
    assert Person.objects.filter(username="eve").exists(), "an act that was refused does not use its key up"


def test_a_form_without_its_key_does_nothing(signed_in: SignedIn, ada: Person) -> None:
    assert signed_in(ada).post("/people/", {"username": "eve"}).status_code == 400
    assert not Person.objects.filter(username="eve").exists()


def test_roles_are_set_as_ticked_and_each_change_is_an_event(signed_in: SignedIn, ada: Person, alice: Person) -> None:
    alices = signed_in(alice)
    browser = signed_in(ada)
    browser.post(f"/people/{alice.pk}/roles/", {"roles": ["operator", "auditor"]})
    assert Person.objects.get(pk=alice.pk).roles == {Role.OPERATOR, Role.AUDITOR}
    assert sorted(event.act for event in Event.objects.all()) == ["role.given", "role.withdrawn"]
    assert alices.get("/people/self/").status_code == 302, "withdrawing a role ends sessions at once"


def test_the_last_admin_is_refused_as_a_whole(signed_in: SignedIn, ada: Person) -> None:
    browser = signed_in(ada)
    browser.post(f"/people/{ada.pk}/roles/", {"roles": ["viewer"]})
    assert "This is the last active admin" in browser.get(f"/people/{ada.pk}/").text
    assert Person.objects.get(pk=ada.pk).roles == {Role.ADMIN}, "Nothing was changed, as the sentence says"
    assert not Event.objects.exists()
    browser.post(f"/people/{ada.pk}/active/", {"active": "no"})
    assert Person.objects.get(pk=ada.pk).is_active


def test_somebody_shut_out_is_out_at_once(signed_in: SignedIn, ada: Person, carol: Person) -> None:
    theirs, browser = signed_in(carol), signed_in(ada)
    browser.post(f"/people/{carol.pk}/active/", {"active": "no"})
    assert theirs.get("/people/self/").status_code == 302
    assert sign_in(Client(), "carol", PASSWORD) == 200
    browser.post(f"/people/{carol.pk}/active/", {"active": "yes"})
    assert sign_in(Client(), "carol", PASSWORD) == 302


def test_an_unknown_role_is_refused(signed_in: SignedIn, ada: Person, carol: Person) -> None:
    assert signed_in(ada).post(f"/people/{carol.pk}/roles/", {"roles": ["king"]}).status_code == 400
    assert not Event.objects.exists()


def test_a_stale_token_does_nothing_and_says_so(ada: Person) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada, backend="django.contrib.auth.backends.ModelBackend")
    page = browser.post("/people/sign-out/")
    assert page.status_code == 403
    assert "Nothing was done" in page.text
    assert browser.get("/people/self/").status_code == 200
