"""No page and no act without sign-in, none without a role: asked of every address that there is."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.converters import IntConverter, PathConverter, SlugConverter, StringConverter, UUIDConverter

from calculet.people.models import Person

pytestmark = pytest.mark.django_db

# Addresses for people who are not signed in, or who sign in and have no role. Anything else here needs a good reason.
WITHOUT_SIGN_IN = {"people:sign-in", "people:link", "set-language", "healthz"}
WITHOUT_A_ROLE = WITHOUT_SIGN_IN | {"people:self", "people:sign-out"}

SAMPLES = {
    IntConverter: 1,
    SlugConverter: "sample",
    UUIDConverter: uuid.UUID(int=1),
    PathConverter: "a/b",
    StringConverter: "sample",
}


def addresses() -> Iterator[tuple[str, str]]:
    """The full name and a sample address of each pattern."""
    yield from _walk(get_resolver(), "", "/")


def _walk(resolver: URLResolver, namespace: str, prefix: str) -> Iterator[tuple[str, str]]:
    for pattern in resolver.url_patterns:
        part = str(pattern.pattern)
        for name, converter in pattern.pattern.converters.items():
            value = next((sample for kind, sample in SAMPLES.items() if isinstance(converter, kind)), "sample")
            for written in (f"<{_short(converter)}:{name}>", f"<{name}>"):
                part = part.replace(written, str(value))
        if isinstance(pattern, URLPattern):
            yield f"{namespace}{pattern.name}", prefix + part
        else:
            yield from _walk(pattern, f"{pattern.namespace}:" if pattern.namespace else namespace, prefix + part)


def _short(converter: object) -> str:
    return type(converter).__name__.removesuffix("Converter").lower().replace("string", "str")


ADDRESSES = sorted(addresses())


def test_every_address_is_walked_and_can_be_resolved() -> None:
    assert len(ADDRESSES) >= 13
    assert len({name for name, _address in ADDRESSES}) == len(ADDRESSES), "each address has a name of its own"
    for name, address in ADDRESSES:
        assert "<" not in address, f"{name}: no sample for {address}"
        assert get_resolver().resolve(address).view_name == name


@pytest.mark.parametrize("name,address", [pair for pair in ADDRESSES if pair[0] not in WITHOUT_SIGN_IN])
def test_a_stranger_is_sent_to_sign_in(client: Client, name: str, address: str) -> None:
    for answer in (client.get(address), client.post(address), client.delete(address)):
        assert answer.status_code == 302, f"{answer.request['REQUEST_METHOD']} answers {answer.status_code}"
        assert answer["Location"].startswith("/people/sign-in/?next=")
    in_part = client.get(address, headers={"HX-Request": "true"})
    assert in_part["HX-Redirect"].startswith("/people/sign-in/?next="), "no sign-in page inside a fragment"


@pytest.mark.parametrize("name,address", [pair for pair in ADDRESSES if pair[0] not in WITHOUT_A_ROLE])
def test_carol_without_a_role_is_refused_before_anything_else(
    signed_in: Callable[[Person], Client], carol: Person, name: str, address: str
) -> None:
    browser = signed_in(carol)
    get, post = browser.get(address), browser.post(address)
    # 405: the other method alone is answered. A 404 would tell her what there is and what there is not.
    assert {get.status_code, post.status_code} <= {403, 405}, (get.status_code, post.status_code)
    assert 403 in {get.status_code, post.status_code}


@pytest.mark.parametrize("address", ["/", "/audit/", "/people/self/", "/nowhere/"])
def test_pages_carry_the_strict_policy_and_are_framed_nowhere(
    signed_in: Callable[[Person], Client], audrey: Person, address: str
) -> None:
    answer = signed_in(audrey).get(address)
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_a_strangers_wrong_address_tells_nothing(client: Client) -> None:
    answer = client.get("/nowhere/")
    assert answer.status_code == 404
    assert "<nav" not in answer.text


def test_an_act_that_was_refused_is_not_done_after_sign_in(client: Client) -> None:
    answer = client.post("/people/sign-out/", headers={"Referer": "http://testserver/people/self/"})
    assert answer["Location"] == "/people/sign-in/?next=/people/self/"


def test_what_breaks_shows_a_page_that_tells_nothing_about_the_inside(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr("calculet.pages.views.connection.cursor", fail)
    answer = Client(raise_request_exception=False).get("/healthz")
    assert answer.status_code == 500
    assert "Something went wrong" in answer.text
    assert "secret" not in answer.text
    assert "a secret of the inside" in caplog.text, "whoever runs it finds the cause in the log"
